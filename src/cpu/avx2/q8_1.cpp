// Products of raw GGUF blocks with q8_1 activations at the avx2 level: 16-bit products of the even
// and the odd bytes, which no pair of codes can overflow.
#include "cpu/avx2/block.hpp"

namespace ac4k::cpu::avx2 {
namespace {

struct MultiplyAdd {
  static AC4K_INLINE void store_activations(const int8_t (&x)[32], int8_t* to) {
    int16_t ordered[32];
    for (int i = 0; i < 16; ++i) {
      ordered[i] = x[2 * i];
      ordered[16 + i] = x[2 * i + 1];
    }
    __builtin_memcpy(to, ordered, sizeof ordered);
  }
  static AC4K_INLINE __m256i dot(__m256i codes, const int8_t* x) {
    const auto* planes = reinterpret_cast<const __m256i*>(x);
    const __m256i even = _mm256_and_si256(codes, _mm256_set1_epi16(0xff));
    const __m256i odd = _mm256_srli_epi16(codes, 8);
    return _mm256_add_epi32(_mm256_madd_epi16(even, _mm256_loadu_si256(planes)),
                            _mm256_madd_epi16(odd, _mm256_loadu_si256(planes + 1)));
  }
};

}  // namespace

constinit const BlockProductKernels kBlockProducts = make_block_products<Block256<MultiplyAdd>>();

}  // namespace ac4k::cpu::avx2
