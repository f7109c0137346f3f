// A cubin is a 64-bit ELF file. A kernel k has a section .text.k, and .nv.shared.k when it uses
// shared memory; .nv.info lists attributes: registers and stack frame of each function.
#include "cuda/driver/cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace ac4k::cuda {
namespace {

// Attributes of .nv.info that are a (symbol, value) pair.
constexpr uint8_t kPairFormat = 4;
constexpr uint8_t kRegisterCount = 0x2f;
constexpr uint8_t kFrameSize = 0x11;
// Where the system keeps a part of every block's shared memory (9.0 and later), this section is
// there and .nv.shared.k includes that part.
constexpr std::string_view kReservedSection = ".nv.shared.reserved.0";
constexpr int kReservedShared = 1024;

constexpr std::string_view kTextPrefix = ".text.";
constexpr std::string_view kSharedPrefix = ".nv.shared.";

class CubinReader {
 public:
  explicit CubinReader(std::string_view bytes) : bytes_(bytes) {}

  bool read(std::vector<KernelResources>* out) {
    if (!read_at(0, &header_) || std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header_.e_ident[EI_CLASS] != ELFCLASS64) return false;
    sections_.resize(header_.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i) {
      if (!read_at(header_.e_shoff + i * sizeof(Elf64_Shdr), &sections_[i])) return false;
    }
    if (header_.e_shstrndx >= sections_.size()) return false;
    for (const Elf64_Shdr& section : sections_) {
      const std::string name = string_at(sections_[header_.e_shstrndx], section.sh_name);
      // Only kernels have constant bank 0, where their parameters are; device functions do not.
      if (name.starts_with(kTextPrefix) &&
          find_section(".nv.constant0." + name.substr(kTextPrefix.size())) != nullptr) {
        out->push_back({name.substr(kTextPrefix.size())});
      }
    }
    std::sort(out->begin(), out->end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    const bool reserved = find_section(kReservedSection) != nullptr;
    for (KernelResources& kernel : *out) {
      const Elf64_Shdr* shared = find_section(std::string(kSharedPrefix) + kernel.name);
      if (shared == nullptr) continue;
      const int size = static_cast<int>(shared->sh_size);
      kernel.shared_bytes = reserved ? std::max(0, size - kReservedShared) : size;
    }
    return read_attributes(out);
  }

 private:
  template <typename T>
  bool read_at(uint64_t offset, T* out) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + offset, sizeof(T));
    return true;
  }

  std::string_view contents(const Elf64_Shdr& section) const {
    if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size()) return {};
    return bytes_.substr(section.sh_offset, section.sh_size);
  }

  std::string string_at(const Elf64_Shdr& table, uint64_t offset) const {
    const std::string_view text = contents(table);
    if (offset >= text.size()) return "";
    const std::string_view rest = text.substr(offset);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  const Elf64_Shdr* find_section(std::string_view name) const {
    for (const Elf64_Shdr& section : sections_) {
      if (string_at(sections_[header_.e_shstrndx], section.sh_name) == name) return &section;
    }
    return nullptr;
  }

  std::string symbol_name(uint32_t index) const {
    const Elf64_Shdr* symbols = find_section(".symtab");
    Elf64_Sym symbol;
    if (symbols == nullptr || symbols->sh_link >= sections_.size()) return "";
    const uint64_t offset = uint64_t{index} * sizeof symbol;
    if (offset >= symbols->sh_size || !read_at(symbols->sh_offset + offset, &symbol)) return "";
    return string_at(sections_[symbols->sh_link], symbol.st_name);
  }

  bool read_attributes(std::vector<KernelResources>* out) const {
    const Elf64_Shdr* info = find_section(".nv.info");
    if (info == nullptr) return out->empty();
    std::string_view left = contents(*info);
    while (left.size() >= 4) {
      const auto format = static_cast<uint8_t>(left[0]);
      const auto attribute = static_cast<uint8_t>(left[1]);
      uint16_t size = 0;
      std::memcpy(&size, left.data() + 2, sizeof size);
      left.remove_prefix(4);
      if (format != kPairFormat) continue;  // the value was in the place of the size
      if (size > left.size()) return false;
      if (size >= 8 && (attribute == kRegisterCount || attribute == kFrameSize)) {
        uint32_t pair[2];
        std::memcpy(pair, left.data(), sizeof pair);
        const std::string name = symbol_name(pair[0]);
        for (KernelResources& kernel : *out) {
          if (kernel.name != name) continue;
          (attribute == kRegisterCount ? kernel.registers : kernel.local_bytes) =
              static_cast<int>(pair[1]);
        }
      }
      left.remove_prefix(size);
    }
    return true;
  }

  std::string_view bytes_;
  Elf64_Ehdr header_ = {};
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

Status read_cubin(std::string_view cubin, std::vector<KernelResources>* out) {
  out->clear();
  if (!CubinReader(cubin).read(out)) {
    return fail(AC4K_RUNTIME_ERROR, "not a readable cubin (", cubin.size(), " bytes)");
  }
  return AC4K_OK;
}

}  // namespace ac4k::cuda
