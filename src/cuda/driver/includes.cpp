// The recursive include scanner.
#include "cuda/driver/includes.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <tuple>

namespace ac4k::cuda {
namespace {

namespace fs = std::filesystem;

// No source, header, cubin or entry's description comes near; a damaged file may seem to.
constexpr std::streamoff kMaxFileBytes = std::streamoff{1} << 28;

// "x" or <x> at the start of `text`, with its quotes; empty when there is neither.
std::string quoted_name(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return "";
  text.remove_prefix(start);
  if (text[0] != '"' && text[0] != '<') return "";
  const size_t end = text.find(text[0] == '<' ? '>' : '"', 1);
  return end == std::string_view::npos ? "" : std::string(text.substr(0, end + 1));
}

// The includes one line asks for: `#include x`, or `__has_include(x)` anywhere in it.
void names_in_line(std::string_view line, std::vector<std::string>* out) {
  size_t at = line.find_first_not_of(" \t");
  if (at == std::string_view::npos || line[at] != '#') return;
  at = line.find_first_not_of(" \t", at + 1);
  if (at == std::string_view::npos) return;
  std::string_view rest = line.substr(at);
  if (rest.starts_with("include")) {
    const std::string name = quoted_name(rest.substr(7));
    // `#include MACRO` cannot be followed; the macro's name still counts.
    out->push_back(!name.empty() ? name : std::string(rest));
    return;
  }
  constexpr std::string_view kProbe = "__has_include";
  for (size_t found = rest.find(kProbe); found != std::string_view::npos;
       found = rest.find(kProbe)) {
    rest.remove_prefix(found + kProbe.size());
    const size_t open = rest.find_first_not_of(" \t");
    if (open == std::string_view::npos || rest[open] != '(') continue;
    if (std::string name = quoted_name(rest.substr(open + 1)); !name.empty()) out->push_back(name);
  }
}

std::vector<std::string> names_in(std::string_view source) {
  std::vector<std::string> names;
  while (!source.empty()) {
    const size_t end = source.find('\n');
    names_in_line(source.substr(0, end), &names);
    source.remove_prefix(end == std::string_view::npos ? source.size() : end + 1);
  }
  return names;
}

// What scanning needs of a header.
struct Header {
  std::string sha256;
  std::vector<std::string> names;
};

// Reads a header, or remembers it from an earlier scan of this process: CUDA's own take a megabyte
// of hashing. One changed within the last seconds is not remembered, as its time may not tell the
// next change.
bool read_header(const fs::path& path, Header* out) {
  constexpr time_t kSettled = 2;
  using Identity = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<Identity, Header>;
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return false;
  const Identity identity = {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                             status.st_mtim.tv_nsec};
  {
    const std::lock_guard lock(*mutex);
    if (const auto found = known->find(identity); found != known->end()) {
      *out = found->second;
      return true;
    }
  }
  std::string contents;
  if (!read_file(path, &contents)) return false;
  *out = {sha256_hex(contents), names_in(contents)};
  if (std::abs(std::time(nullptr) - status.st_mtim.tv_sec) > kSettled) {
    const std::lock_guard lock(*mutex);
    known->emplace(identity, *out);
  }
  return true;
}

class Scanner {
 public:
  explicit Scanner(const std::vector<fs::path>& roots) : roots_(roots) {}

  void scan(const std::vector<std::string>& names, const fs::path& folder) {
    for (const std::string& name : names) visit(name, folder);
  }

  std::vector<IncludeRecord> records;

 private:
  void visit(const std::string& name, const fs::path& folder) {
    const fs::path path = resolve(name, folder);
    if (path.empty()) {
      records.push_back({name});
      return;
    }
    std::error_code error;
    const std::string identity = fs::weakly_canonical(path, error).string();
    if (const auto seen = index_.find(identity); seen != index_.end()) {
      records.push_back({name, seen->second});
      return;
    }
    Header header;
    if (!read_header(path, &header)) {
      records.push_back({name});
      return;
    }
    const int index = static_cast<int>(index_.size());
    index_.emplace(identity, index);
    records.push_back({name, index, header.sha256});
    scan(header.names, path.parent_path());
  }

  fs::path resolve(const std::string& name, const fs::path& folder) const {
    if (name.size() < 3 || (name[0] != '"' && name[0] != '<')) return {};
    const fs::path relative = name.substr(1, name.size() - 2);
    std::error_code error;
    if (name[0] == '"' && !folder.empty() && fs::is_regular_file(folder / relative, error)) {
      return folder / relative;
    }
    for (const fs::path& root : roots_) {
      if (fs::is_regular_file(root / relative, error)) return root / relative;
    }
    return {};
  }

  const std::vector<fs::path>& roots_;
  std::map<std::string, int> index_;
};

}  // namespace

bool read_file(const fs::path& path, std::string* out) {
  // Before it is opened: a FIFO would wait for someone to write.
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  if (size < 0 || size > kMaxFileBytes) return false;
  out->resize(static_cast<size_t>(size));
  stream.seekg(0);
  return size == 0 || stream.read(out->data(), size).good();
}

std::vector<IncludeRecord> scan_includes(std::string_view source, const fs::path& folder,
                                         const std::vector<fs::path>& roots,
                                         const std::vector<std::string>& first) {
  Scanner scanner(roots);
  scanner.scan(first, folder);
  scanner.scan(names_in(source), folder);
  return std::move(scanner.records);
}

void add_to_hash(const std::vector<IncludeRecord>& records, Sha256* hash) {
  hash->add_field(static_cast<uint64_t>(records.size()));
  for (const IncludeRecord& record : records) {
    hash->add_field(record.spelling);
    hash->add_field(static_cast<uint64_t>(static_cast<int64_t>(record.file)));
    hash->add_field(record.sha256);
  }
}

}  // namespace ac4k::cuda
