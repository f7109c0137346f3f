#include "core/op.hpp"

#include <algorithm>

namespace ac4k {
namespace {

// Ops register themselves while the library loads, before anybody can ask for the table.
std::vector<const Op*>& registry() {
  static auto& ops = *new std::vector<const Op*>;  // never destroyed: threads may outlive main
  return ops;
}

}  // namespace

RegisterOp::RegisterOp(const OpDecl& declaration) {
  auto& ops = registry();
  const Op* op = new Op(declaration);
  const auto by_name = [](const Op* a, const Op* b) {
    return a->signature.name < b->signature.name;
  };
  ops.insert(std::upper_bound(ops.begin(), ops.end(), op, by_name), op);
}

const std::vector<const Op*>& op_table() { return registry(); }

std::string shape_text(int ndim, const int64_t* shape) {
  std::string text = "[";
  for (int i = 0; i < ndim; ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace ac4k

ac4k_op::ac4k_op(const ac4k::OpDecl& declaration) : decl(declaration) {
  // A declaration that does not parse leaves an op without parameters; tests/cpp/test_op_table.cpp
  // parses every declaration again and shows the reason.
  if (ac4k::Signature::parse(decl.signature, decl.types, &signature) != AC4K_OK) {
    signature = {};
    signature.name = decl.signature;
  }
}

extern "C" {

size_t ac4k_num_ops(void) { return ac4k::op_table().size(); }

const ac4k_op* ac4k_op_at(size_t index) {
  const auto& ops = ac4k::op_table();
  return index < ops.size() ? ops[index] : nullptr;
}

const ac4k_op* ac4k_find_op(const char* name) {
  if (name == nullptr) return nullptr;
  const auto& ops = ac4k::op_table();
  const auto found = std::lower_bound(
      ops.begin(), ops.end(), name,
      [](const ac4k_op* op, const char* key) { return op->signature.name.compare(key) < 0; });
  return found != ops.end() && (*found)->signature.name == name ? *found : nullptr;
}

const char* ac4k_op_name(const ac4k_op* op) { return op ? op->signature.name.c_str() : ""; }

size_t ac4k_op_num_params(const ac4k_op* op) { return op ? op->signature.params.size() : 0; }

size_t ac4k_op_num_outputs(const ac4k_op* op) { return op ? op->signature.outputs.size() : 0; }

ac4k_param ac4k_op_param(const ac4k_op* op, size_t index) {
  static constexpr ac4k_arg_kind kKinds[] = {AC4K_ARG_TENSOR, AC4K_ARG_INT,    AC4K_ARG_FLOAT,
                                             AC4K_ARG_BOOL,   AC4K_ARG_STRING, AC4K_ARG_STRING};
  if (index >= ac4k_op_num_params(op)) return {};
  const ac4k::Param& param = op->signature.params[index];
  return {param.name.c_str(),      kKinds[static_cast<size_t>(param.kind)],
          param.keyword_only,      param.has_default,
          param.tensor.is_mutable, param.kind == ac4k::ParamKind::dtype};
}

const char* ac4k_op_choice(const ac4k_op* op, size_t param, size_t index) {
  if (param >= ac4k_op_num_params(op)) return nullptr;
  const auto& choices = op->signature.params[param].choices;
  return index < choices.size() ? choices[index].c_str() : nullptr;
}

int32_t ac4k_op_output_is_optional(const ac4k_op* op, size_t index) {
  return index < ac4k_op_num_outputs(op) && op->signature.outputs[index].condition >= 0;
}

}  // extern "C"
