// rope_3d: rotary position embedding by a token's place in a grid of frames, rows and columns.
#include "common/rope.cuh"

namespace ac4k {

using ExactGrid = GridPositions<double, double>;
using FastGridF64 = GridPositions<double, float>;
using FastGridF32 = GridPositions<float, float>;

}  // namespace ac4k

// A thread has four vectors of 16 bytes in flight. The exact form costs, for each pair, 4 FP64
// operations (64 a clock and SM on sm90a) and 4 conversions from and to FP64 (16 a clock and SM):
// a quarter of a clock for 8 bytes of traffic, or 7.4 TB/s on 132 SMs at 1.75 GHz.
#define AC4K_ROPE_3D_KERNEL(name, T, Source, kPairs, kVector)               \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeThreads, 4) name( \
      const __grid_constant__ ac4k::Rope3dParams params) {                  \
    ac4k::rotate_heads<T, ac4k::Source, kPairs, 4, false, kVector>(params); \
  }
#define AC4K_ROPE_3D_SOURCE(name, T, suffix, Source)                   \
  AC4K_ROPE_3D_KERNEL(name##_##suffix, T, Source, 8 / sizeof(T), true) \
  AC4K_ROPE_3D_KERNEL(name##_any_##suffix, T, Source, 1, false)
#define AC4K_ROPE_3D(T, suffix)                                 \
  AC4K_ROPE_3D_SOURCE(rope_3d_exact, T, suffix, ExactGrid)      \
  AC4K_ROPE_3D_SOURCE(rope_3d_fast_f64, T, suffix, FastGridF64) \
  AC4K_ROPE_3D_SOURCE(rope_3d_fast_f32, T, suffix, FastGridF32)

AC4K_ROPE_3D(float, f32)
AC4K_ROPE_3D(__half, f16)
AC4K_ROPE_3D(__nv_bfloat16, bf16)
