// What the outputs of a call must be, and whether they are.
#include <array>

#include "core/check.hpp"
#include "core/check_detail.hpp"
#include "core/strided.hpp"

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

// Whether a view's elements, seen modulo `period` bytes, lie in one interval shorter than it; if
// so, where it begins and how long it is.
bool lies_in_interval(const DLTensor& tensor, int64_t period, int64_t* begin, int64_t* length) {
  const int64_t size = tensor.dtype.bits / 8;
  const auto strides = strides_of(tensor);
  int64_t reach = 0, lowest = 0;
  for (int i = 0; i < tensor.ndim; ++i) {
    const int64_t step = strides[static_cast<size_t>(i)] * size;
    if (tensor.shape[i] == 1 || step % period == 0) continue;
    const int64_t span = (tensor.shape[i] - 1) * step;
    if ((span < 0 ? -span : span) > period) return false;
    reach += span < 0 ? -span : span;
    lowest += span < 0 ? span : 0;
  }
  const auto first = static_cast<int64_t>(
      (reinterpret_cast<uintptr_t>(data_of(tensor)) + static_cast<uintptr_t>(lowest)) %
      static_cast<uintptr_t>(period));
  *begin = first;
  *length = reach + size;
  return *length <= period;
}

// Views woven into each other, as q and k are in one buffer of projections: with one of the strides
// as the period, their elements lie in intervals that do not meet.
bool woven(const DLTensor& a, const DLTensor& b) {
  const auto strides = strides_of(a);
  for (int i = 0; i < a.ndim; ++i) {
    const int64_t step = strides[static_cast<size_t>(i)] * (a.dtype.bits / 8);
    const int64_t period = step < 0 ? -step : step;
    int64_t a_begin, a_length, b_begin, b_length;
    if (a.shape[i] == 1 || period == 0 || !lies_in_interval(a, period, &a_begin, &a_length) ||
        !lies_in_interval(b, period, &b_begin, &b_length)) {
      continue;
    }
    const int64_t ahead = b_begin >= a_begin ? b_begin - a_begin : b_begin - a_begin + period;
    if (ahead >= a_length && period - ahead >= b_length) return true;
  }
  return false;
}

bool same_view(const DLTensor& a, const DLTensor& b) {
  if (data_of(a) != data_of(b) || a.ndim != b.ndim) return false;
  const auto a_strides = strides_of(a), b_strides = strides_of(b);
  for (int i = 0; i < a.ndim; ++i) {
    const auto d = static_cast<size_t>(i);
    if (a.shape[i] != b.shape[i] || (a.shape[i] != 1 && a_strides[d] != b_strides[d])) return false;
  }
  return true;
}

// An output may share memory with nothing, but for an in-place op's own input, exactly.
Status check_overlap(const Call& call, const DLTensor& out, const DLTensor* const* outputs,
                     size_t index) {
  const Op& op = call.op;
  const Extent written = extent_of(out);
  for (size_t p = 0; p < op.signature.params.size(); ++p) {
    if (call.args[p].kind != AC4K_ARG_TENSOR) continue;
    const DLTensor& input = *call.args[p].value.tensor;
    if (!overlap(written, input) || woven(out, input)) continue;
    const bool alike = op.decl.in_place && (op.signature.outputs[index].may_be >> p & 1u);
    if (!alike || !same_view(input, out)) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput, "expected memory apart from '",
                            op.signature.params[p].name, "', got memory that overlaps it");
    }
  }
  for (size_t j = 0; j < index; ++j) {
    if (outputs[j] != nullptr && overlap(written, *outputs[j]) && !woven(out, *outputs[j])) {
      return argument_error(AC4K_INVALID_VALUE, op, kOutput,
                            "expected outputs that do not overlap");
    }
  }
  return AC4K_OK;
}

}  // namespace

namespace check {

Status check_writable_view(const Op& op, int index, const DLTensor& tensor) {
  if (tensor.strides == nullptr || is_contiguous(tensor)) [[likely]]
    return AC4K_OK;
  // From the smallest stride up, each has to step over all that the smaller ones reach.
  struct Step {
    int64_t stride, extent;
  };
  std::array<Step, AC4K_MAX_DIMS> dims{};
  size_t count = 0;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return AC4K_OK;
    if (tensor.shape[i] == 1) continue;
    const int64_t stride = tensor.strides[i] < 0 ? -tensor.strides[i] : tensor.strides[i];
    size_t place = count++;
    for (; place > 0 && dims[place - 1].stride > stride; --place) dims[place] = dims[place - 1];
    dims[place] = {stride, tensor.shape[i]};
  }
  int64_t reach = 0;
  for (size_t i = 0; i < count; ++i) {
    if (dims[i].stride <= reach) {
      return argument_error(AC4K_INVALID_VALUE, op, index,
                            "expected elements that do not overlap, got shape ", shape_text(tensor),
                            " with strides ", ac4k::shape_text(tensor.ndim, tensor.strides));
    }
    reach += (dims[i].extent - 1) * dims[i].stride;
  }
  return AC4K_OK;
}

// Two halves of one buffer may be interleaved block by block, so only what surely overlaps is
// refused: the same first element, or overlapping runs.
Status check_mutable_apart(const Call& call) {
  const auto& params = call.op.signature.params;
  for (size_t p = 0; p < params.size(); ++p) {
    if (!params[p].tensor.is_mutable || call.args[p].kind != AC4K_ARG_TENSOR) continue;
    const DLTensor& written = *call.args[p].value.tensor;
    if (num_elements(written) == 0) continue;
    for (size_t q = 0; q < params.size(); ++q) {
      if (q == p || call.args[q].kind != AC4K_ARG_TENSOR) continue;
      const DLTensor& other = *call.args[q].value.tensor;
      const bool runs = is_contiguous(written) && is_contiguous(other);
      if (overlap(extent_of(written), other) && (runs || data_of(written) == data_of(other))) {
        return argument_error(AC4K_INVALID_VALUE, call.op, static_cast<int>(p),
                              "expected memory apart from '", params[q].name,
                              "', got memory that overlaps it");
      }
    }
  }
  return AC4K_OK;
}

}  // namespace check

Status output_spec(const Call& call, size_t index, ac4k_tensor_spec* spec) {
  const Output& type = call.op.signature.outputs[index];
  const Shape& shape = call.shape_of(type);
  spec->device = call.device;
  spec->dtype = std::bit_cast<DLDataType>(
      type.type_variable < 0 ? type.dtype_word
                             : call.type_words[static_cast<size_t>(type.type_variable)]);
  spec->ndim = AC4K_NO_OUTPUT;
  if (!call.wants(type)) return AC4K_OK;
  const int leading = shape.leading ? call.leading_ndim : 0;
  const int ndim = leading + static_cast<int>(shape.dims.size());
  if (ndim > AC4K_MAX_DIMS) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": the output would have ", ndim,
                " dimensions, expected at most ", AC4K_MAX_DIMS);
  }
  bool empty = false, overflow = false;
  int64_t bytes = spec->dtype.bits / 8;
  for (int i = 0; i < ndim; ++i) {
    int64_t extent;
    if (i < leading) {
      extent = call.leading_shape[i];
    } else {
      const Dim& dim = shape.dims[static_cast<size_t>(i - leading)];
      extent = dim.extent(call.bound(dim));
      if (extent < 0) {
        return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": expected a whole ",
                    dim.text(call.op.signature.dim_names), ", got ",
                    Dim{.symbol = dim.symbol}.text(call.op.signature.dim_names), " = ",
                    call.bound(dim));
      }
    }
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(bytes, extent, &bytes);
    spec->shape[i] = extent;
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
  const Shape& shape = call.shape_of(type);
  const int leading = shape.leading ? call.leading_ndim : 0;
  const Dim* dims = shape.dims.data();
  const int fixed = static_cast<int>(shape.dims.size());
  bool fit = word_of(out.dtype) == word && out.ndim == leading + fixed &&
             same(normalised(out.device), call.device) && (out.shape != nullptr || out.ndim == 0);
  for (int i = 0; fit && i < leading; ++i) fit = out.shape[i] == call.leading_shape[i];
  for (int i = 0; fit && i < fixed; ++i) {
    fit = out.shape[leading + i] == dims[i].extent(call.bound(dims[i]));
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
  if (static_cast<uint32_t>(out.ndim) > AC4K_MAX_DIMS || (out.shape == nullptr && out.ndim != 0)) {
    view_error(call.op, kOutput, out, call.op.signature.outputs[index].layout, false);
    return AC4K_INVALID_VALUE;
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
  call->empty = !op.signature.has_mutable;
  for (size_t i = 0; i < num_outputs; ++i) {
    const Output& type = op.signature.outputs[i];
    if (!call->wants(type)) {
      if (outputs[i] == nullptr) continue;
      return argument_error(AC4K_INVALID_TYPE, op, kOutput, "expected no output ", i, " without '",
                            op.signature.params[static_cast<size_t>(type.condition)].name, "'");
    }
    if (outputs[i] == nullptr) {
      return argument_error(AC4K_INVALID_TYPE, op, kOutput, "expected a tensor, got None");
    }
    const DLTensor& out = *outputs[i];
    if (!fits(*call, type, out)) return output_error(*call, i, out);
    const int64_t elements = check_view(op, kOutput, out, type.layout);
    if (elements < 0) return AC4K_INVALID_VALUE;
    if (type.layout != Layout::contiguous) AC4K_TRY(check_writable_view(op, kOutput, out));
    if (elements == 0) continue;
    call->empty = false;
    AC4K_TRY(check_overlap(*call, out, outputs, i));
  }
  return AC4K_OK;
}

}  // namespace ac4k
