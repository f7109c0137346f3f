// From a source to a cubin: options, key, cache, compiler.
#include "cuda/driver/jit.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "cuda/driver/arch.hpp"
#include "cuda/driver/cache.hpp"
#include "cuda/driver/includes.hpp"
#include "cuda/driver/nvrtc.hpp"
#include "cuda/driver/progress.hpp"
#include "cuda/driver/settings.hpp"
#include "cuda/driver/sha256.hpp"

namespace ac4k::cuda {
namespace {

namespace fs = std::filesystem;

// A new number makes every older entry a miss: for a change in what the key or an entry means.
constexpr std::string_view kSchema = "ac4k-jit-1";

// What every kernel is compiled with, beside the architecture. The static build gives nvcc the
// same: the optimiser's default (3), IEEE arithmetic (no fast math).
constexpr const char* kDefaultFlags[] = {"-std=c++20"};

// Options, parted into what the key takes as it is and what is only a path.
struct Options {
  std::vector<std::string> flags;
  std::vector<fs::path> include_dirs;
  std::vector<std::string> pre_includes;
};

Options parse_options(const std::vector<std::string>& given) {
  Options out;
  const auto value_of = [&](size_t* i, std::string_view name, std::string* value) {
    const std::string& option = given[*i];
    if (!option.starts_with(name)) return false;
    std::string rest = option.substr(name.size());
    if (rest.empty() && *i + 1 < given.size()) {
      rest = given[++*i];
    } else if (rest.starts_with('=') || rest.starts_with(' ')) {
      rest.erase(0, rest.find_first_not_of("= "));
    } else if (name != "-I") {
      return false;  // "-includefoo" is not ours to understand
    }
    *value = rest;
    return true;
  };
  for (size_t i = 0; i < given.size(); ++i) {
    std::string value;
    if (value_of(&i, "--include-path", &value) || value_of(&i, "-I", &value)) {
      out.include_dirs.emplace_back(value);
    } else if (value_of(&i, "--pre-include", &value) || value_of(&i, "-include", &value)) {
      out.pre_includes.push_back(value);
    } else {
      out.flags.push_back(given[i]);
    }
  }
  const bool has_std = std::any_of(out.flags.begin(), out.flags.end(), [](const std::string& f) {
    return f.starts_with("-std") || f.starts_with("--std");
  });
  for (const char* flag : kDefaultFlags) {
    if (!(has_std && std::strncmp(flag, "-std", 4) == 0)) out.flags.emplace_back(flag);
  }
  return out;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

Status refuse(OnMiss on_miss, const std::string& name, const std::string& arch) {
  if (on_miss == OnMiss::refuse_capturing) {
    return fail(AC4K_RUNTIME_ERROR, name, " for ", arch,
                ": would compile under stream capture; call it once before, or run `ac4k jit "
                "build`");
  }
  return fail(AC4K_UNSUPPORTED, name, " has no compiled kernel for ", arch,
              " and the JIT is off (AC4K_JIT=off); `ac4k jit build --arch ", arch,
              "` compiles it ahead of time");
}

// The way both kinds of sources take.
Status compile(CompileJob job, const std::string& name, const std::string& arch,
               const std::vector<std::string>& given_options, OnMiss on_miss, Cubin* out) {
  std::string target;
  AC4K_TRY(compiler_arch(arch, &target));
  const Nvrtc* nvrtc = nullptr;
  if (const Status status = Nvrtc::get(&nvrtc); status != AC4K_OK) {
    return on_miss == OnMiss::refuse_off ? refuse(on_miss, name, arch) : status;
  }

  Options options = parse_options(given_options);
  options.flags.insert(options.flags.begin(), "--gpu-architecture=" + target);
  std::vector<fs::path> roots = options.include_dirs;
  roots.push_back(data_dir() / "src");
  for (const fs::path& dir : nvrtc->include_dirs()) roots.push_back(dir);

  std::vector<std::string> first;
  for (const std::string& header : options.pre_includes) first.push_back('"' + header + '"');
  Sha256 hash;
  hash.add_field(kSchema).add_field(nvrtc->id()).add_field(arch).add_field(job.source);
  hash.add_field(join_lines(options.flags)).add_field(join_lines(job.entries));
  add_to_hash(scan_includes(job.source, job.path.parent_path(), roots, first), &hash);
  out->key = hash.hex();

  job.options = options.flags;
  for (const fs::path& root : roots) job.options.push_back("-I" + root.string());
  for (const std::string& header : options.pre_includes) {
    job.options.push_back("--pre-include=" + header);
  }

  const Cache cache = Cache::from_settings();
  CacheEntry entry;
  Cache::Origin origin = Cache::Origin::cache;
  if (on_miss != OnMiss::compile) {
    std::optional<CacheEntry> found = cache.find(out->key);
    if (!found) return refuse(on_miss, name, arch);
    entry = std::move(*found);
  } else {
    const auto build = [&](CacheEntry* fresh) -> Status {
      const Progress progress("compiling " + name + " for " + arch);
      const auto start = std::chrono::steady_clock::now();
      CompileResult result;
      AC4K_TRY(nvrtc->compile(job, &result));
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      *fresh = {.cubin = std::move(result.cubin),
                .name = name,
                .arch = arch,
                .compiler = nvrtc->id(),
                .flags = join_lines(options.flags),
                .log = std::move(result.log),
                .lowered = std::move(result.lowered),
                .seconds = taken.count()};
      return AC4K_OK;
    };
    AC4K_TRY(cache.get_or_build(out->key, name, build, &entry, &origin));
  }
  out->bytes = std::move(entry.cubin);
  out->name = name;
  out->arch = arch;
  out->origin = origin == Cache::Origin::cache ? "cache" : "compiled";
  out->compiler = std::move(entry.compiler);
  out->log = std::move(entry.log);
  out->seconds = entry.seconds;
  out->lowered = std::move(entry.lowered);
  return AC4K_OK;
}

// Module names become file names: nothing that could lead elsewhere.
Status check_module_name(const std::string& module) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/";
  if (module.empty() || module.front() == '/' || module.back() == '/' ||
      module.find_first_not_of(kAllowed) != std::string::npos) {
    return fail(AC4K_INVALID_VALUE, "'", module,
                "' is not a module name; expected one like common/stream");
  }
  return AC4K_OK;
}

bool is_arch_folder(const std::string& name) {
  return name.size() > 3 && name.starts_with("sm") && name[2] >= '0' && name[2] <= '9';
}

}  // namespace

OnMiss on_miss_by_setting() {
  return std::strcmp(jit_mode(), "off") == 0 ? OnMiss::refuse_off : OnMiss::compile;
}

Status compile_source(const std::string& source, const std::string& entry,
                      const std::vector<std::string>& options, const std::string& arch,
                      OnMiss on_miss, Cubin* out) {
  return compile({.source = source, .path = {}, .options = {}, .entries = {entry}}, entry, arch,
                 options, on_miss, out);
}

Status compile_module(const std::string& module, const std::string& arch, OnMiss on_miss,
                      Cubin* out) {
  AC4K_TRY(check_module_name(module));
  CompileJob job;
  job.path = data_dir() / "src" / (module + ".cu");
  if (!read_file(job.path, &job.source)) {
    return fail(AC4K_INVALID_VALUE, "there is no kernel module '", module, "': cannot read ",
                job.path.string());
  }
  return compile(std::move(job), module, arch, {}, on_miss, out);
}

Status find_cubin(const std::string& module, const std::string& arch, OnMiss on_miss, Cubin* out) {
  AC4K_TRY(check_module_name(module));
  std::string unused;
  AC4K_TRY(compiler_arch(arch, &unused));
  if (std::strcmp(jit_mode(), "force") != 0) {
    std::string file = module + "." + arch + ".cubin";
    std::replace(file.begin(), file.end(), '/', '.');
    if (read_file(data_dir() / "cubin" / file, &out->bytes)) {
      out->name = module;
      out->arch = arch;
      out->origin = "package";
      return AC4K_OK;
    }
  }
  return compile_module(module, arch, on_miss, out);
}

std::vector<std::string> list_modules(const std::string& arch) {
  std::vector<std::string> modules;
  const fs::path root = data_dir() / "src";
  std::error_code error;
  for (const auto& item : fs::recursive_directory_iterator(root, error)) {
    if (item.path().extension() != ".cu") continue;
    const fs::path name = item.path().lexically_relative(root).replace_extension();
    const std::string folder = name.begin()->string();
    if (is_arch_folder(folder) && folder != arch) continue;
    modules.push_back(name.generic_string());
  }
  std::sort(modules.begin(), modules.end());
  return modules;
}

}  // namespace ac4k::cuda
