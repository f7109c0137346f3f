// Matrix products of warpgroups (wgmma), 16-bit factors and float sums, and what products of warps
// (common/warp_product.cuh) read.
#pragma once

#include "common/types.cuh"
#include "common/warp_product.cuh"

namespace ac4k {

// Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&matrices)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(address)
               : "memory");
}

// --- Warpgroups --------------------------------------------------------------------------------

// For the compiler to know it: what descriptors are made of then stays in uniform registers.
__device__ __forceinline__ int same_in_warp(int value) {
  return __shfl_sync(0xffffffffu, value, 0);
}

// Registers that the next wgmma reads are written, and those of the one before it may be.
__device__ __forceinline__ void fence_registers() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending groups of products are under way.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Describes a matrix of 64 columns of K in rows of 128 bytes, swizzled by 128 bytes, 8 rows after
// another. Sixteenths of addresses can be added: one instruction, as long as the compiler does not
// see that an "or" would do.
__device__ __forceinline__ uint64_t matrix_at(uint32_t address) {
  constexpr uint32_t kSwizzle128 = 1u << 30, kEightRows = 1024 >> 4, kUnused = 1u << 16;
  uint64_t descriptor;
  asm("mov.b64 %0, {%1, %2};"
      : "=l"(descriptor)
      : "r"(kUnused | address >> 4), "n"(kSwizzle128 | kEightRows));
  return descriptor;
}

// d += a * b, or d = a * b without kAdd: a is 64 x 16, from registers, b 16 x kColumns in shared
// memory, K first.
template <int kColumns>
struct WarpgroupProduct;

// Operands 0 to 15, 16 to 31 and so on.
#define AC4K_OPERANDS_0              \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define AC4K_OPERANDS_1                      \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define AC4K_OPERANDS_2                      \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define AC4K_OPERANDS_3                      \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define AC4K_OPERANDS_4                      \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define AC4K_OPERANDS_5                      \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define AC4K_OPERANDS_6                          \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define AC4K_OPERANDS_7                              \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define AC4K_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define AC4K_SUMS_16(i) AC4K_SUMS_4(i), AC4K_SUMS_4(i + 4), AC4K_SUMS_4(i + 8), AC4K_SUMS_4(i + 12)
#define AC4K_FACTORS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
#define AC4K_WGMMA(columns, type, sums, a_operands, b_operand, add, ...)                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type " {" sums \
               "}, " a_operands ", " b_operand ", " #add ", 1, 1, 0;\n"                        \
               : __VA_ARGS__                                                                   \
               : AC4K_FACTORS)
// `a` and `b`: their operands' numbers, which follow those of the sums.
#define AC4K_WARPGROUP_PRODUCT(columns, sums, a_operands, b_operand, ...)                       \
  template <>                                                                                   \
  struct WarpgroupProduct<columns> {                                                            \
    template <typename T, bool kAdd = true>                                                     \
    static __device__ __forceinline__ void run(float (&d)[columns / 2], const uint32_t (&a)[4], \
                                               uint64_t b) {                                    \
      if constexpr (is_same<T, __nv_bfloat16>) {                                                \
        static_assert(kAdd);                                                                    \
        AC4K_WGMMA(columns, "bf16", sums, a_operands, b_operand, 1, __VA_ARGS__);               \
      } else if constexpr (kAdd) {                                                              \
        AC4K_WGMMA(columns, "f16", sums, a_operands, b_operand, 1, __VA_ARGS__);                \
      } else {                                                                                  \
        AC4K_WGMMA(columns, "f16", sums, a_operands, b_operand, 0, __VA_ARGS__);                \
      }                                                                                         \
    }                                                                                           \
  };
AC4K_WARPGROUP_PRODUCT(16, "%0, %1, %2, %3, %4, %5, %6, %7", "{%8, %9, %10, %11}", "%12",
                       AC4K_SUMS_4(0), AC4K_SUMS_4(4))
AC4K_WARPGROUP_PRODUCT(32, AC4K_OPERANDS_0, "{%16, %17, %18, %19}", "%20", AC4K_SUMS_16(0))
AC4K_WARPGROUP_PRODUCT(64, AC4K_OPERANDS_0 ", " AC4K_OPERANDS_1, "{%32, %33, %34, %35}", "%36",
                       AC4K_SUMS_16(0), AC4K_SUMS_16(16))
AC4K_WARPGROUP_PRODUCT(128,
                       AC4K_OPERANDS_0 ", " AC4K_OPERANDS_1 ", " AC4K_OPERANDS_2
                                       ", " AC4K_OPERANDS_3,
                       "{%64, %65, %66, %67}", "%68", AC4K_SUMS_16(0), AC4K_SUMS_16(16),
                       AC4K_SUMS_16(32), AC4K_SUMS_16(48))
AC4K_WARPGROUP_PRODUCT(256,
                       AC4K_OPERANDS_0 ", " AC4K_OPERANDS_1 ", " AC4K_OPERANDS_2
                                       ", " AC4K_OPERANDS_3 ", " AC4K_OPERANDS_4
                                       ", " AC4K_OPERANDS_5 ", " AC4K_OPERANDS_6
                                       ", " AC4K_OPERANDS_7,
                       "{%128, %129, %130, %131}", "%132", AC4K_SUMS_16(0), AC4K_SUMS_16(16),
                       AC4K_SUMS_16(32), AC4K_SUMS_16(48), AC4K_SUMS_16(64), AC4K_SUMS_16(80),
                       AC4K_SUMS_16(96), AC4K_SUMS_16(112))
#undef AC4K_WARPGROUP_PRODUCT
#undef AC4K_WGMMA
#undef AC4K_FACTORS
#undef AC4K_SUMS_16
#undef AC4K_SUMS_4
#undef AC4K_OPERANDS_0
#undef AC4K_OPERANDS_1
#undef AC4K_OPERANDS_2
#undef AC4K_OPERANDS_3
#undef AC4K_OPERANDS_4
#undef AC4K_OPERANDS_5
#undef AC4K_OPERANDS_6
#undef AC4K_OPERANDS_7

// Registers of each thread of the warpgroup from here on.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace ac4k
