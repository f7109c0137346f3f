// Activations over strided inputs.
#include "cpu/runs.hpp"

namespace ac4k::cpu {

using namespace runs;

namespace {

constexpr double kElementsPerThread = 8 * 1024;

GatedRun run_of(Gate gate, Element element) {
  const ActivationKernels& table = *kernels().activations;
  switch (gate) {
    case Gate::silu:
      return table.silu_and_mul[element];
    case Gate::gelu_exact:
      return table.gelu_and_mul_exact[element];
    case Gate::gelu_tanh:
      break;
  }
  return table.gelu_and_mul_tanh[element];
}

}  // namespace

// The two halves of a row are two inputs of half the width.
Status gated(DType type, const View& x, void* out, Gate gate) {
  Element element = kF32;
  AC4K_TRY(find_element("gated activation", type, &element));
  const int64_t size = element_bytes(element);
  const int last = x.ndim - 1;
  int64_t shape[AC4K_MAX_DIMS];
  std::copy_n(x.shape, x.ndim, shape);
  shape[last] /= 2;
  Space space;
  space.num_inputs = 2;
  space.data[0] = static_cast<const char*>(x.data);
  space.data[1] = space.data[0] + shape[last] * x.strides[last] * size;
  const int64_t* strides[] = {x.strides, x.strides};
  merge_dims(space, x.ndim, shape, strides);
  if (space.count == 0) return AC4K_OK;
  const GatedRun run = run_of(gate, element);
  for_each_run(space, element, kElementsPerThread,
               [&](const void* const* inputs, int64_t first, int64_t n) {
                 run(inputs[0], inputs[1], static_cast<char*>(out) + first * size, n);
               });
  return AC4K_OK;
}

Status relu2(DType type, const View& x, void* out) {
  Element element = kF32;
  AC4K_TRY(find_element("relu2", type, &element));
  const int64_t size = element_bytes(element);
  Space space;
  space.num_inputs = 1;
  space.data[0] = static_cast<const char*>(x.data);
  merge_dims(space, x.ndim, x.shape, &x.strides);
  if (space.count == 0) return AC4K_OK;
  const UnaryRun run = kernels().activations->relu2[element];
  for_each_run(space, element, 2 * kElementsPerThread,
               [&](const void* const* inputs, int64_t first, int64_t n) {
                 run(inputs[0], static_cast<char*>(out) + first * size, n);
               });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
