// What an op takes and gives, parsed from the one line that declares it:
//
//   fused_add_gelu(x: T[..., N] strided, bias: T[N], *, approximate: {none, tanh} = none)
//       -> T[..., N]
//
// Tensors are `dtype[dims]`. Behind it may stand `?` (with `= None`: it may be left out), how it
// may lie in memory (`strided`: any strides; `row_strided`: any, but for a contiguous last dim;
// nothing: contiguous) and `mutable` (the op writes into it). A dtype is a name of core/dtype.hpp
// or a type variable (one capital, listed in OpDecl::types). A dim is a number, a name,
// `name*number`, `name/number` (exact), `ceil(name/number)` with or without `*number`, or a leading
// `...` (any number of dims, the same wherever it stands; the name `rows` is their product). Dims
// may depend on a choice, one alternative for each: `f32[granularity: 1 | ..., 1 | N]`.
//
// Scalars are `int`, `float`, `bool`, a `{choice, choice}` or a type variable alone, which is a
// dtype that fixes the variable; an int whose name is used as a dim fixes that dim.
//
// An output may be there on a condition, `if k` (a tensor that was given, or a bool) or `if not b`;
// an op that only writes into its arguments has no `->`. Checks, output shapes, Python functions,
// torch schemas, fake kernels, docs and the fuzzer all read this structure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/status.hpp"

namespace ac4k {

// One dimension: `symbol / divide * multiply`, or the number `multiply` when there is no symbol.
struct Dim {
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kRows = -2;  // the product of the leading dims

  int32_t symbol = kNone;
  int32_t multiply = 1;
  int32_t divide = 1;
  bool round_up = false;  // the division; otherwise it must be exact
  bool is_plain = false;  // a bare symbol, which needs no division

  // The extent for a symbol's value; -1 when that does not divide.
  int64_t extent(int64_t value) const {
    if (is_plain) return value;
    if (symbol == kNone) return multiply;
    if (!round_up && value % divide != 0) return -1;
    return (value / divide + (value % divide != 0)) * multiply;
  }
  // Its text, as written, from the names of the signature.
  std::string text(const std::vector<std::string>& dim_names) const;
};

struct Shape {
  bool leading = false;   // starts with `...`
  std::vector<Dim> dims;  // the rest
};

enum class Layout : uint8_t { contiguous, row_strided, strided };

struct TensorType {
  int type_variable = -1;    // index into Signature::type_variables, or
  DType dtype = DType::f32;  // a fixed type when type_variable < 0
  uint32_t dtype_word = 0;   // its word_of
  std::string dtype_text;
  std::vector<Shape> shapes;  // one, or one for each choice of
  int chooser = -1;           // this parameter
  Layout layout = Layout::contiguous;
  bool optional = false;
  bool is_mutable = false;
};

struct Output : TensorType {
  int condition = -1;  // the parameter it depends on
  bool negated = false;
  uint32_t may_be = 0;  // inputs that are declared alike: an in-place op may write into them
};

enum class ParamKind : uint8_t { tensor, integer, real, boolean, choice, dtype };

struct Param {
  std::string name;
  ParamKind kind = ParamKind::tensor;
  TensorType tensor;
  std::vector<std::string> choices;  // also the names of dtypes
  bool keyword_only = false;
  bool has_default = false;
  std::string default_text;
  int64_t default_integer = 0;  // also the index of a default choice
  double default_real = 0;
  int dim_symbol = -1;     // an int that fixes this dim
  int type_variable = -1;  // a dtype that fixes this variable
};

struct TypeVariable {
  char name = 'T';
  std::vector<DType> types;
  std::vector<uint32_t> words;  // word_of each type
};

struct Signature {
  std::string name;
  std::vector<Param> params;
  std::vector<Output> outputs;
  std::vector<std::string> dim_names;
  std::vector<TypeVariable> type_variables;
  bool scalars_first = false;  // some tensor is checked against a scalar
  bool has_mutable = false;

  // `types`: "T: f32 f64 f16 bf16; S: u8". On failure the text says where.
  static Status parse(std::string_view text, std::string_view types, Signature* result);
};

}  // namespace ac4k
