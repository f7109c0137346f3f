// The op table as JSON, for everything that is made from it.
#include <string>

#include "core/json.hpp"
#include "core/op.hpp"

namespace ac4k {
namespace {

void write_dims(JsonWriter& json, const Signature& signature, const TensorType& type) {
  static constexpr const char* kLayouts[] = {"contiguous", "row_strided", "strided"};
  json.key("dtype").value(type.dtype_text);
  json.key("layout").value(kLayouts[static_cast<size_t>(type.layout)]);
  json.key("dims").begin_array();
  for (const Shape& shape : type.shapes) {
    if (type.chooser >= 0) json.begin_array();
    if (shape.leading) json.value("...");
    for (const Dim& dim : shape.dims) json.value(dim.text(signature.dim_names));
    if (type.chooser >= 0) json.end_array();
  }
  json.end_array();
  if (type.chooser >= 0) {
    json.key("dims_by").value(signature.params[static_cast<size_t>(type.chooser)].name);
  }
}

void write_default(JsonWriter& json, const Param& param) {
  json.key("default");
  switch (param.kind) {
    case ParamKind::tensor:
      json.null();
      break;
    case ParamKind::integer:
      json.value(param.default_integer);
      break;
    case ParamKind::real:
      json.value(param.default_real);
      break;
    case ParamKind::boolean:
      json.value(param.default_integer != 0);
      break;
    case ParamKind::choice:
    case ParamKind::dtype:
      json.value(param.default_text);
      break;
  }
}

void write_param(JsonWriter& json, const Signature& signature, const Param& param) {
  static constexpr const char* kKinds[] = {"tensor", "int", "float", "bool", "choice", "dtype"};
  json.begin_object();
  json.key("name").value(param.name);
  json.key("kind").value(kKinds[static_cast<size_t>(param.kind)]);
  if (param.kind == ParamKind::tensor) {
    write_dims(json, signature, param.tensor);
    json.key("optional").value(param.tensor.optional);
    json.key("mutable").value(param.tensor.is_mutable);
  }
  if (param.kind == ParamKind::dtype) {
    const auto variable = static_cast<size_t>(param.type_variable);
    json.key("variable").value(std::string(1, signature.type_variables[variable].name));
  }
  if (!param.choices.empty()) {
    json.key("choices").begin_array();
    for (const auto& choice : param.choices) json.value(choice);
    json.end_array();
  }
  json.key("keyword_only").value(param.keyword_only);
  json.key("has_default").value(param.has_default);
  if (param.has_default) write_default(json, param);
  json.end_object();
}

void write_op(JsonWriter& json, const Op& op) {
  json.begin_object();
  json.key("name").value(op.signature.name);
  json.key("signature").value(op.decl.signature);
  json.key("doc").value(op.decl.doc);
  json.key("formula").value(op.decl.formula);
  json.key("example").value(op.decl.example);
  json.key("tolerance").value(op.decl.tolerance);
  json.key("in_place").value(op.decl.in_place);
  json.key("cuda").value(op.decl.cuda != nullptr);
  json.key("types").begin_object();
  for (const auto& variable : op.signature.type_variables) {
    json.key(std::string(1, variable.name)).begin_array();
    for (const DType type : variable.types) json.value(name_of(type));
    json.end_array();
  }
  json.end_object();
  json.key("params").begin_array();
  for (const auto& param : op.signature.params) write_param(json, op.signature, param);
  json.end_array();
  json.key("outputs").begin_array();
  for (const Output& output : op.signature.outputs) {
    json.begin_object();
    write_dims(json, op.signature, output);
    if (output.condition >= 0) {
      json.key(output.negated ? "if_not" : "if")
          .value(op.signature.params[static_cast<size_t>(output.condition)].name);
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace
}  // namespace ac4k

extern "C" const char* ac4k_op_table_json(void) {
  static const std::string text = [] {
    ac4k::JsonWriter json;
    json.begin_array();
    for (const ac4k::Op* op : ac4k::op_table()) ac4k::write_op(json, *op);
    json.end_array();
    return json.take();
  }();
  return text.c_str();
}
