// What the outputs of a call must be, and whether they are.
#include "core/check.hpp"
#include "core/check_detail.hpp"

namespace ac4k {
namespace {

using namespace check;

// The bytes a non-empty view touches, as [first, last).
struct Extent {
  uintptr_t first, last;
};

Extent extent_of(const DLTensor& tensor) {
  const int64_t size = (tensor.dtype.bits + 7) / 8;
  auto first = reinterpret_cast<uintptr_t>(data_of(tensor));
  if (tensor.strides == nullptr) {
    return {first, first + static_cast<uintptr_t>(num_elements(tensor) * size)};
  }
  auto last = first + static_cast<uintptr_t>(size);
  for (int i = 0; i < tensor.ndim; ++i) {
    const auto reach = static_cast<uintptr_t>((tensor.shape[i] - 1) * tensor.strides[i] * size);
    (tensor.strides[i] < 0 ? first : last) += reach;
  }
  return {first, last};
}

bool overlap(const Extent& written, const DLTensor& other) {
  if (num_elements(other) == 0) return false;
  const Extent read = extent_of(other);
  return read.first < written.last && written.first < read.last;
}

// An output may share memory with nothing, but for an elementwise op's own input, exactly.
Status check_overlap(const Call& call, const DLTensor& out, const DLTensor* const* outputs,
                     size_t index) {
  const Op& op = call.op;
  const Extent written = extent_of(out);
  for (size_t p = 0; p < op.signature.params.size(); ++p) {
    if (call.args[p].kind != AC4K_ARG_TENSOR) continue;
    const DLTensor& input = *call.args[p].value.tensor;
    if (!overlap(written, input)) continue;
    const bool in_place = op.decl.elementwise && data_of(input) == data_of(out) &&
                          num_elements(input) == num_elements(out) && is_contiguous(input);
    if (!in_place) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput, "expected memory apart from '",
                            op.signature.params[p].name, "', got memory that overlaps it");
    }
  }
  for (size_t j = 0; j < index; ++j) {
    if (overlap(written, *outputs[j])) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput,
                            "expected outputs that do not overlap");
    }
  }
  return AC4K_OK;
}

}  // namespace

Status output_spec(const Call& call, size_t index, ac4k_tensor_spec* spec) {
  const TensorType& type = call.op.signature.outputs[index];
  spec->device = call.device;
  spec->dtype = std::bit_cast<DLDataType>(
      type.type_variable < 0 ? type.dtype_word
                             : call.type_words[static_cast<size_t>(type.type_variable)]);
  int ndim = 0;
  bool empty = false, overflow = false;
  int64_t bytes = spec->dtype.bits / 8;
  const auto append = [&](int64_t extent) {
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
    spec->shape[ndim++] = extent;
  };
  for (int i = 0; type.leading && i < call.leading_ndim; ++i) append(call.leading_shape[i]);
  const Dim* dims = type.dims.data();
  const size_t num_dims = type.dims.size();
  for (size_t i = 0; i < num_dims; ++i) {
    const Dim& dim = dims[i];
    const int64_t bound = dim.symbol < 0 ? 1 : call.dim(dim.symbol);
    if (dim.is_plain) {
      append(bound);
      continue;
    }
    if (bound % dim.divide != 0) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": expected a whole ",
                  dim.text(call.op.signature.dim_names), ", got ",
                  call.op.signature.dim_names[static_cast<size_t>(dim.symbol)], " = ", bound);
    }
    append(bound / dim.divide * dim.multiply);
  }
  spec->ndim = ndim;
  if (overflow && !empty) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": the output would have shape ",
                ac4k::shape_text(ndim, spec->shape), ", which passes 2^63 bytes");
  }
  return AC4K_OK;
}

namespace {

// Whether an output is what output_spec asks for, without writing the spec down.
bool fits(const Call& call, const TensorType& type, const DLTensor& out) {
  const uint32_t word = type.type_variable < 0
                            ? type.dtype_word
                            : call.type_words[static_cast<size_t>(type.type_variable)];
  const int leading = type.leading ? call.leading_ndim : 0;
  const Dim* dims = type.dims.data();
  const int fixed = static_cast<int>(type.dims.size());
  bool fit = word_of(out.dtype) == word && out.ndim == leading + fixed &&
             same(normalised(out.device), call.device);
  for (int i = 0; fit && i < leading; ++i) fit = out.shape[i] == call.leading_shape[i];
  for (int i = 0; fit && i < fixed; ++i) {
    const int64_t bound = dims[i].symbol < 0 ? 1 : call.dim(dims[i].symbol);
    const int64_t want = dims[i].is_plain              ? bound
                         : bound % dims[i].divide == 0 ? bound / dims[i].divide * dims[i].multiply
                                                       : -1;
    fit = out.shape[leading + i] == want;
  }
  return fit;
}

[[gnu::cold, gnu::noinline]] Status output_error(const Call& call, size_t index,
                                                 const DLTensor& out) {
  ac4k_tensor_spec spec;
  AC4K_TRY(output_spec(call, index, &spec));
  if (word_of(out.dtype) != word_of(spec.dtype)) {
    return argument_error(AC4K_INVALID_TYPE, call.op, kOutput, "expected dtype ",
                          display_name(spec.dtype), ", got ", display_name(out.dtype));
  }
  const DLDevice device = normalised(out.device);
  if (!same(device, spec.device)) {
    return argument_error(AC4K_INVALID_VALUE, call.op, kOutput, "expected a tensor on ",
                          device_text(spec.device), ", got one on ", device_text(device));
  }
  return argument_error(AC4K_INVALID_VALUE, call.op, kOutput, "expected shape ",
                        ac4k::shape_text(spec.ndim, spec.shape), ", got ", shape_text(out));
}

}  // namespace

Status bind_outputs(const DLTensor* const* outputs, size_t num_outputs, Call* call) {
  const Op& op = call->op;
  if (num_outputs != op.signature.outputs.size()) {
    return fail(AC4K_INVALID_TYPE, op.signature.name, ": expected ", op.signature.outputs.size(),
                " outputs, got ", num_outputs);
  }
  call->outputs = outputs;
  call->empty = true;
  for (size_t i = 0; i < num_outputs; ++i) {
    if (outputs[i] == nullptr) {
      return argument_error(AC4K_INVALID_TYPE, op, kOutput, "expected a tensor, got None");
    }
    const DLTensor& out = *outputs[i];
    if (!fits(*call, op.signature.outputs[i], out)) return output_error(*call, i, out);
    const int64_t elements = check_view(op, kOutput, out, /*strided=*/false);
    if (elements < 0) return AC4K_INVALID_VALUE;
    if (elements == 0) continue;
    call->empty = false;
    AC4K_TRY(check_overlap(*call, out, outputs, i));
  }
  return AC4K_OK;
}

}  // namespace ac4k
