// Writes JSON, commas and escapes included.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "core/number.hpp"

namespace ac4k {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    write_string(name);
    text_ += ':';
    need_comma_ = false;
    return *this;
  }

  JsonWriter& value(std::string_view string) {
    separate();
    write_string(string);
    return *this;
  }
  JsonWriter& value(const char* string) { return value(std::string_view(string ? string : "")); }
  JsonWriter& value(bool boolean) { return raw(boolean ? "true" : "false"); }
  JsonWriter& value(int64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(int number) { return raw(std::to_string(number)); }
  JsonWriter& value(uint64_t number) { return raw(std::to_string(number)); }
  JsonWriter& value(double number) { return std::isfinite(number) ? raw(text_of(number)) : null(); }
  JsonWriter& null() { return raw("null"); }

  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket) {
    separate();
    text_ += bracket;
    need_comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    text_ += bracket;
    need_comma_ = true;
    return *this;
  }
  JsonWriter& raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  void separate() {
    if (need_comma_) text_ += ',';
    need_comma_ = true;
  }
  void write_string(std::string_view string) {
    text_ += '"';
    for (const char c : string) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char buffer[8];
        std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
        text_ += buffer;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool need_comma_ = false;
};

}  // namespace ac4k
