// The op table: each op is declared once, by an OpDecl in src/ops, and everything else about it
// (checks, bindings, stubs, torch schemas, docs, benchmarks, fuzzing) is derived from that.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/signature.hpp"

namespace ac4k {

struct Call;
using OpKernel = Status (*)(const Call&);

struct OpDecl {
  const char* signature;
  const char* types;    // values of the type variables: "T: f32 f64 f16 bf16"
  const char* doc;      // one line
  const char* formula;  // what is computed and how it is rounded
  const char* example;  // one doctest: lines of ">>> ..." and results
  // How far from float64 the arithmetic may be, in eps of the arithmetic times the magnitude that
  // python/ac4k/reference gives; the rounding to the output's dtype comes on top.
  double tolerance;
  // Every input is read before the output elements that depend on it are written, where both are
  // declared alike: an output may then be such an input.
  bool in_place = false;
  OpKernel check = nullptr;  // what the signature cannot say; runs before anything is written
  OpKernel cpu = nullptr;
  OpKernel cuda = nullptr;
};

}  // namespace ac4k

struct ac4k_op {
  explicit ac4k_op(const ac4k::OpDecl& declaration);

  ac4k::OpDecl decl;
  ac4k::Signature signature;
};

namespace ac4k {

using Op = ac4k_op;

const std::vector<const Op*>& op_table();  // sorted by name

// `const RegisterOp kGemm{{.signature = ...}};` at namespace scope declares an op.
class RegisterOp {
 public:
  explicit RegisterOp(const OpDecl& declaration);
};

// A checked call, as kernels see it. Indices are positions in the signature.
struct Call {
  Call(const Op& op_called, void* stream_to_use) : op(op_called), stream(stream_to_use) {}

  const Op& op;
  void* stream;
  std::array<ac4k_arg, AC4K_MAX_ARGS> args;  // defaults filled in; a choice is its index
  const DLTensor* const* outputs = nullptr;  // null while shapes are inferred
  bool empty = false;                        // no output has an element
  DLDevice device{kDLCPU, 0};
  std::array<int64_t, AC4K_MAX_ARGS> dims;    // by Signature::dim_names
  std::array<DType, AC4K_MAX_OUTPUTS> types;  // by Signature::type_variables
  std::array<uint32_t, AC4K_MAX_OUTPUTS> type_words;
  int leading_ndim = -1;  // what `...` stands for
  const int64_t* leading_shape = nullptr;

  // The number of rows that `...` stands for.
  int64_t rows() const {
    int64_t count = 1;
    for (int i = 0; i < leading_ndim; ++i) count *= leading_shape[i];
    return count;
  }
  int64_t bound(const Dim& dim) const {
    return dim.symbol >= 0            ? dims[static_cast<size_t>(dim.symbol)]
           : dim.symbol == Dim::kRows ? rows()
                                      : 1;
  }
  // The alternative that holds in this call.
  const Shape& shape_of(const TensorType& type) const {
    return type.shapes[type.chooser < 0 ? 0 : static_cast<size_t>(integer(type.chooser))];
  }
  // Whether the call has this output.
  bool wants(const Output& output) const {
    if (output.condition < 0) return true;
    const ac4k_arg& arg = args[static_cast<size_t>(output.condition)];
    return (arg.kind == AC4K_ARG_TENSOR || (arg.kind != AC4K_ARG_NONE && arg.value.integer != 0)) !=
           output.negated;
  }

  const DLTensor& tensor(int i) const { return *args[static_cast<size_t>(i)].value.tensor; }
  bool has(int i) const { return args[static_cast<size_t>(i)].kind != AC4K_ARG_NONE; }
  int64_t integer(int i) const { return args[static_cast<size_t>(i)].value.integer; }
  double real(int i) const { return args[static_cast<size_t>(i)].value.real; }
  const DLTensor& output(int i = 0) const { return *outputs[i]; }
  bool has_output(int i) const { return outputs[i] != nullptr; }
  DType type(int i = 0) const { return types[static_cast<size_t>(i)]; }
  int64_t dim(int i) const { return dims[static_cast<size_t>(i)]; }
};

// Where a view's first element lies.
inline void* data_of(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}
inline int64_t num_elements(const DLTensor& tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
  return count;
}
inline bool is_contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return num_elements(tensor) == 0;
    expected *= tensor.shape[i];
  }
  return true;
}
std::string shape_text(int ndim, const int64_t* shape);

}  // namespace ac4k
