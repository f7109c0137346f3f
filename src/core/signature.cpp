#include "core/signature.hpp"

#include <cctype>
#include <cstdlib>
#include <utility>

#include "core/number.hpp"

namespace ac4k {
namespace {

class Parser {
 public:
  Parser(std::string_view text, Signature* result) : text_(text), result_(*result) {}

  Status parse_types(std::string_view types) {
    std::swap(text_, types);
    while (!at_end()) {
      TypeVariable variable;
      std::string name;
      AC4K_TRY(identifier(&name));
      if (name.size() != 1) return error("a type variable of one letter");
      variable.name = name[0];
      AC4K_TRY(expect(':'));
      while (!at_end() && !accept(';')) {
        std::string type;
        AC4K_TRY(identifier(&type));
        const auto dtype = parse_dtype(type);
        if (!dtype) return error("a dtype");
        variable.types.push_back(*dtype);
        variable.words.push_back(word_of(to_dlpack(*dtype)));
      }
      result_.type_variables.push_back(std::move(variable));
    }
    std::swap(text_, types);
    position_ = 0;
    return AC4K_OK;
  }

  Status parse() {
    AC4K_TRY(identifier(&result_.name));
    AC4K_TRY(expect('('));
    bool keyword_only = false;
    while (!accept(')')) {
      if (accept('*')) {
        keyword_only = true;
      } else {
        Param param;
        param.keyword_only = keyword_only;
        AC4K_TRY(parse_param(&param));
        result_.params.push_back(std::move(param));
      }
      if (!accept(',') && peek() != ')') return error("',' or ')'");
    }
    if (!at_end()) {
      AC4K_TRY(expect('-'));
      AC4K_TRY(expect('>'));
      result_reached_ = true;
      do {
        AC4K_TRY(parse_output());
      } while (accept(','));
    }
    if (!at_end()) return error("the end");
    if (result_.outputs.empty() && !result_.has_mutable) return error("an output");
    if (result_.params.size() > AC4K_MAX_ARGS || result_.outputs.size() > AC4K_MAX_OUTPUTS ||
        result_.dim_names.size() > AC4K_MAX_ARGS) {
      return fail(AC4K_RUNTIME_ERROR, "signature of ", result_.name, ": too many parts");
    }
    for (Param& param : result_.params) {
      for (size_t i = 0; i < result_.dim_names.size(); ++i) {
        if (param.kind == ParamKind::integer && param.name == result_.dim_names[i]) {
          param.dim_symbol = static_cast<int>(i);
          result_.scalars_first = true;
        }
      }
    }
    return resolve_names();
  }

 private:
  Status parse_param(Param* param) {
    AC4K_TRY(identifier(&param->name));
    AC4K_TRY(expect(':'));
    if (accept('{')) {
      param->kind = ParamKind::choice;
      do {
        std::string choice;
        AC4K_TRY(identifier(&choice));
        param->choices.push_back(std::move(choice));
      } while (accept(','));
      AC4K_TRY(expect('}'));
    } else if (accept_word("int")) {
      param->kind = ParamKind::integer;
    } else if (accept_word("float")) {
      param->kind = ParamKind::real;
    } else if (accept_word("bool")) {
      param->kind = ParamKind::boolean;
    } else {
      std::string dtype;
      AC4K_TRY(identifier(&dtype));
      if (peek() == '[') {
        param->kind = ParamKind::tensor;
        AC4K_TRY(tensor_type(dtype, &param->tensor));
        result_.has_mutable |= param->tensor.is_mutable;
      } else {
        param->kind = ParamKind::dtype;
        param->type_variable = type_variable(dtype);
        if (param->type_variable < 0) return error("a type variable");
        for (const DType type : result_.type_variables[param->type_variable].types) {
          param->choices.emplace_back(display_name(type));
        }
        result_.scalars_first = true;
      }
    }
    return accept('=') ? parse_default(param) : AC4K_OK;
  }

  Status parse_default(Param* param) {
    param->has_default = true;
    skip_space();
    const size_t start = position_;
    while (position_ < text_.size() && text_[position_] != ',' && text_[position_] != ')') {
      ++position_;
    }
    param->default_text = std::string(text_.substr(start, position_ - start));
    const std::string& value = param->default_text;
    switch (param->kind) {
      case ParamKind::tensor:
        if (!param->tensor.optional || value != "None") return error("None for a `?` tensor");
        return AC4K_OK;
      case ParamKind::integer:
        param->default_integer = std::atoll(value.c_str());
        return AC4K_OK;
      case ParamKind::real:
        if (const auto number = parse_number(value)) {
          param->default_real = *number;
          return AC4K_OK;
        }
        return error("a number");
      case ParamKind::boolean:
        if (value != "True" && value != "False") return error("True or False");
        param->default_integer = value == "True";
        return AC4K_OK;
      case ParamKind::choice:
      case ParamKind::dtype:
        for (size_t i = 0; i < param->choices.size(); ++i) {
          const bool named =
              param->kind == ParamKind::choice
                  ? param->choices[i] == value
                  : value ==
                        name_of(result_.type_variables[static_cast<size_t>(param->type_variable)]
                                    .types[i]);
          if (named) {
            param->default_integer = static_cast<int64_t>(i);
            param->default_text = param->choices[i];
            return AC4K_OK;
          }
        }
        return error("one of the choices");
    }
    return AC4K_OK;
  }

  Status parse_output() {
    Output output;
    std::string dtype, condition;
    AC4K_TRY(identifier(&dtype));
    AC4K_TRY(tensor_type(dtype, &output));
    if (accept_word("if")) {
      output.negated = accept_word("not");
      AC4K_TRY(identifier(&condition));
      output.condition = param_named(condition);
      if (output.condition < 0) return error("a parameter");
      const Param& param = result_.params[static_cast<size_t>(output.condition)];
      if (param.kind != ParamKind::boolean && !param.tensor.optional) {
        return error("a bool or an optional tensor");
      }
    }
    result_.outputs.push_back(std::move(output));
    return AC4K_OK;
  }

  // What parameters are known by once all of them have been read.
  Status resolve_names() {
    for (const auto& [type, name] : choosers_) {
      const int chooser = param_named(name);
      const bool is_param = type < result_.params.size();
      TensorType& tensor =
          is_param ? result_.params[type].tensor : result_.outputs[type - result_.params.size()];
      if (chooser < 0 ||
          result_.params[static_cast<size_t>(chooser)].choices.size() != tensor.shapes.size()) {
        return error("a choice with as many alternatives as '" + name + "'");
      }
      tensor.chooser = chooser;
      result_.scalars_first |= is_param;
    }
    for (Output& output : result_.outputs) {
      for (size_t p = 0; p < result_.params.size(); ++p) {
        const Param& param = result_.params[p];
        const bool alike = param.kind == ParamKind::tensor &&
                           param.tensor.dtype_text == output.dtype_text &&
                           shapes_text(param.tensor) == shapes_text(output);
        output.may_be |= static_cast<uint32_t>(alike) << p;
      }
    }
    return AC4K_OK;
  }

  std::string shapes_text(const TensorType& type) const {
    std::string text;
    for (const Shape& shape : type.shapes) {
      text += shape.leading ? "|..." : "|";
      for (const Dim& dim : shape.dims) text.append(",").append(dim.text(result_.dim_names));
    }
    return text;
  }

  int param_named(std::string_view name) const {
    for (size_t i = 0; i < result_.params.size(); ++i) {
      if (result_.params[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  int type_variable(std::string_view name) const {
    for (size_t i = 0; i < result_.type_variables.size(); ++i) {
      if (name.size() == 1 && name[0] == result_.type_variables[i].name) return static_cast<int>(i);
    }
    return -1;
  }

  Status tensor_type(const std::string& dtype_text, TensorType* type) {
    type->dtype_text = dtype_text;
    if (const auto dtype = parse_dtype(dtype_text)) {
      type->dtype = *dtype;
      type->dtype_word = word_of(to_dlpack(*dtype));
    } else {
      type->type_variable = type_variable(dtype_text);
      if (type->type_variable < 0) return error("a dtype or a type variable");
    }
    AC4K_TRY(expect('['));
    if (std::string chooser; accept_chooser(&chooser)) {
      // Parameters are numbered before outputs; this one is pushed after it has been read.
      const bool in_params = !result_reached_;
      choosers_.emplace_back(result_.params.size() + (in_params ? 0 : result_.outputs.size()),
                             std::move(chooser));
    }
    do {
      AC4K_TRY(parse_shape(&type->shapes.emplace_back()));
    } while (accept('|'));
    AC4K_TRY(expect(']'));
    type->optional = accept('?');
    if (accept_word("strided")) type->layout = Layout::strided;
    if (accept_word("row_strided")) type->layout = Layout::row_strided;
    type->is_mutable = accept_word("mutable");
    return AC4K_OK;
  }

  // `name:` at the start of the dims.
  bool accept_chooser(std::string* name) {
    const size_t before = position_;
    if (std::isalpha(static_cast<unsigned char>(peek())) && identifier(name) == AC4K_OK &&
        accept(':')) {
      return true;
    }
    position_ = before;
    return false;
  }

  Status parse_shape(Shape* shape) {
    while (peek() != ']' && peek() != '|') {
      if (accept('.')) {
        if (!accept('.') || !accept('.') || !shape->dims.empty()) return error("a leading '...'");
        shape->leading = true;
      } else {
        AC4K_TRY(parse_dim(&shape->dims.emplace_back()));
      }
      if (!accept(',') && peek() != ']' && peek() != '|') return error("',' or ']'");
    }
    return AC4K_OK;
  }

  Status parse_dim(Dim* dim) {
    if (std::isdigit(static_cast<unsigned char>(peek()))) {
      dim->multiply = static_cast<int32_t>(number());
      return AC4K_OK;
    }
    std::string name;
    AC4K_TRY(identifier(&name));
    if (name == "ceil") {
      dim->round_up = true;
      AC4K_TRY(expect('('));
      AC4K_TRY(identifier(&name));
    }
    dim->symbol = name == "rows" ? Dim::kRows : symbol(name);
    if (accept('/')) dim->divide = static_cast<int32_t>(number());
    if (dim->round_up) AC4K_TRY(expect(')'));
    if (accept('*')) dim->multiply = static_cast<int32_t>(number());
    if (dim->multiply <= 0 || dim->divide <= 0) return error("a positive number");
    dim->is_plain = dim->multiply == 1 && dim->divide == 1;
    return AC4K_OK;
  }

  int symbol(const std::string& name) {
    auto& names = result_.dim_names;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return static_cast<int>(i);
    }
    names.push_back(name);
    return static_cast<int>(names.size()) - 1;
  }

  int64_t number() {
    skip_space();
    int64_t value = 0;
    while (position_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[position_]))) {
      value = value * 10 + (text_[position_++] - '0');
    }
    return value;
  }

  Status identifier(std::string* name) {
    skip_space();
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    const size_t start = position_;
    while (position_ < text_.size() && is_word(text_[position_])) ++position_;
    if (position_ == start) return error("a name");
    *name = std::string(text_.substr(start, position_ - start));
    return AC4K_OK;
  }

  bool accept_word(std::string_view word) {
    const size_t before = position_;
    std::string name;
    skip_space();
    if (std::isalpha(static_cast<unsigned char>(peek())) && identifier(&name) == AC4K_OK &&
        name == word) {
      return true;
    }
    position_ = before;
    return false;
  }

  Status expect(char c) {
    if (accept(c)) return AC4K_OK;
    return error(std::string{'\'', c, '\''});
  }

  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  char peek() {
    skip_space();
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool at_end() { return peek() == '\0'; }

  void skip_space() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) {
      ++position_;
    }
  }

  Status error(std::string_view expected) const {
    return fail(AC4K_RUNTIME_ERROR, "signature \"", text_, "\": expected ", expected, " at column ",
                position_ + 1);
  }

  std::string_view text_;
  Signature& result_;
  size_t position_ = 0;
  bool result_reached_ = false;  // behind the `->`
  // (parameter, or number of parameters + output; the name of the choice its dims depend on)
  std::vector<std::pair<size_t, std::string>> choosers_;
};

}  // namespace

std::string Dim::text(const std::vector<std::string>& dim_names) const {
  if (symbol == kNone) return std::to_string(multiply);
  std::string text = symbol == kRows ? "rows" : dim_names[static_cast<size_t>(symbol)];
  if (divide != 1) text.append("/").append(std::to_string(divide));
  if (round_up) text = std::string("ceil(").append(text).append(")");
  return multiply == 1 ? text : text.append("*").append(std::to_string(multiply));
}

Status Signature::parse(std::string_view text, std::string_view types, Signature* result) {
  *result = Signature{};
  Parser parser(text, result);
  AC4K_TRY(parser.parse_types(types));
  return parser.parse();
}

}  // namespace ac4k
