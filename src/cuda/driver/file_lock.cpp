// flock with a time-out.
#include "cuda/driver/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

namespace ac4k::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kSilence = std::chrono::seconds(1);

}  // namespace

FileLock::FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience,
                   const std::string& work) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return;
  const auto start = Clock::now();
  bool said = false;
  while (!(held_ = flock(fd_, LOCK_EX | LOCK_NB) == 0)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;
    const auto waited = Clock::now() - start;
    if (waited >= patience) {
      std::fprintf(stderr, "ac4k: waited %.0f s for another process %s; going on without it\n",
                   std::chrono::duration<double>(waited).count(), work.c_str());
      return;
    }
    if (waited >= kSilence && !said) {
      std::fprintf(stderr, "ac4k: waiting for another process %s ...\n", work.c_str());
      said = true;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  // Explicitly: a forked child has a copy of the descriptor, which would keep it locked.
  if (held_) flock(fd_, LOCK_UN);
  close(fd_);
}

}  // namespace ac4k::cuda
