// qk_norm: queries and keys divided by their root mean square, over each head or over all of them.
#include "cpu/norms.hpp"
#include "ops/norms.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/rms_norm";
constexpr int kQ = 0, kK = 1, kQWeight = 2, kKWeight = 3, kEps = 4, kOver = 5, kCastFirst = 6;

// The last two dims make one row.
bool heads_are_rows(const DLTensor& tensor) {
  const int heads = tensor.ndim - 2;
  return num_elements(tensor) == 0 || tensor.shape[heads] == 1 ||
         strides_of(tensor)[static_cast<size_t>(heads)] == tensor.shape[heads + 1];
}

Status check_heads(const char* argument, const DLTensor& tensor) {
  if (heads_are_rows(tensor)) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, "qk_norm: argument '", argument,
              "': expected contiguous heads with over='heads', got shape ",
              shape_text(tensor.ndim, tensor.shape), " with strides ",
              shape_text(tensor.ndim, tensor.strides));
}

Status check_weight(const Call& call, int weight, const DLTensor& tensor, const char* dims) {
  if (!call.has(weight)) return AC4K_OK;
  const int64_t expected = tensor.shape[tensor.ndim - 2] * tensor.shape[tensor.ndim - 1];
  const int64_t got = call.tensor(weight).shape[0];
  if (got == expected) return AC4K_OK;
  return fail(AC4K_INVALID_VALUE, "qk_norm: argument '",
              call.op.signature.params[static_cast<size_t>(weight)].name, "': expected shape [",
              dims, "] = [", expected, "] with over='heads', got [", got, "]");
}

bool over_heads(const Call& call) { return call.integer(kOver) == 1; }

Status check(const Call& call) {
  AC4K_TRY(check_eps(call, kEps));
  if (!over_heads(call)) return AC4K_OK;
  AC4K_TRY(check_heads("q", call.tensor(kQ)));
  AC4K_TRY(check_heads("k", call.tensor(kK)));
  AC4K_TRY(check_weight(call, kQWeight, call.tensor(kQ), "H*D"));
  return check_weight(call, kKWeight, call.tensor(kK), "G*D");
}

Status check_outputs(const Call& call) {
  if (!over_heads(call)) return AC4K_OK;
  AC4K_TRY(check_heads("out", call.output(0)));
  return check_heads("out", call.output(1));
}

int64_t columns_of(const Call& call, const DLTensor& tensor) {
  const int64_t head_dim = tensor.shape[tensor.ndim - 1];
  return over_heads(call) ? head_dim * tensor.shape[tensor.ndim - 2] : head_dim;
}

Status run_cpu(const Call& call) {
  AC4K_TRY(check_outputs(call));
  const int row_dims = over_heads(call) ? 2 : 1;
  for (const int i : {kQ, kK}) {
    const DLTensor& tensor = call.tensor(i);
    const RowView x(tensor, row_dims);
    if (num_elements(tensor) == 0) continue;
    AC4K_TRY(cpu::rms_norm({.op = "qk_norm",
                            .type = call.type(),
                            .num_rows = x.num_rows(),
                            .num_columns = columns_of(call, tensor),
                            .x = x,
                            .out = RowView(call.output(i), row_dims),
                            .weight = data_or_null(call, kQWeight + i),
                            .eps = static_cast<float>(call.real(kEps)),
                            .cast_first = call.integer(kCastFirst) != 0}));
  }
  return AC4K_OK;
}

// Both in one launch: blocks of q, then blocks of k, or rows of both in each block.
Status run_cuda(const Call& call) {
  static constinit NormKernelTable kernels = AC4K_NORM_KERNELS(kModule, "rms_norm");
  static constinit cuda::Kernel pairs[kNumNormTypes] = AC4K_NORM_KERNEL(kModule, "rms_norm_pairs");
  AC4K_TRY(check_outputs(call));
  const int row_dims = over_heads(call) ? 2 : 1;
  const int64_t element_bytes = size_of(call.type());
  NormParams params{.parts = {},
                    .second_block = 0,
                    .eps = static_cast<float>(call.real(kEps)),
                    .cast_first = call.integer(kCastFirst) != 0};
  bool aligned = true;
  int64_t longest = 0, num_rows[2] = {};
  for (const int i : {kQ, kK}) {
    const DLTensor& tensor = call.tensor(i);
    if (num_elements(tensor) == 0) continue;
    const RowView x(tensor, row_dims), out(call.output(i), row_dims);
    const void* weight = data_or_null(call, kQWeight + i);
    const int64_t columns = columns_of(call, tensor);
    AC4K_TRY(check_num_rows(call, x.num_rows()));
    params.parts[i] = norm_part(x, out, weight, nullptr, columns);
    num_rows[i] = x.num_rows();
    longest = std::max(longest, columns);
    aligned = aligned && x.is_aligned() && out.is_aligned() && is_aligned(weight) &&
              columns * element_bytes % kVectorBytes == 0;
  }
  const NormPlan plan(kRowVariants, longest, element_bytes, aligned);
  for (NormPart& part : params.parts) part.plain = plan.is_plain(part, false);
  if (plan.kernel == kNormPairVariant && num_rows[kQ] == num_rows[kK]) {
    return launch_1d(pairs[norm_type(call.type())], call, num_rows[kQ], plan.block, params);
  }
  const int64_t q_blocks = ceil_div(num_rows[kQ], plan.rows_per_block);
  const int64_t k_blocks = ceil_div(num_rows[kK], plan.rows_per_block);
  params.second_block = static_cast<uint32_t>(q_blocks);
  return launch_1d(kernels[plan.kernel][norm_type(call.type())], call, q_blocks + k_blocks,
                   plan.block, params);
}

const RegisterOp kOp{{
    .signature = "qk_norm(q: T[..., H, D] row_strided, k: T[..., G, D] row_strided,"
                 " q_weight: T[over: D | P]? = None, k_weight: T[over: D | R]? = None,"
                 " eps: float = 1e-6, *, over: {head_dim, heads} = head_dim,"
                 " cast_first: bool = False)"
                 " -> T[..., H, D] row_strided, T[..., G, D] row_strided",
    .types = "T: f32 f16 bf16",
    .doc = "Divide queries and keys by their root mean square, each head or all heads together.",
    .formula =
        "rms_norm of q and of k in one launch: over the last dim (over=\"head_dim\", weights"
        " [D], as Qwen3 does), or over the last two (over=\"heads\", weights [H*D] and [G*D],"
        " as Wan does), whose heads must then be contiguous.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.array([[[2, -2], [1, 1]]], np.float32)\n"
               ">>> [y.tolist() for y in ac4k.qk_norm(q, q[:, :1], eps=0.0)]\n"
               "[[[[1.0, -1.0], [1.0, 1.0]]], [[[1.0, -1.0]]]]",
    .tolerance = 4.0,
    .in_place = true,
    .check = check,
    .cpu = run_cpu,
    .cuda = run_cuda,
}};

}  // namespace
}  // namespace ac4k
