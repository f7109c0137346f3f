// The watcher thread behind a progress line.
#include "cuda/driver/progress.hpp"

#include <chrono>
#include <cstdio>
#include <system_error>

namespace ac4k::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(1);

}  // namespace

Progress::Progress(std::string doing) : doing_(std::move(doing)) {
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    // No thread to be had: the work matters, the line does not.
  }
}

void Progress::watch() {
  const auto start = Clock::now();
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, kPatience, [this] { return done_; })) return;
  std::fprintf(stderr, "ac4k: %s ...\n", doing_.c_str());
  ended_.wait(lock, [this] { return done_; });
  const std::chrono::duration<double> taken = Clock::now() - start;
  std::fprintf(stderr, "ac4k: %s took %.1f s\n", doing_.c_str(), taken.count());
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace ac4k::cuda
