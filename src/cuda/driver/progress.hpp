// A line on stderr for work that takes over a second, so that nobody takes it for a hang.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ac4k::cuda {

// Says "ac4k: <doing> ..." once a second has passed, and how long it took when it ends. Silent for
// anything shorter.
class Progress {
 public:
  explicit Progress(std::string doing);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void watch();

  const std::string doing_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread watcher_;
};

}  // namespace ac4k::cuda
