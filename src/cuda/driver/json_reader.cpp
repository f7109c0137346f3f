// A recursive reader of JSON.
#include "cuda/driver/json_reader.hpp"

#include <cstdint>
#include <cstdlib>

#include "core/number.hpp"

namespace ac4k::cuda {
namespace {

void append_utf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xc0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *out += static_cast<char>(0xe0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool whole(JsonValue* out) { return value(out, 0) && (skip_space(), text_.empty()); }

 private:
  static constexpr int kMaxDepth = 32;

  void skip_space() {
    const size_t start = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(start == std::string_view::npos ? text_.size() : start);
  }

  bool take(char wanted) {
    skip_space();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(1);
    return true;
  }

  bool string(std::string* out) {
    if (!take('"')) return false;
    while (!text_.empty()) {
      const char c = text_[0];
      text_.remove_prefix(1);
      if (c == '"') return true;
      if (c != '\\') {
        *out += c;
        continue;
      }
      if (text_.empty()) return false;
      const char escape = text_[0];
      text_.remove_prefix(1);
      switch (escape) {
        case 'n':
          *out += '\n';
          break;
        case 't':
          *out += '\t';
          break;
        case 'r':
          *out += '\r';
          break;
        case 'b':
          *out += '\b';
          break;
        case 'f':
          *out += '\f';
          break;
        case 'u': {
          if (text_.size() < 4) return false;
          char* end = nullptr;
          const std::string digits(text_.substr(0, 4));
          append_utf8(static_cast<uint32_t>(std::strtoul(digits.c_str(), &end, 16)), out);
          if (*end != '\0') return false;
          text_.remove_prefix(4);
          break;
        }
        case '"':
        case '\\':
        case '/':
          *out += escape;
          break;
        default:
          return false;
      }
    }
    return false;
  }

  bool object(JsonValue* out, int depth) {
    out->kind = JsonValue::Kind::object;
    if (take('}')) return true;
    do {
      std::string name;
      if (!string(&name) || !take(':') || !value(&out->fields[name], depth + 1)) return false;
    } while (take(','));
    return take('}');
  }

  bool array(JsonValue* out, int depth) {
    out->kind = JsonValue::Kind::array;
    if (take(']')) return true;
    do {
      if (!value(&out->items.emplace_back(), depth + 1)) return false;
    } while (take(','));
    return take(']');
  }

  bool value(JsonValue* out, int depth) {
    if (depth > kMaxDepth) return false;
    if (take('{')) return object(out, depth);
    if (take('[')) return array(out, depth);
    if (text_.starts_with('"')) {
      out->kind = JsonValue::Kind::text;
      return string(&out->text);
    }
    const size_t length = text_.find_first_of(",]} \t\r\n");
    out->text = text_.substr(0, length);
    text_.remove_prefix(out->text.size());
    if (out->text == "null" || out->text == "true" || out->text == "false") return true;
    return parse_number(out->text).has_value();
  }

  std::string_view text_;
};

}  // namespace

std::string JsonValue::get(const std::string& name) const {
  const auto found = fields.find(name);
  return found != fields.end() ? found->second.text : "";
}

double JsonValue::number(const std::string& name) const {
  return parse_number(get(name)).value_or(0);
}

std::optional<JsonValue> parse_json(std::string_view text) {
  JsonValue value;
  if (!Parser(text).whole(&value)) return std::nullopt;
  return value;
}

}  // namespace ac4k::cuda
