#include "ops/rope.hpp"

namespace ac4k {

cpu::RopeArgs RopeTensors::cpu_args(DType type) const {
  cpu::RopeArgs args{};
  args.type = type;
  args.head_dim = head_dim();
  args.num_tokens = num_tokens_;
  args.ndim = views_.ndim;
  args.shape = views_.shape.data();
  args.num_tensors = static_cast<int>(count_);
  for (size_t i = 0; i < count_; ++i) {
    const Strides in = in_strides(i), out = out_strides(i);
    args.tensors[i] = {data_of(*in_[i]), data_of(*out_[i]), num_heads(i), in.head,
                       out.head,         in.tokens,         out.tokens};
  }
  return args;
}

RopeHeads RopeTensors::cuda_heads() const {
  static_assert(kRopeMaxDims >= AC4K_MAX_DIMS);
  RopeHeads heads{};
  heads.num_tokens = num_tokens_;
  heads.head_dim = static_cast<int>(head_dim());
  heads.in_place = true;
  heads.ndim = views_.ndim;
  for (size_t d = 0; d < static_cast<size_t>(views_.ndim); ++d) heads.shape[d] = views_.shape[d];
  for (size_t i = 0; i < count_; ++i) {
    const Strides in = in_strides(i), out = out_strides(i);
    RopeTensor& tensor = heads.tensors[i];
    tensor.in = data_of(*in_[i]);
    tensor.out = data_of(*out_[i]);
    tensor.num_heads = static_cast<int>(num_heads(i));
    tensor.in_head_stride = in.head;
    tensor.out_head_stride = out.head;
    heads.in_place = heads.in_place && tensor.in == tensor.out;
    for (size_t d = 0; d < static_cast<size_t>(views_.ndim); ++d) {
      tensor.in_strides[d] = in.tokens[d];
      tensor.out_strides[d] = out.tokens[d];
    }
  }
  return heads;
}

bool RopeTensors::few_heads(FewRopeParams& params) const {
  if (!is_small() || views_.ndim != 1) return false;
  params.num_first_heads = static_cast<int>(num_heads(0));
  params.num_heads = static_cast<int>(num_heads(0) + (count_ > 1 ? num_heads(1) : 0));
  params.head_dim = static_cast<int>(head_dim());
  params.num_tokens = static_cast<int>(num_tokens_);
  params.in_place = true;
  for (size_t i = 0; i < count_; ++i) {
    const Strides in = in_strides(i), out = out_strides(i);
    for (const int64_t stride : {in.head, out.head, in.tokens[0], out.tokens[0]}) {
      if (stride < -kMostFewStride || stride > kMostFewStride) return false;
    }
    params.in[i] = data_of(*in_[i]);
    params.out[i] = data_of(*out_[i]);
    params.in_place = params.in_place && params.in[i] == params.out[i];
    params.in_token_stride[i] = static_cast<int>(in.tokens[0]);
    params.out_token_stride[i] = static_cast<int>(out.tokens[0]);
    params.in_head_stride[i] = static_cast<int>(in.head);
    params.out_head_stride[i] = static_cast<int>(out.head);
  }
  return true;
}

bool RopeTensors::heads_in_a_row() const {
  for (size_t i = 0; i < count_; ++i) {
    if (num_heads(i) > 1 &&
        (in_strides(i).head != head_dim() || out_strides(i).head != head_dim())) {
      return false;
    }
  }
  return true;
}

bool RopeTensors::allows_vectors(DType type) const {
  const int64_t size = size_of(type);
  const auto whole = [&](int64_t stride) { return stride * size % kVectorBytes == 0; };
  for (size_t i = 0; i < count_; ++i) {
    if (!all_aligned(*in_[i], *out_[i])) return false;
    for (const Strides& strides : {in_strides(i), out_strides(i)}) {
      if (num_heads(i) > 1 && !whole(strides.head)) return false;
      for (int d = 0; d < views_.ndim; ++d) {
        if (!whole(strides.tokens[d])) return false;
      }
    }
  }
  return true;
}

Status check_rotary_dim(const Call& call, int64_t R, int64_t D) {
  if (R % 2 == 0 && R <= D) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name,
              ": argument 'cos_sin': expected an even number of columns, at most the head_dim of ",
              D, ", got ", R);
}

Status check_num_positions(const Call& call, int64_t P) {
  if (P <= INT32_MAX) return AC4K_OK;
  return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": argument 'cos_sin': expected at most ",
              INT32_MAX, " rows on a GPU, got ", P);
}

bool fits_vector_kernel(const RopeTensors& tensors, int64_t num_slots) {
  constexpr int64_t kMaxItems = int64_t{1} << 30;  // with room for values, and for the last block's
  const RopeHeads heads = tensors.cuda_heads();
  const int64_t num_heads = int64_t{heads.tensors[0].num_heads} + heads.tensors[1].num_heads;
  return num_slots <= kRopeTableThreads &&
         tensors.num_tokens() <= kMaxItems / std::max<int64_t>(1, num_heads);
}

}  // namespace ac4k
