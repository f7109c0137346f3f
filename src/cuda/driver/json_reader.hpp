// Reading the JSON of cache entries, which may be damaged in any way. core/json.hpp writes it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ac4k::cuda {

// null, true and false are kept as their own text, as numbers are.
struct JsonValue {
  enum class Kind { text, literal, array, object };
  Kind kind = Kind::literal;
  std::string text;
  std::vector<JsonValue> items;
  std::map<std::string, JsonValue> fields;

  // The text of a string or a literal field; empty when there is none.
  std::string get(const std::string& name) const;
  double number(const std::string& name) const;
};

// Nothing when `text` is not exactly one JSON value.
std::optional<JsonValue> parse_json(std::string_view text);

}  // namespace ac4k::cuda
