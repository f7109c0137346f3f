// A lock between processes.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace ac4k::cuda {

// An flock on a file of its own. The kernel drops it with the process, so a killed one leaves none
// behind. Holding it is a courtesy that avoids duplicate work, never a condition for correctness:
// after `patience` (or where locks do not work) the caller simply goes on without it.
class FileLock {
 public:
  // `work` names what the holder does, for the line on stderr when the wait is long.
  FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience,
           const std::string& work);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool held() const { return held_; }

 private:
  int fd_ = -1;
  bool held_ = false;
};

}  // namespace ac4k::cuda
