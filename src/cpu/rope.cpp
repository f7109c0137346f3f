// Rotary position embeddings: tokens are shared out over threads; a token's cosines and sines are
// looked up once and used for all its heads.
#include "cpu/rope.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "cpu/element.hpp"
#include "cpu/kvcache.hpp"
#include "cpu/threads.hpp"

namespace ac4k::cpu {
namespace {

constexpr int64_t kCacheLine = 64;
constexpr int64_t kBlock = 256;  // pairs whose angles are gathered at a time
constexpr double kElementsPerThread = 16 * 1024;

// A run of cosines and sines, in the table or in the buffer.
template <class Scalar>
struct Angles {
  const Scalar* cos;
  const Scalar* sin;
};
template <class Scalar>
struct Buffer {
  Scalar cos[kBlock];
  Scalar sin[kBlock];
};

template <class Scalar>
struct NanTable {
  Scalar values[kBlock];
  constexpr NanTable() : values() {
    for (Scalar& value : values) value = std::numeric_limits<Scalar>::quiet_NaN();
  }
};
template <class Scalar>
constexpr NanTable<Scalar> kNan;

struct TokenHeads {
  const char* in;
  int64_t in_stride;
  char* out;
  int64_t out_stride;
  int64_t count;
};

// Leaves the normalised heads in the output and makes them the input.
void normalise(const RopeArgs& args, Element element, TokenHeads* tensors) {
  const RopeNorm& norm = *args.norm;
  const int64_t size = size_of(args.type);
  for (int i = 0; i < args.num_tensors; ++i) {
    TokenHeads& heads = tensors[i];
    NormRows rows{};
    rows.x = heads.in;
    rows.out = heads.out;
    rows.x_stride = heads.in_stride * size;
    rows.out_stride = heads.out_stride * size;
    rows.weight = norm.weights[i];
    rows.num_rows = norm.all_heads ? std::min<int64_t>(heads.count, 1) : heads.count;
    rows.num_columns = norm.all_heads ? heads.count * args.head_dim : args.head_dim;
    rows.eps = norm.eps;
    rows.cast_first = norm.cast_first;
    kernels().norms->rms_norm[element](rows);
    heads.in = heads.out;
    heads.in_stride = heads.out_stride;
  }
}

// Calls body(thread, token, heads of each tensor) for every token.
template <class Body>
void for_each_token(const RopeArgs& args, Element element, const Body& body,
                    int most_threads = num_threads()) {
  const int64_t size = size_of(args.type);
  int64_t heads = 0;
  for (int i = 0; i < args.num_tensors; ++i) heads += args.tensors[i].num_heads;
  const double work = static_cast<double>(args.num_tokens * heads * args.head_dim);
  const int threads = static_cast<int>(std::clamp<int64_t>(
      args.num_tokens, 1, std::min(most_threads, threads_for(work, kElementsPerThread))));
  run_threads(threads, [&](int thread) {
    const int64_t last = args.num_tokens * (thread + 1) / threads;
    for (int64_t token = args.num_tokens * thread / threads; token < last; ++token) {
      int64_t in[2] = {}, out[2] = {}, rest = token;
      for (int d = args.ndim - 1; d >= 0; --d) {
        const int64_t index = rest % args.shape[d];
        rest /= args.shape[d];
        for (int i = 0; i < args.num_tensors; ++i) {
          in[i] += index * args.tensors[i].in_strides[d];
          out[i] += index * args.tensors[i].out_strides[d];
        }
      }
      TokenHeads tensors[2] = {};
      for (int i = 0; i < args.num_tensors; ++i) {
        tensors[i] = {static_cast<const char*>(args.tensors[i].in) + in[i] * size,
                      args.tensors[i].in_head_stride,
                      static_cast<char*>(args.tensors[i].out) + out[i] * size,
                      args.tensors[i].out_head_stride, args.tensors[i].num_heads};
      }
      if (args.norm != nullptr) normalise(args, element, tensors);
      body(thread, token, tensors);
    }
  });
}

// Elements [first, head_dim) of every head go from in to out as they are.
void pass_through(const RopeArgs& args, const TokenHeads* token, int64_t first) {
  const int64_t size = size_of(args.type);
  if (first >= args.head_dim) return;
  for (int i = 0; i < args.num_tensors; ++i) {
    const TokenHeads& heads = token[i];
    if (heads.in == heads.out) continue;
    for (int64_t head = 0; head < heads.count; ++head) {
      std::memcpy(heads.out + (head * heads.out_stride + first) * size,
                  heads.in + (head * heads.in_stride + first) * size,
                  static_cast<size_t>((args.head_dim - first) * size));
    }
  }
}

// Angles of pairs [first, first + count) of one token.
Angles<float> angles_of(const RopeAngles& angles, int64_t num_tokens, int64_t token, int64_t first,
                        int64_t count, Buffer<float>& buffer) {
  const int64_t half = angles.rotary_dim / 2;
  if (angles.sections == nullptr) {
    const int64_t position = angles.positions[token];
    if (position < 0 || position >= angles.num_positions) {
      return {kNan<float>.values, kNan<float>.values};
    }
    const float* row = angles.cos_sin + position * angles.rotary_dim;
    return {row + first, row + half + first};
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t axis = angles.sections->axis_of(first + i);
    const int64_t position = angles.positions[axis * num_tokens + token];
    const bool known = position >= 0 && position < angles.num_positions;
    const float* row = angles.cos_sin + (known ? position : 0) * angles.rotary_dim + first + i;
    buffer.cos[i] = known ? row[0] : kNan<float>.values[0];
    buffer.sin[i] = known ? row[half] : kNan<float>.values[0];
  }
  return {buffer.cos, buffer.sin};
}

// Where in its grid a token stands.
struct GridPosition {
  bool inside;
  int64_t axes[3];
};
GridPosition grid_position(const Rope3dAngles& angles, int64_t token) {
  const int64_t sample = token / angles.tokens, index = token % angles.tokens;
  int64_t sizes[3];
  for (int i = 0; i < 3; ++i) {  // sizes past the number of tokens make no difference
    sizes[i] = std::clamp<int64_t>(angles.grid_sizes[sample * 3 + i], 0, angles.tokens);
  }
  const int64_t frame = std::min(sizes[1] * sizes[2], angles.tokens);
  if (index >= sizes[0] * frame) return {false, {}};
  return {true, {index / frame, index % frame / sizes[2], index % frame % sizes[2]}};
}

template <class Scalar, class Table>
Angles<Scalar> angles_of(const Rope3dAngles& angles, const GridPosition& grid, int64_t num_pairs,
                         int64_t first, int64_t count, Buffer<Scalar>& buffer) {
  int64_t pair = first, axis_end = 0;
  for (int axis = 0; axis < 3; ++axis) {
    axis_end += angles.axis_pairs[axis];
    const int64_t end = std::min(first + count, axis_end);
    const bool known = grid.axes[axis] < angles.num_positions;
    const Table* row =
        static_cast<const Table*>(angles.table) + (known ? grid.axes[axis] : 0) * num_pairs * 2;
    for (; pair < end; ++pair) {
      buffer.cos[pair - first] =
          known ? static_cast<Scalar>(row[2 * pair]) : kNan<Scalar>.values[0];
      buffer.sin[pair - first] =
          known ? static_cast<Scalar>(row[2 * pair + 1]) : kNan<Scalar>.values[0];
    }
  }
  return {buffer.cos, buffer.sin};
}

template <class Scalar, class Table, class Kernel>
void rotate_grid(const RopeArgs& args, Element element, const Rope3dAngles& angles, Kernel kernel) {
  const int64_t num_pairs = args.head_dim / 2, size = size_of(args.type);
  for_each_token(args, element, [&](int, int64_t token, const TokenHeads* heads) {
    const GridPosition grid = grid_position(angles, token);
    if (!grid.inside) return pass_through(args, heads, 0);
    Buffer<Scalar> buffer;
    for (int64_t first = 0; first < num_pairs; first += kBlock) {
      const int64_t count = std::min(kBlock, num_pairs - first);
      const auto run = angles_of<Scalar, Table>(angles, grid, num_pairs, first, count, buffer);
      for (int i = 0; i < args.num_tensors; ++i) {
        const TokenHeads& part = heads[i];
        kernel(part.in + 2 * first * size, part.in_stride, part.out + 2 * first * size,
               part.out_stride, part.count, run.cos, run.sin, count);
      }
    }
  });
}

// All heads of one token.
void rotate_token(const RopeArgs& args, Element element, const RopeAngles& angles, int64_t token,
                  const TokenHeads* heads) {
  const RopeKernels& kernels = *cpu::kernels().rope;
  const int64_t half = angles.rotary_dim / 2, size = size_of(args.type);
  pass_through(args, heads, angles.rotary_dim);
  Buffer<float> buffer;
  for (int64_t first = 0; first < half; first += kBlock) {
    const int64_t count = std::min(kBlock, half - first);
    const auto run = angles_of(angles, args.num_tokens, token, first, count, buffer);
    for (int i = 0; i < args.num_tensors; ++i) {
      const TokenHeads& part = heads[i];
      const int64_t offset = (angles.neox ? first : 2 * first) * size;
      if (angles.neox) {
        kernels.halves[element](part.in + offset, part.in_stride, part.out + offset,
                                part.out_stride, part.count, half, run.cos, run.sin, count);
      } else {
        kernels.neighbours[element](part.in + offset, part.in_stride, part.out + offset,
                                    part.out_stride, part.count, run.cos, run.sin, count);
      }
    }
  }
}

}  // namespace

Status rope(const RopeArgs& args, const RopeAngles& angles) {
  Element element = kF32;
  AC4K_TRY(find_element("rope", args.type, &element));
  for_each_token(args, element, [&](int, int64_t token, const TokenHeads* heads) {
    rotate_token(args, element, angles, token, heads);
  });
  return AC4K_OK;
}

Status rope_store_kvcache(const RopeArgs& args, const RopeAngles& angles, const KvCacheArgs& kv) {
  KvCachePlan plan(kv);
  AC4K_TRY(plan.find("rope_store_kvcache"));
  const KvCachePart &keys = kv.parts[0], &values = kv.parts[1];
  // Keys of an fp8 cache are rotated here first, a head at a time.
  const int64_t head_bytes = args.head_dim * plan.token_bytes;
  std::unique_ptr<char[]> scratch;
  int64_t scratch_bytes = 0;
  const int threads = num_threads();  // which another thread may set meanwhile
  if (plan.codes != nullptr) {
    scratch_bytes = (head_bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    scratch.reset(new (std::nothrow) char[static_cast<size_t>(scratch_bytes * threads)]);
    if (!scratch) return fail(AC4K_OUT_OF_MEMORY, "rope_store_kvcache: no memory for a head");
  }
  for_each_token(
      args, plan.element,
      [&](int thread, int64_t token, const TokenHeads* tensors) {
        const int64_t slot = token < kv.num_tokens ? plan.slot(token) : -1;
        TokenHeads heads[2] = {tensors[0], tensors[1]};
        const bool stored = plan.has(slot);
        heads[1].count = 0;
        if (stored && plan.codes == nullptr) {
          heads[1] = {tensors[1].in, tensors[1].in_stride, plan.cache_head(keys, slot, 0),
                      keys.cache_head_stride, kv.num_heads};
        }
        rotate_token(args, plan.element, angles, token, heads);
        if (!stored) return;
        heads[0].count = 0;
        for (int64_t head = 0; head < kv.num_heads; ++head) {
          if (plan.codes != nullptr) {
            char* rotated = scratch.get() + scratch_bytes * thread;
            heads[1] = {tensors[1].in + head * tensors[1].in_stride * plan.token_bytes,
                        tensors[1].in_stride, rotated, args.head_dim, 1};
            rotate_token(args, plan.element, angles, token, heads);
            plan.store(keys, head, rotated, plan.cache_head(keys, slot, head));
          }
          plan.store(values, head, plan.token_head(values, token, head),
                     plan.cache_head(values, slot, head));
        }
      },
      threads);
  return AC4K_OK;
}

Status rope_3d(const RopeArgs& args, const Rope3dAngles& angles) {
  Element element = kF32;
  AC4K_TRY(find_element("rope_3d", args.type, &element));
  const RopeKernels& kernels = *cpu::kernels().rope;
  if (angles.exact) {
    rotate_grid<double, double>(args, element, angles, kernels.neighbours_f64[element]);
  } else if (angles.table_type == DType::f64) {
    rotate_grid<float, double>(args, element, angles, kernels.neighbours[element]);
  } else {
    rotate_grid<float, float>(args, element, angles, kernels.neighbours[element]);
  }
  return AC4K_OK;
}

}  // namespace ac4k::cpu
