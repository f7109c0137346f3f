// qk_norm_rope: RMS norm of each head of q and k, then rope.
#include "common/qk_norm_rope.cuh"

#define AC4K_QK_NORM_ROPE_KERNEL(name, T, kNeox)                                               \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeTableThreads, ac4k::kNormRopeBlocks) \
  name(const __grid_constant__ ac4k::RopeParams params) {                                      \
    ac4k::norm_rotate_heads<T, ac4k::TablePositions, kNeox>(params);                           \
  }
#define AC4K_QK_NORM_ROPE_USUAL(name, T, kNeox)                                                 \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeTableThreads, ac4k::kUsualHeadBlocks) \
  name(const __grid_constant__ ac4k::RopeParams params) {                                       \
    ac4k::norm_rotate_usual<T, ac4k::TablePositions, kNeox>(params);                            \
  }
#define AC4K_QK_NORM_ROPE_ANY(name, T, kNeox)                            \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeThreads) name( \
      const __grid_constant__ ac4k::RopeParams params) {                 \
    ac4k::norm_rotate_any<T, ac4k::TablePositions, kNeox>(params);       \
  }
#define AC4K_QK_NORM_ROPE(T, suffix)                                         \
  AC4K_QK_NORM_ROPE_KERNEL(qk_norm_rope_neox_##suffix, T, true)              \
  AC4K_QK_NORM_ROPE_KERNEL(qk_norm_rope_interleaved_##suffix, T, false)      \
  AC4K_QK_NORM_ROPE_USUAL(qk_norm_rope_usual_neox_##suffix, T, true)         \
  AC4K_QK_NORM_ROPE_USUAL(qk_norm_rope_usual_interleaved_##suffix, T, false) \
  AC4K_QK_NORM_ROPE_ANY(qk_norm_rope_any_neox_##suffix, T, true)             \
  AC4K_QK_NORM_ROPE_ANY(qk_norm_rope_any_interleaved_##suffix, T, false)

AC4K_QK_NORM_ROPE(float, f32)
AC4K_QK_NORM_ROPE(__half, f16)
AC4K_QK_NORM_ROPE(__nv_bfloat16, bf16)
