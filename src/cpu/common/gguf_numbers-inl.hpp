// A level's vector as the number type of the searches in cuda/common/gguf_rules.h: one sub-block a
// lane.
#pragma once

#include "cpu/common/formats-inl.hpp"
#include "cuda/common/gguf_pack.h"

namespace ac4k::cpu {
namespace {

template <class V>
struct LaneNumber {
  using Reg = typename LanesOf<V>::Float;
  using Mask = Lanes<V>;
  Reg v;

  LaneNumber() = default;
  AC4K_INLINE LaneNumber(float value) : v(V::broadcast(value).v) {}
  AC4K_INLINE explicit LaneNumber(Reg reg) : v(reg) {}

  friend AC4K_INLINE LaneNumber operator+(LaneNumber a, LaneNumber b) {
    return LaneNumber(a.v + b.v);
  }
  friend AC4K_INLINE LaneNumber operator-(LaneNumber a, LaneNumber b) {
    return LaneNumber(a.v - b.v);
  }
  friend AC4K_INLINE LaneNumber operator*(LaneNumber a, LaneNumber b) {
    return LaneNumber(a.v * b.v);
  }
  friend AC4K_INLINE LaneNumber operator/(LaneNumber a, LaneNumber b) {
    return LaneNumber(a.v / b.v);
  }
  friend AC4K_INLINE Mask operator<(LaneNumber a, LaneNumber b) { return (Mask)(a.v < b.v); }
  friend AC4K_INLINE Mask operator>(LaneNumber a, LaneNumber b) { return (Mask)(a.v > b.v); }
  friend AC4K_INLINE Mask operator==(LaneNumber a, LaneNumber b) { return (Mask)(a.v == b.v); }
  friend AC4K_INLINE LaneNumber select(Mask mask, LaneNumber a, LaneNumber b) {
    return LaneNumber(mask ? a.v : b.v);
  }
  friend AC4K_INLINE LaneNumber magnitude(LaneNumber a) {
    return LaneNumber((Reg)((Mask)a.v & 0x7fffffff));
  }
  friend AC4K_INLINE LaneNumber square_root(LaneNumber a) {
    for (int i = 0; i < V::kLanes; ++i) a.v[i] = __builtin_sqrtf(a.v[i]);
    return a;
  }
  // x86's own maximum and minimum; both give the bound where a is NaN.
  friend AC4K_INLINE LaneNumber clamp(LaneNumber a, LaneNumber low, LaneNumber high) {
    return LaneNumber(min(max(V{a.v}, V{low.v}), V{high.v}).v);
  }
};

}  // namespace
}  // namespace ac4k::cpu
