#include "gguf/mapping.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ac4k::gguf {
namespace {

Status system_error(std::string_view name, const char* action) {
  return fail(AC4K_RUNTIME_ERROR, name, ": cannot ", action, ": ", std::strerror(errno));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

}  // namespace

Status Mapping::open(const char* path, std::string_view name) {
  // O_NONBLOCK: a pipe is refused below, not waited for.
  const Descriptor file{::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) return system_error(name, "open");
  struct stat facts{};
  if (fstat(file.number, &facts) != 0) return system_error(name, "examine");
  if (!S_ISREG(facts.st_mode)) {
    return fail(AC4K_INVALID_VALUE, name, ": expected a regular file");
  }
  if (facts.st_size == 0) return AC4K_OK;  // nothing to map; the parser misses the magic
  const auto size = static_cast<size_t>(facts.st_size);
  // Without MAP_NORESERVE a file larger than the free memory could be refused.
  void* const bytes =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
  if (bytes == MAP_FAILED) return system_error(name, "map");
  bytes_ = bytes;
  size_ = size;
  return AC4K_OK;
}

Mapping::~Mapping() {
  if (bytes_ != nullptr) munmap(bytes_, size_);
}

}  // namespace ac4k::gguf
