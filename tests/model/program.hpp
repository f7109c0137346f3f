// PTX kernels as the model runs them. Every operand is a place in a warp's registers, constants and
// special registers too, so that an instruction has one way to read what it is given.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace model {

struct Warp;
struct Instruction;

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A register of 32 lanes; 16-bit ones and predicates have 32 bits a lane. A constant lies there
// twice: as 64 bits a lane, and behind that as 32.
struct Operand {
  static constexpr uint32_t kNarrow = 32 * 8;
  uint32_t at = 0;    // byte in the registers of a warp
  uint8_t bytes = 4;  // of a lane; 4 or 8
  bool constant = false;
  bool negated = false;  // of predicates
  int64_t offset = 0;    // of an address: [register + offset]
};

enum class Flow : uint8_t { next, branch, leave };
enum class Outcome : uint8_t {
  done,
  again,  // not yet: the same instruction, in another turn
  stall,  // done, but others should have a turn
  block,  // done; a barrier lets these lanes go on
};
// Which lanes have to be there: any, all that live, or those of a mask, the last operand.
enum class Together : uint8_t { any, all, mask };

using Run = Outcome (*)(Warp&, const Instruction&, uint32_t lanes);

struct Instruction {
  Run run = nullptr;
  Flow flow = Flow::next;
  Together together = Together::any;
  bool guarded = false;
  Operand guard;
  std::vector<Operand> operands;  // groups in braces one after the other
  int target = -1;
  std::string text;
  // What the name says besides: bytes and number of elements of a load, columns of a product, ...
  int size = 0, count = 1;
  bool is_signed = false;
};

// What a warp's registers begin with.
struct Constant {
  enum class Kind : uint8_t { value, parameter, dynamic_shared, special };
  Kind kind = Kind::value;
  uint32_t at = 0;
  uint64_t value = 0;     // or how far into parameters
  std::string special{};  // "%tid.x"
};

struct Parameter {
  std::string name;
  uint32_t at = 0, bytes = 0;
};

// Shared memory begins with what the system keeps of it.
inline constexpr uint32_t kReservedShared = 1024;

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared = kReservedShared;                                   // where it ends
  uint32_t dynamic_shared() const { return (static_shared + 15) / 16 * 16; }  // where it begins
  uint32_t register_bytes = 0;
  std::vector<Constant> constants;
  std::vector<Instruction> code;
};

// The kernels of a PTX text, each read when it is first asked for.
class Module {
 public:
  explicit Module(std::string text);
  const Kernel& kernel(const std::string& name);  // throws Error
  bool has(const std::string& name) const { return entries_.contains(name); }

 private:
  std::string text_;
  std::map<std::string, size_t, std::less<>> entries_, functions_;  // where ".entry" stands
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels_;
};

// How an instruction is run, by its name ("add.s32"); fills in what the name says. Throws Error.
void resolve(Instruction* instruction, const std::string& name);

}  // namespace model
