// a * b + c and add + GELU over strided inputs.
#include "cpu/runs.hpp"

namespace ac4k::cpu {

using namespace runs;

Status mul_add(DType type, const View& a, const View& b, const View& c, void* out) {
  Element element = kF32;
  AC4K_TRY(find_element("element_wise_mul_add", type, &element));
  Space space;
  space.num_inputs = 3;
  const View* const views[] = {&a, &b, &c};
  const int64_t* strides[kMaxInputs];
  for (int t = 0; t < 3; ++t) {
    space.data[t] = static_cast<const char*>(views[t]->data);
    strides[t] = views[t]->strides;
  }
  merge_dims(space, a.ndim, a.shape, strides);
  if (space.count == 0) return AC4K_OK;
  const MulAddRun run = kernels().elementwise->mul_add[element];
  const int64_t size = element_bytes(element);
  constexpr double kElementsPerThread = 16 * 1024;
  for_each_run(space, element, kElementsPerThread,
               [&](const void* const* inputs, int64_t first, int64_t n) {
                 run(inputs[0], inputs[1], inputs[2], static_cast<char*>(out) + first * size, n);
               });
  return AC4K_OK;
}

Status add_gelu(DType type, const View& x, const void* bias, int64_t bias_stride, void* out,
                Gelu kind) {
  Element element = kF32;
  AC4K_TRY(find_element("fused_add_gelu", type, &element));
  int64_t bias_strides[AC4K_MAX_DIMS] = {};
  if (x.ndim > 0) bias_strides[x.ndim - 1] = bias_stride;
  Space space;
  space.num_inputs = 2;
  space.data[0] = static_cast<const char*>(x.data);
  space.data[1] = static_cast<const char*>(bias);
  const int64_t* strides[] = {x.strides, bias_strides};
  merge_dims(space, x.ndim, x.shape, strides);
  if (space.count == 0) return AC4K_OK;
  const ElementwiseKernels& table = *kernels().elementwise;
  const AddGeluRun run =
      kind == Gelu::exact ? table.add_gelu_exact[element] : table.add_gelu_tanh[element];
  const int64_t size = element_bytes(element);
  constexpr double kElementsPerThread = 8 * 1024;
  for_each_run(space, element, kElementsPerThread,
               [&](const void* const* inputs, int64_t first, int64_t n) {
                 run(inputs[0], inputs[1], static_cast<char*>(out) + first * size, n);
               });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
