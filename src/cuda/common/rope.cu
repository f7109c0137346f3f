// rope and mrope: rotary position embedding by a table of cosines and sines.
#include "common/rope.cuh"

// A thread has 16 bytes of each of four heads in flight.
#define AC4K_ROPE_KERNEL(name, T, Source, kPairs, kHeads, kNeox, kVector)        \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeTableThreads, 8) name( \
      const __grid_constant__ ac4k::RopeParams params) {                         \
    ac4k::rotate_heads<T, ac4k::Source, kPairs, kHeads, kNeox, kVector>(params); \
  }
#define AC4K_ROPE_FEW_KERNEL(name, T, Source, kPairs, kNeox)                  \
  extern "C" __global__ void __launch_bounds__(ac4k::kRopeTableThreads) name( \
      const __grid_constant__ ac4k::Source::FewParams params) {               \
    ac4k::rotate_few<T, ac4k::Source, kPairs, kNeox>(params);                 \
  }
#define AC4K_ROPE_SOURCE(op, T, suffix, Source)                                         \
  AC4K_ROPE_FEW_KERNEL(op##_few_neox_##suffix, T, Source, 8 / sizeof(T), true)          \
  AC4K_ROPE_FEW_KERNEL(op##_few_interleaved_##suffix, T, Source, 8 / sizeof(T), false)  \
  AC4K_ROPE_KERNEL(op##_neox_##suffix, T, Source, 8 / sizeof(T), 4, true, true)         \
  AC4K_ROPE_KERNEL(op##_interleaved_##suffix, T, Source, 8 / sizeof(T), 4, false, true) \
  AC4K_ROPE_KERNEL(op##_any_neox_##suffix, T, Source, 1, 4, true, false)                \
  AC4K_ROPE_KERNEL(op##_any_interleaved_##suffix, T, Source, 1, 4, false, false)
#define AC4K_ROPE(T, suffix)                        \
  AC4K_ROPE_SOURCE(rope, T, suffix, TablePositions) \
  AC4K_ROPE_SOURCE(mrope, T, suffix, SectionPositions)

AC4K_ROPE(float, f32)
AC4K_ROPE(__half, f16)
AC4K_ROPE(__nv_bfloat16, bf16)
