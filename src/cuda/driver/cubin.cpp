// A cubin is a 64-bit ELF file. A kernel k has a section .text.k, and .nv.shared.k when it uses
// shared memory; .nv.info lists attributes: registers and stack frame of each function, and
// .nv.info.k the parameters of k.
#include "cuda/driver/cubin.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace ac4k::cuda {
namespace {

// How an attribute keeps its value: bytes behind it, else in the place of their number.
constexpr uint8_t kBytesFormat = 4;
// Attributes of .nv.info that are a (symbol, value) pair.
constexpr uint8_t kRegisterCount = 0x2f;
constexpr uint8_t kFrameSize = 0x11;
// Attributes of .nv.info.k: all parameters together, and a record for each, of the second kind
// where one has more bytes than the first has bits for.
constexpr uint8_t kParamSize = 0x19;
constexpr uint8_t kParam = 0x17;
constexpr uint8_t kLargeParam = 0x45;

struct ParamRecord {
  uint32_t index;
  uint16_t ordinal;
  uint16_t offset;
  uint32_t bits;  // kParam: the size from bit 18 on; kLargeParam: up to bit 16
};
// Where the system keeps a part of every block's shared memory (9.0 and later), this section is
// there and .nv.shared.k includes that part.
constexpr std::string_view kReservedSection = ".nv.shared.reserved.0";
constexpr int kReservedShared = 1024;

constexpr std::string_view kTextPrefix = ".text.";
constexpr std::string_view kSharedPrefix = ".nv.shared.";
constexpr std::string_view kInfoSection = ".nv.info";

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
      kernel.param_bytes = read_params(kernel.name);
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

  // visit(attribute, value of the place of the size, bytes behind it); false for what is damaged.
  template <typename Visit>
  bool visit_attributes(const Elf64_Shdr& info, Visit&& visit) const {
    std::string_view left = contents(info);
    while (left.size() >= 4) {
      const auto format = static_cast<uint8_t>(left[0]);
      const auto attribute = static_cast<uint8_t>(left[1]);
      uint16_t value = 0;
      std::memcpy(&value, left.data() + 2, sizeof value);
      left.remove_prefix(4);
      const size_t size = format == kBytesFormat ? value : 0;
      if (size > left.size()) return false;
      visit(attribute, value, left.substr(0, size));
      left.remove_prefix(size);
    }
    return true;
  }

  bool read_attributes(std::vector<KernelResources>* out) const {
    const Elf64_Shdr* info = find_section(kInfoSection);
    if (info == nullptr) return out->empty();
    return visit_attributes(*info, [&](uint8_t attribute, uint16_t, std::string_view bytes) {
      uint32_t pair[2];
      if (bytes.size() < sizeof pair || (attribute != kRegisterCount && attribute != kFrameSize)) {
        return;
      }
      std::memcpy(pair, bytes.data(), sizeof pair);
      const std::string name = symbol_name(pair[0]);
      for (KernelResources& kernel : *out) {
        if (kernel.name != name) continue;
        (attribute == kRegisterCount ? kernel.registers : kernel.local_bytes) =
            static_cast<int>(pair[1]);
      }
    });
  }

  // Records come in any order. They are taken only if they make up the whole.
  std::optional<std::vector<uint32_t>> read_params(const std::string& kernel) const {
    std::map<uint16_t, std::pair<uint32_t, uint32_t>> params;  // ordinal -> offset, size
    uint32_t total = 0;
    const Elf64_Shdr* info = find_section(std::string(kInfoSection) + "." + kernel);
    const auto visit = [&](uint8_t attribute, uint16_t value, std::string_view bytes) {
      if (attribute == kParamSize) total = value;
      ParamRecord record;
      if ((attribute != kParam && attribute != kLargeParam) || bytes.size() < sizeof record) return;
      std::memcpy(&record, bytes.data(), sizeof record);
      params[record.ordinal] = {record.offset,
                                attribute == kParam ? record.bits >> 18 : record.bits & 0xffff};
    };
    if (info == nullptr || !visit_attributes(*info, visit)) return std::nullopt;
    std::vector<uint32_t> sizes;
    uint32_t end = 0;
    for (const auto& [ordinal, param] : params) {
      if (ordinal != sizes.size() || param.first < end) return std::nullopt;
      sizes.push_back(param.second);
      end = param.first + param.second;
    }
    return end == total ? std::optional(std::move(sizes)) : std::nullopt;
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
