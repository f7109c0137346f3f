#include "core/signature.hpp"

#include <cctype>
#include <cstdlib>

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
    AC4K_TRY(expect('-'));
    AC4K_TRY(expect('>'));
    do {
      TensorType output;
      AC4K_TRY(tensor_type(&output));
      result_.outputs.push_back(std::move(output));
    } while (accept(','));
    if (!at_end()) return error("the end");
    if (result_.params.size() > AC4K_MAX_ARGS || result_.outputs.size() > AC4K_MAX_OUTPUTS ||
        result_.dim_names.size() > AC4K_MAX_ARGS) {
      return fail(AC4K_RUNTIME_ERROR, "signature of ", result_.name, ": too many parts");
    }
    for (Param& param : result_.params) {
      for (size_t i = 0; i < result_.dim_names.size(); ++i) {
        if (param.kind == ParamKind::integer && param.name == result_.dim_names[i]) {
          param.dim_symbol = static_cast<int>(i);
          result_.ints_fix_dims = true;
        }
      }
    }
    return AC4K_OK;
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
      param->kind = ParamKind::tensor;
      AC4K_TRY(tensor_type(&param->tensor));
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
        param->default_real = std::atof(value.c_str());
        return AC4K_OK;
      case ParamKind::boolean:
        if (value != "True" && value != "False") return error("True or False");
        param->default_integer = value == "True";
        return AC4K_OK;
      case ParamKind::choice:
        for (size_t i = 0; i < param->choices.size(); ++i) {
          if (param->choices[i] == value) {
            param->default_integer = static_cast<int64_t>(i);
            return AC4K_OK;
          }
        }
        return error("one of the choices");
    }
    return AC4K_OK;
  }

  Status tensor_type(TensorType* type) {
    AC4K_TRY(identifier(&type->dtype_text));
    if (const auto dtype = parse_dtype(type->dtype_text)) {
      type->dtype = *dtype;
      type->dtype_word = word_of(to_dlpack(*dtype));
    } else {
      for (size_t i = 0; i < result_.type_variables.size(); ++i) {
        if (type->dtype_text.size() == 1 && type->dtype_text[0] == result_.type_variables[i].name) {
          type->type_variable = static_cast<int>(i);
        }
      }
      if (type->type_variable < 0) return error("a dtype or a type variable");
    }
    AC4K_TRY(expect('['));
    while (!accept(']')) {
      if (accept('.')) {
        if (!accept('.') || !accept('.') || !type->dims.empty()) return error("a leading '...'");
        type->leading = true;
      } else {
        Dim dim;
        AC4K_TRY(parse_dim(&dim));
        type->dims.push_back(std::move(dim));
      }
      if (!accept(',') && peek() != ']') return error("',' or ']'");
    }
    type->optional = accept('?');
    type->strided = accept_word("strided");
    return AC4K_OK;
  }

  Status parse_dim(Dim* dim) {
    if (std::isdigit(static_cast<unsigned char>(peek()))) {
      dim->multiply = static_cast<int32_t>(number());
    } else {
      std::string name;
      AC4K_TRY(identifier(&name));
      dim->symbol = symbol(name);
      if (accept('*')) {
        dim->multiply = static_cast<int32_t>(number());
      } else if (accept('/')) {
        dim->divide = static_cast<int32_t>(number());
      }
      if (dim->multiply <= 0 || dim->divide <= 0) return error("a positive number");
    }
    dim->is_plain = dim->symbol >= 0 && dim->multiply == 1 && dim->divide == 1;
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
};

}  // namespace

std::string Dim::text(const std::vector<std::string>& dim_names) const {
  if (symbol < 0) return std::to_string(multiply);
  const std::string& name = dim_names[static_cast<size_t>(symbol)];
  if (multiply != 1) return name + "*" + std::to_string(multiply);
  return divide == 1 ? name : name + "/" + std::to_string(divide);
}

Status Signature::parse(std::string_view text, std::string_view types, Signature* result) {
  *result = Signature{};
  Parser parser(text, result);
  AC4K_TRY(parser.parse_types(types));
  return parser.parse();
}

}  // namespace ac4k
