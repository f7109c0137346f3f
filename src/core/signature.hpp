// What an op takes and gives, parsed from the one line that declares it:
//
//   fused_add_gelu(x: T[..., N] strided, bias: T[N], *, approximate: {none, tanh} = none)
//       -> T[..., N]
//
// A tensor is `dtype[dims]`, with `?` behind it (and `= None`) when it may be left out and
// `strided` when any strides will do (otherwise it must be contiguous). A dtype is a name of
// core/dtype.hpp or a type variable (one capital, listed in OpDecl::types). A dim is a number, a
// name, `name*number`, `name/number` (exact), or a leading `...` (any number of dims, the same
// wherever it stands). Scalars are `int`, `float`, `bool` or a `{choice, choice}`; an int whose
// name is used as a dim fixes that dim. Checks, output shapes, Python functions, torch schemas,
// fake kernels, docs and the fuzzer all read this structure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/status.hpp"

namespace ac4k {

// One dimension: `symbol * multiply / divide`, or the number `multiply` when symbol < 0.
struct Dim {
  int32_t symbol = -1;
  int32_t multiply = 1;
  int32_t divide = 1;
  bool is_plain = false;  // a bare symbol, which needs no division

  // Its text, as written, from the names of the signature.
  std::string text(const std::vector<std::string>& dim_names) const;
};

struct TensorType {
  int type_variable = -1;    // index into Signature::type_variables, or
  DType dtype = DType::f32;  // a fixed type when type_variable < 0
  uint32_t dtype_word = 0;   // its word_of
  std::string dtype_text;
  bool leading = false;   // starts with `...`
  std::vector<Dim> dims;  // the rest
  bool strided = false;
  bool optional = false;
};

enum class ParamKind : uint8_t { tensor, integer, real, boolean, choice };

struct Param {
  std::string name;
  ParamKind kind = ParamKind::tensor;
  TensorType tensor;
  std::vector<std::string> choices;
  bool keyword_only = false;
  bool has_default = false;
  std::string default_text;
  int64_t default_integer = 0;  // also the index of a default choice
  double default_real = 0;
  int dim_symbol = -1;  // an int that fixes this dim
};

struct TypeVariable {
  char name = 'T';
  std::vector<DType> types;
  std::vector<uint32_t> words;  // word_of each type
};

struct Signature {
  std::string name;
  std::vector<Param> params;
  std::vector<TensorType> outputs;
  std::vector<std::string> dim_names;
  std::vector<TypeVariable> type_variables;
  bool ints_fix_dims = false;  // some int parameter fixes a dim

  // `types`: "T: f32 f64 f16 bf16; S: u8". On failure the text says where.
  static Status parse(std::string_view text, std::string_view types, Signature* result);
};

}  // namespace ac4k
