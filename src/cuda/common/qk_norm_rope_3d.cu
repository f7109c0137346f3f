// qk_norm_rope_3d: RMS norm of q and k over all heads, then rope_3d.
#include "common/qk_norm_rope.cuh"

namespace ac4k {

using ExactGrid = GridPositions<double, double>;
using FastGridF64 = GridPositions<double, float>;
using FastGridF32 = GridPositions<float, float>;

}  // namespace ac4k

// kRoom: an SM should have room for so many threads, which is what limits their registers.
#define AC4K_QK_NORM_ROPE_3D_KERNEL(name, T, Source, kVectors, kThreads, kRoom) \
  extern "C" __global__ void __launch_bounds__(kRoom, 1) name(                  \
      const __grid_constant__ ac4k::Rope3dParams params) {                      \
    ac4k::norm_rotate_rows<T, ac4k::Source, kVectors, kThreads>(params);        \
  }
#define AC4K_QK_NORM_ROPE_3D_SOURCE(name, T, suffix, Source)                            \
  AC4K_QK_NORM_ROPE_3D_KERNEL(name##_1_##suffix, T, Source, 1, 256, 1024)               \
  AC4K_QK_NORM_ROPE_3D_KERNEL(name##_2_##suffix, T, Source, 2, 128, 1024)               \
  AC4K_QK_NORM_ROPE_3D_KERNEL(name##_4_##suffix, T, Source, 4, 512, 640)                \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeThreads) name##_any_##suffix( \
      const __grid_constant__ ac4k::Rope3dParams params) {                              \
    ac4k::norm_rotate_rows_any<T, ac4k::Source>(params);                                \
  }
#define AC4K_QK_NORM_ROPE_3D(T, suffix)                                         \
  AC4K_QK_NORM_ROPE_3D_SOURCE(qk_norm_rope_3d_exact, T, suffix, ExactGrid)      \
  AC4K_QK_NORM_ROPE_3D_SOURCE(qk_norm_rope_3d_fast_f64, T, suffix, FastGridF64) \
  AC4K_QK_NORM_ROPE_3D_SOURCE(qk_norm_rope_3d_fast_f32, T, suffix, FastGridF32)

AC4K_QK_NORM_ROPE_3D(float, f32)
AC4K_QK_NORM_ROPE_3D(__half, f16)
AC4K_QK_NORM_ROPE_3D(__nv_bfloat16, bf16)
