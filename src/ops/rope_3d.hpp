// What rope_3d and qk_norm_rope_3d share.
#pragma once

#include "ops/rope.hpp"

namespace ac4k {

// Where an op has its arguments, dims and type variables.
struct Rope3dPlaces {
  int grid_sizes, table, height_pairs, width_pairs, precision;
  int dim_l, dim_d, dim_p;
  int integers = 1, scalar = 2;
};

struct AxisPairs {
  int64_t frames, rows, columns;
};
AxisPairs axis_pairs(const Call& call, const Rope3dPlaces& places);
inline bool is_exact(const Call& call, const Rope3dPlaces& places) {
  return call.integer(places.precision) == 0;
}
// exact, fast with a float64 table, fast with a float32 one.
inline size_t rope_3d_arithmetic(const Call& call, const Rope3dPlaces& places) {
  return is_exact(call, places) ? 0 : call.type(places.scalar) == DType::f64 ? 1 : 2;
}

Status check_rope_3d(const Call& call, const Rope3dPlaces& places);
cpu::Rope3dAngles rope_3d_angles(const Call& call, const Rope3dPlaces& places);
// GPU kernels count the pairs of the table in 32 bits.
Status check_rope_3d_table(const Call& call, const Rope3dPlaces& places);
// All but the norm.
Rope3dParams rope_3d_params(const Call& call, const Rope3dPlaces& places,
                            const RopeTensors& tensors);

}  // namespace ac4k
