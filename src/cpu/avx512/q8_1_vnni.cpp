// Products of raw GGUF blocks with q8_1 activations on CPUs with VNNI: a block is 32 bytes, so half
// a register of the level.
#include "cpu/avx2/block.hpp"

namespace ac4k::cpu::avx512 {
namespace {

struct Vnni {
  static AC4K_INLINE void store_activations(const int8_t (&x)[32], int8_t* to) {
    __builtin_memcpy(to, x, sizeof x);
  }
  static AC4K_INLINE __m256i dot(__m256i codes, const int8_t* x) {
    return _mm256_dpbusd_epi32(_mm256_setzero_si256(), codes,
                               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  }
};

}  // namespace

constinit const BlockProductKernels kBlockProductsVnni = make_block_products<Block256<Vnni>>();

}  // namespace ac4k::cpu::avx512
