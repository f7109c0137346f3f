// From an element type to its row in the kernel tables.
#pragma once

#include "core/dtype.hpp"
#include "core/status.hpp"
#include "cpu/common/table.hpp"

namespace ac4k::cpu {

inline Status find_element(const char* op, DType type, Element* element) {
  switch (type) {
    case DType::f32:
      *element = kF32;
      return AC4K_OK;
    case DType::f64:
      *element = kF64;
      return AC4K_OK;
    case DType::f16:
      *element = kF16;
      return AC4K_OK;
    case DType::bf16:
      *element = kBF16;
      return AC4K_OK;
    default:
      return fail(AC4K_UNSUPPORTED, op, ": expected f32, f64, f16 or bf16, got ", name_of(type));
  }
}

inline int64_t element_bytes(Element element) {
  constexpr int64_t kBytes[] = {4, 8, 2, 2};
  return kBytes[element];
}

}  // namespace ac4k::cpu
