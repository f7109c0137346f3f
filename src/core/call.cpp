// The call path: check, then the kernel of the device. No allocation, no environment, no locks.
#include "core/check.hpp"

using namespace ac4k;

namespace {

Status unsupported_device(const Call& call) {
  return fail(AC4K_UNSUPPORTED, call.op.signature.name, ": expected tensors on ",
              call.op.decl.cuda ? "cpu or cuda" : "cpu", ", got DLPack device type ",
              static_cast<int>(call.device.device_type));
}

Status null_pointer(const Op& op, const char* argument) {
  return fail(AC4K_INVALID_VALUE, op.signature.name, ": argument '", argument,
              "': expected a pointer, got null");
}

}  // namespace

extern "C" {

ac4k_status ac4k_infer(const ac4k_op* op, const ac4k_arg* args, size_t num_args,
                       ac4k_tensor_spec* specs, size_t num_outputs) {
  if (op == nullptr) return fail(AC4K_INVALID_TYPE, "ac4k_infer: no such op");
  if (specs == nullptr && num_outputs != 0) return null_pointer(*op, "specs");
  if (args == nullptr && num_args != 0) return null_pointer(*op, "args");
  Call call(*op, nullptr);
  AC4K_TRY(bind(*op, args, num_args, &call));
  if (num_outputs != op->signature.outputs.size()) {
    return fail(AC4K_INVALID_TYPE, op->signature.name, ": expected ", op->signature.outputs.size(),
                " outputs, got ", num_outputs);
  }
  for (size_t i = 0; i < num_outputs; ++i) AC4K_TRY(output_spec(call, i, &specs[i]));
  return AC4K_OK;
}

ac4k_status ac4k_call(const ac4k_op* op, const ac4k_arg* args, size_t num_args,
                      const DLTensor* const* outputs, size_t num_outputs, void* stream) {
  if (op == nullptr) return fail(AC4K_INVALID_TYPE, "ac4k_call: no such op");
  if (args == nullptr && num_args != 0) return null_pointer(*op, "args");
  if (outputs == nullptr && num_outputs != 0) return null_pointer(*op, "outputs");
  Call call(*op, stream);
  AC4K_TRY(bind(*op, args, num_args, &call));
  AC4K_TRY(bind_outputs(outputs, num_outputs, &call));
  if (call.empty) return AC4K_OK;
  const OpKernel kernel = call.device.device_type == kDLCPU    ? op->decl.cpu
                          : call.device.device_type == kDLCUDA ? op->decl.cuda
                                                               : nullptr;
  return kernel ? kernel(call) : unsupported_device(call);
}

}  // extern "C"
