// Which instruction-set level runs: found once when the library loads, changed by set_isa.
//
// Flags per folder, besides -std=c++20 -O3 -fopenmp for all:
//   src/cpu/*.cpp, src/cpu/generic  none: the x86-64 baseline
//   src/cpu/avx2                    -mavx2 -mfma -mf16c
//   src/cpu/avx512, src/cpu/amx     -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl
//                                   -mprefer-vector-width=512
//   src/cpu/avx512/*_vnni.cpp       -mavx512vnni besides, chosen by has_vnni()
//   src/cpu/avx512/*_vbmi.cpp       -mavx512vnni -mavx512vbmi, chosen by has_vbmi() besides
//   src/cpu/avx512/*_bf16.cpp, src/cpu/amx/panels.cpp  -mavx512bf16 besides, chosen by has_bf16()
// A flag more than these must come with its test in detect(). AMX instructions are written in
// assembly and need no flag.
#include <atomic>
#include <string>

#include "cpu/common/q8_1_table.hpp"
#include "cpu/common/table.hpp"
#include "cpu/kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/kernels.hpp"
#endif

namespace ac4k::cpu {
namespace {

constexpr Isa kLevels[] = {Isa::generic, Isa::avx2, Isa::avx512, Isa::amx};

#if defined(__x86_64__)
bool has_bit(unsigned value, int bit) { return (value >> bit) & 1u; }

// Register state the operating system saves: 1 and 2 SSE and AVX, 5 to 7 AVX-512, 17 and 18 AMX.
uint64_t saved_state() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

// Linux gives a process the 8 KiB of tile state only on request.
bool request_tile_state() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Isa detect() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return Isa::generic;
  const bool xsave = has_bit(ecx, 27), fma = has_bit(ecx, 12), f16c = has_bit(ecx, 29);
  if (!xsave || !fma || !f16c) return Isa::generic;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return Isa::generic;
  constexpr uint64_t kAvxState = 0x6, kAvx512State = 0xe6, kAmxState = 0x60000;
  const uint64_t state = saved_state();
  if ((state & kAvxState) != kAvxState || !has_bit(ebx, 5)) return Isa::generic;
  const bool f = has_bit(ebx, 16), dq = has_bit(ebx, 17), bw = has_bit(ebx, 30);
  const bool vl = has_bit(ebx, 31);
  if ((state & kAvx512State) != kAvx512State || !f || !dq || !bw || !vl) return Isa::avx2;
  const bool amx_bf16 = has_bit(edx, 22), amx_tile = has_bit(edx, 24);
  if ((state & kAmxState) != kAmxState || !amx_bf16 || !amx_tile || !request_tile_state()) {
    return Isa::avx512;
  }
  return Isa::amx;
}

// Within the avx512 level, not every CPU has these.
bool has_vnni() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && has_bit(ecx, 11);
}
bool has_vbmi() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && has_bit(ecx, 1);
}
bool has_bf16() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && has_bit(eax, 5);
}
// VDPBF16PS is twice as fast as float32 FMA on Zen 4 and slower on Intel's cores (82 against 133
// GFLOP/s on one core of Emerald Rapids), which have tiles for it.
bool has_fast_bf16() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kAuth = 0x68747541;  // "Auth" of AuthenticAMD
  return has_bf16() && __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == kAuth;
}

const Kernels& table_of(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return avx2::kKernels;
    case Isa::avx512:
      return avx512::kKernels;
    case Isa::amx:
      return amx::kKernels;
    case Isa::generic:
      break;
  }
  return generic::kKernels;
}
#else
Isa detect() { return Isa::generic; }
const Kernels& table_of(Isa) { return generic::kKernels; }
#endif

// Made at first use, so that other files' static initialisers may call set_isa.
struct State {
  const Isa best = detect();
  std::atomic<Isa> isa{best};
  std::atomic<const Kernels*> table{&table_of(best)};
};

State& state() {
  static State instance;
  return instance;
}

std::string level_names(Isa last) {
  std::string names;
  for (const Isa isa : kLevels) {
    if (isa > last) break;
    names += names.empty() ? "" : ", ";
    names += name_of(isa);
  }
  return names;
}

}  // namespace

const Kernels& kernels() { return *state().table.load(std::memory_order_acquire); }

#if defined(__x86_64__)
const DecodeKernels& decode_kernels(WeightFormat format) {
  static const bool vnni = has_vnni(), vbmi = vnni && has_vbmi();
  if (active_isa() < Isa::avx512 || !vnni) return *kernels().linear->decode;
  const bool few_bits = format == WeightFormat::q2_k || format == WeightFormat::q3_k;
  return few_bits && vbmi ? avx512::kDecodeVbmi : avx512::kDecodeVnni;
}

const PanelKernels& panel_kernels(Element activations) {
  static const bool bf16 = has_bf16(), fast_bf16 = has_fast_bf16();
  const Isa isa = active_isa();
  if (isa == Isa::amx && bf16) return activations == kBF16 ? amx::kPanelsBF16 : amx::kPanelsSplit;
  if (isa == Isa::avx512 && fast_bf16 && activations == kBF16) return avx512::kPanelsBF16;
  return *kernels().linear->exact;
}

const BlockProductKernels& block_product_kernels() {
  static const bool vnni = has_vnni();
  const Isa isa = active_isa();
  return isa >= Isa::avx512 && vnni ? avx512::kBlockProductsVnni
         : isa >= Isa::avx2         ? avx2::kBlockProducts
                                    : generic::kBlockProducts;
}
#else
const DecodeKernels& decode_kernels(WeightFormat) { return *kernels().linear->decode; }
const PanelKernels& panel_kernels(Element) { return *kernels().linear->exact; }
const BlockProductKernels& block_product_kernels() { return generic::kBlockProducts; }
#endif

uint32_t cpu_signature() {
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return eax;
#endif
  return 0;
}

Isa detected_isa() { return state().best; }
Isa active_isa() { return state().isa.load(std::memory_order_relaxed); }

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return "generic";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::amx:
      return "amx";
  }
  return "unknown";
}

Status set_isa(std::string_view name) {
  State& now = state();
  Isa wanted = now.best;
  if (name != "auto") {
    bool known = false;
    for (const Isa isa : kLevels) {
      if (name != name_of(isa)) continue;
      known = true;
      wanted = isa;
    }
    if (!known) {
      return fail(AC4K_INVALID_VALUE, "cpu_isa: expected auto, ", level_names(Isa::amx), ", got '",
                  name, "'");
    }
    if (wanted > now.best) {
      return fail(AC4K_UNSUPPORTED, "cpu_isa: this CPU has no ", name, "; available: auto, ",
                  level_names(now.best));
    }
  }
  now.isa.store(wanted, std::memory_order_relaxed);
  now.table.store(&table_of(wanted), std::memory_order_release);
  return AC4K_OK;
}

}  // namespace ac4k::cpu
