// Reading PTX. Functions are put in where they are called; scopes in braces have names of their
// own.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

#include "program.hpp"

namespace model {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}
std::string trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return std::string(text);
}
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  std::string word;
  for (const char c : text + " ") {
    if (std::isspace(static_cast<unsigned char>(c))) {
      if (!word.empty()) found.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  return found;
}
uint32_t bytes_of_type(std::string_view type) {  // ".b32"
  if (type == ".pred") return 4;
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string_view::npos) throw Error("type " + std::string(type));
  return static_cast<uint32_t>(std::stoi(std::string(type.substr(digits)))) / 8;
}
uint32_t rounded_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A variable's declaration: ".align 16 .b8 name[64]" or ".b64 name".
struct Variable {
  std::string name;
  uint32_t bytes = 0, align = 0;
  bool open = false;  // "name[]"
};
Variable read_variable(const std::string& text) {
  Variable variable;
  uint32_t element = 0;
  const std::vector<std::string> parts = words(text);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == ".align") {
      variable.align = static_cast<uint32_t>(std::stoul(parts[++i]));
    } else if (parts[i][0] == '.') {
      if (std::isdigit(static_cast<unsigned char>(parts[i].back()))) {
        element = bytes_of_type(parts[i]);
      }
    } else {
      variable.name = parts[i];
    }
  }
  const size_t bracket = variable.name.find('[');
  uint32_t count = 1;
  if (bracket != std::string::npos) {
    variable.open = variable.name[bracket + 1] == ']';
    if (!variable.open)
      count = static_cast<uint32_t>(std::stoul(variable.name.substr(bracket + 1)));
    variable.name.resize(bracket);
  }
  variable.bytes = variable.open ? 0 : count * element;
  variable.align = std::max(variable.align, element);
  return variable;
}

// From `at`, an opening parenthesis or brace, to behind the one that closes it.
size_t behind_group(const std::string& text, size_t at) {
  const char open = text[at], close = open == '(' ? ')' : '}';
  int depth = 0;
  for (size_t i = at; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  throw Error("a group that does not end");
}
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (const char c : text) {
    depth += (c == '{' || c == '[' || c == '(') - (c == '}' || c == ']' || c == ')');
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

class Reader {
 public:
  Reader(const std::string& text, const std::map<std::string, size_t, std::less<>>& functions,
         Kernel* kernel)
      : text_(text), functions_(functions), kernel_(kernel) {}

  void read_kernel(size_t entry) {
    const size_t open = text_.find('(', entry), body = text_.find('{', entry);
    scopes_.emplace_back();
    if (open < body) {
      const size_t end = behind_group(text_, open);
      for (const std::string& each : split_list(text_.substr(open + 1, end - open - 2))) {
        const Variable variable = read_variable(each);
        const uint32_t at = rounded_up(kernel_->parameter_bytes, variable.align);
        kernel_->parameters.push_back({variable.name, at, variable.bytes});
        kernel_->parameter_bytes = at + variable.bytes;
      }
    }
    read_body(body);
    Instruction last;
    last.flow = Flow::leave;
    last.text = "ret";
    kernel_->code.push_back(last);
    close_scope();
    kernel_->register_bytes = next_register_;
  }

 private:
  struct Scope {
    std::map<std::string, Operand, std::less<>> names;
    std::map<std::string, uint32_t, std::less<>> prefixes;  // "%r" -> bytes of a lane
    std::map<std::string, int, std::less<>> labels;
    std::vector<std::pair<size_t, std::string>> jumps;  // instruction, label
    bool is_function = false;
    std::map<std::string, std::string, std::less<>> actual;  // formal parameter -> the caller's
    std::vector<size_t> returns;
  };

  Operand new_register(uint32_t bytes) {
    Operand made;
    made.bytes = static_cast<uint8_t>(bytes > 4 ? 8 : 4);
    made.at = next_register_;
    next_register_ += made.bytes * 32u;
    return made;
  }
  Operand constant(Constant::Kind kind, uint64_t value, const std::string& special = "") {
    const auto key = std::make_tuple(kind, value, special);
    auto found = constants_.find(key);
    if (found == constants_.end()) {
      Operand made;
      made.bytes = 8;
      made.constant = true;
      made.at = next_register_;
      next_register_ += 32 * 12;
      kernel_->constants.push_back({kind, made.at, value, special});
      found = constants_.emplace(key, made).first;
    }
    return found->second;
  }

  // The body that begins at `brace`.
  void read_body(size_t brace) {
    size_t at = brace + 1;
    int depth = 1;
    while (depth > 0) {
      while (at < text_.size() && std::isspace(static_cast<unsigned char>(text_[at]))) ++at;
      if (at >= text_.size()) throw Error("a body that does not end");
      if (text_.compare(at, 2, "//") == 0) {
        at = text_.find('\n', at);
      } else if (text_[at] == '{') {
        scopes_.emplace_back();
        ++depth, ++at;
      } else if (text_[at] == '}') {
        if (--depth > 0) close_scope();
        ++at;
      } else {
        size_t name_end = at;
        while (is_name(text_[name_end])) ++name_end;
        if (text_[name_end] == ':') {
          scopes_.back().labels[text_.substr(at, name_end - at)] =
              static_cast<int>(kernel_->code.size());
          at = name_end + 1;
          continue;
        }
        const bool line_only = text_.compare(at, 4, ".loc") == 0;
        const size_t end = text_.find(line_only ? '\n' : ';', at);
        read_statement(without_comments(text_.substr(at, end - at)));
        at = end + 1;
      }
    }
  }
  static std::string without_comments(std::string text) {
    for (size_t at = text.find("//"); at != std::string::npos; at = text.find("//")) {
      const size_t end = text.find('\n', at);
      text.erase(at, end == std::string::npos ? end : end - at);
    }
    return trimmed(text);
  }
  void close_scope() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (auto& [instruction, label] : scope.jumps) {
      const auto found = scope.labels.find(label);
      if (found != scope.labels.end()) {
        kernel_->code[instruction].target = found->second;
      } else if (scopes_.empty() || scope.is_function) {
        throw Error(kernel_->name + ": no label " + label);
      } else {
        scopes_.back().jumps.emplace_back(instruction, label);
      }
    }
  }

  void read_statement(const std::string& text) {
    if (text.empty()) return;
    if (text[0] == '.') return read_directive(text);
    Instruction instruction;
    instruction.text = text;
    std::string rest = text;
    if (rest[0] == '@') {
      const size_t end = rest.find_first_of(" \t");
      instruction.guarded = true;
      instruction.guard = operand(rest.substr(1, end - 1));
      rest = trimmed(rest.substr(end));
    }
    size_t end = 0;
    while (end < rest.size() && (is_name(rest[end]) || rest[end] == '.' || rest[end] == ':')) ++end;
    const std::string name = rest.substr(0, end);
    rest = trimmed(rest.substr(end));
    if (name == "bra" || name == "bra.uni") {
      instruction.flow = Flow::branch;
      scopes_.back().jumps.emplace_back(kernel_->code.size(), rest);
    } else if (name == "ret" || name == "exit") {
      if (std::any_of(scopes_.begin(), scopes_.end(), [](auto& s) { return s.is_function; })) {
        instruction.flow = Flow::branch;
        function_scope().returns.push_back(kernel_->code.size());
      } else {
        instruction.flow = Flow::leave;
      }
    } else if (name == "call.uni" || name == "call") {
      return read_call(rest);
    } else {
      if (read_parameter_move(name, rest)) return;
      for (const std::string& each : split_list(rest)) add_operand(each, &instruction.operands);
      resolve(&instruction, name);
    }
    kernel_->code.push_back(std::move(instruction));
  }
  // Loads and stores of the parameters of functions move registers, one for each place.
  bool read_parameter_move(const std::string& name, const std::string& rest) {
    const bool load = name.starts_with("ld.param");
    if (!load && !name.starts_with("st.param")) return false;
    const std::vector<std::string> parts = split_list(rest);
    const std::string& place = parts[load ? 1 : 0];
    const size_t plus = place.find('+');
    const auto parameter =
        parameter_name(trimmed(place.substr(1, std::min(plus, place.size() - 1) - 1)));
    if (!parameter) return false;
    const uint32_t first =
        plus == std::string::npos ? 0 : static_cast<uint32_t>(std::stoul(place.substr(plus + 1)));
    std::vector<Operand> registers;
    add_operand(parts[load ? 0 : 1], &registers);
    const uint32_t bytes = bytes_of_type(name.substr(name.rfind('.')));
    for (size_t i = 0; i < registers.size(); ++i) {
      const std::string key = *parameter + "+" + std::to_string(first + i * bytes);
      auto found = parameter_registers_.find(key);
      if (found == parameter_registers_.end()) {
        found = parameter_registers_.emplace(key, new_register(8)).first;
      }
      Instruction move;
      move.text = name + " " + rest;
      move.operands = load ? std::vector{registers[i], found->second}
                           : std::vector{found->second, registers[i]};
      resolve(&move, "mov.any");
      kernel_->code.push_back(std::move(move));
    }
    return true;
  }

  void read_directive(const std::string& text) {
    const std::vector<std::string> parts = words(text);
    if (parts[0] == ".reg") {
      std::string list = trimmed(text.substr(text.find(parts[1]) + parts[1].size()));
      for (const std::string& name : split_list(list)) {
        const size_t angle = name.find('<');
        if (angle != std::string::npos) {
          scopes_.back().prefixes[name.substr(0, angle)] = bytes_of_type(parts[1]);
        } else {
          scopes_.back().names[name] = new_register(bytes_of_type(parts[1]));
        }
      }
    } else if (parts[0] == ".shared") {
      add_shared(read_variable(text.substr(7)));
    } else if (parts[0] == ".param") {
      const Variable variable = read_variable(text.substr(6));
      scopes_.back().actual[variable.name] = unique_name(variable.name);
    } else if (parts[0] == ".local") {
      throw Error(kernel_->name + ": local memory");
    }
  }
  static std::string unique_name(const std::string& name) {
    static int count = 0;
    return name + "#" + std::to_string(++count);
  }

  // A shared variable of this name, wherever the text declares it.
  void add_shared(const Variable& variable) {
    const uint32_t at = rounded_up(kernel_->static_shared, variable.align);
    scopes_.front().names[variable.name] = constant(Constant::Kind::value, at);
    kernel_->static_shared = at + variable.bytes;
  }
  bool find_shared(const std::string& name) {
    for (size_t at = text_.find(name); at != std::string::npos; at = text_.find(name, at + 1)) {
      const size_t line = text_.rfind('\n', at) + 1;
      const std::string before = text_.substr(line, at - line);
      const size_t shared = before.find(".shared");
      if (shared == std::string::npos) continue;
      const Variable variable =
          read_variable(text_.substr(line + shared + 7, text_.find(';', at) - line - shared - 7));
      if (variable.name != name) continue;
      if (variable.open) {
        scopes_.front().names[name] = constant(Constant::Kind::dynamic_shared, 0);
      } else {
        add_shared(variable);
      }
      return true;
    }
    return false;
  }

  // "(result), name, (arguments)"
  void read_call(const std::string& text) {
    std::vector<std::string> parts = split_list(text);
    std::string result;
    if (parts[0][0] == '(') {
      result = trimmed(parts[0].substr(1, parts[0].size() - 2));
      parts.erase(parts.begin());
    }
    const std::string name = parts[0];
    const std::vector<std::string> arguments =
        parts.size() > 1 ? split_list(parts[1].substr(1, parts[1].size() - 2))
                         : std::vector<std::string>{};
    const auto found = functions_.find(name);
    if (found == functions_.end()) throw Error(kernel_->name + ": no function " + name);
    Scope scope;
    scope.is_function = true;
    size_t at = text_.find('(', found->second);
    if (!result.empty()) {
      const size_t end = behind_group(text_, at);
      const Variable formal = read_variable(text_.substr(at + 1, end - at - 2));
      scope.actual[formal.name] = *parameter_name(result);
      at = text_.find('(', end);
    }
    const size_t end = behind_group(text_, at);
    size_t i = 0;
    for (const std::string& each : split_list(text_.substr(at + 1, end - at - 2))) {
      scope.actual[read_variable(each).name] = *parameter_name(arguments.at(i++));
    }
    scopes_.push_back(std::move(scope));
    read_body(text_.find('{', end));
    for (const size_t jump : scopes_.back().returns) {
      kernel_->code[jump].target = static_cast<int>(kernel_->code.size());
    }
    close_scope();
  }
  Scope& function_scope() {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (scope->is_function) return *scope;
    }
    throw Error("not in a function");
  }
  std::optional<std::string> parameter_name(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->actual.find(name);
      if (found != scope->actual.end()) return found->second;
    }
    return std::nullopt;
  }

  void add_operand(const std::string& text, std::vector<Operand>* out) {
    if (text[0] == '{') {
      for (const auto& each : split_list(text.substr(1, text.size() - 2))) add_operand(each, out);
    } else if (text[0] == '[') {
      const std::vector<std::string> parts = split_list(text.substr(1, text.size() - 2));
      const std::string& first = parts[0];
      const size_t plus = first.find('+');
      const std::string base = trimmed(first.substr(0, plus));
      const int64_t offset = plus == std::string::npos ? 0 : std::stoll(first.substr(plus + 1));
      Operand made = operand(base);
      made.offset = offset;
      out->push_back(made);
      for (size_t i = 1; i < parts.size(); ++i) add_operand(parts[i], out);
    } else if (const size_t bar = text.find('|'); bar != std::string::npos) {
      out->push_back(operand(text.substr(0, bar)));
      out->push_back(operand(text.substr(bar + 1)));
    } else {
      out->push_back(operand(text));
    }
  }

  Operand operand(const std::string& text) {
    if (text[0] == '!') {
      Operand made = operand(text.substr(1));
      made.negated = true;
      return made;
    }
    if (text == "_") return new_register(8);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->names.find(text); found != scope->names.end()) {
        return found->second;
      }
      if (text[0] == '%') {
        const std::string prefix = text.substr(0, text.find_first_of("0123456789"));
        if (const auto found = scope->prefixes.find(prefix); found != scope->prefixes.end()) {
          return scope->names[text] = new_register(found->second);
        }
      }
    }
    if (text[0] == '%') return constant(Constant::Kind::special, 0, text);
    if (text.starts_with("0f") || text.starts_with("0F")) {
      return constant(Constant::Kind::value, std::stoull(text.substr(2), nullptr, 16));
    }
    if (text.starts_with("0d") || text.starts_with("0D")) {
      return constant(Constant::Kind::value, std::stoull(text.substr(2), nullptr, 16));
    }
    if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-') {
      const bool negative = text[0] == '-';
      const uint64_t value = std::stoull(text.substr(negative), nullptr, 0);
      return constant(Constant::Kind::value, negative ? 0 - value : value);
    }
    for (const Parameter& parameter : kernel_->parameters) {
      if (parameter.name == text) return constant(Constant::Kind::parameter, parameter.at);
    }
    if (find_shared(text)) return scopes_.front().names.at(text);
    throw Error(kernel_->name + ": unknown name " + text);
  }

  const std::string& text_;
  const std::map<std::string, size_t, std::less<>>& functions_;
  Kernel* kernel_;
  std::vector<Scope> scopes_;
  uint32_t next_register_ = 0;
  std::map<std::tuple<Constant::Kind, uint64_t, std::string>, Operand> constants_;
  std::map<std::string, Operand> parameter_registers_;
};

}  // namespace

Module::Module(std::string text) : text_(std::move(text)) {
  for (const auto& [word, found] : {std::pair{".entry ", &entries_}, {".func ", &functions_}}) {
    for (size_t at = text_.find(word); at != std::string::npos; at = text_.find(word, at + 1)) {
      size_t name = at + std::strlen(word);
      while (text_[name] == ' ') ++name;
      if (text_[name] == '(') {  // a result
        name = behind_group(text_, name);
        while (text_[name] == ' ') ++name;
      }
      size_t end = name;
      while (is_name(text_[end])) ++end;
      (*found)[text_.substr(name, end - name)] = at;
    }
  }
}

const Kernel& Module::kernel(const std::string& name) {
  std::unique_ptr<Kernel>& kernel = kernels_[name];
  if (kernel == nullptr) {
    const auto entry = entries_.find(name);
    if (entry == entries_.end()) throw Error("no kernel " + name);
    auto made = std::make_unique<Kernel>();
    made->name = name;
    Reader(text_, functions_, made.get()).read_kernel(entry->second);
    kernel = std::move(made);
  }
  return *kernel;
}

}  // namespace model
