// Row by row: the activation into a buffer, then its codes.
#include "cpu/activations_quant.hpp"

#include <algorithm>

#include "cpu/common/scale-inl.hpp"
#include "cpu/element.hpp"
#include "cpu/threads.hpp"
#include "cpu/workspace.hpp"

namespace ac4k::cpu {
namespace {

constexpr double kElementsPerThread = 8 * 1024;
constexpr int64_t kLine = 64;

// y = activation(row of x)
class RowActivation {
 public:
  RowActivation(const ActivationQuantArgs& args, Element element)
      : bias_(args.bias), columns_(args.num_columns), half_(columns_ * element_bytes(element)) {
    const ActivationKernels& activations = *kernels().activations;
    const ElementwiseKernels& elementwise = *kernels().elementwise;
    switch (args.activation) {
      case Activation::silu_and_mul:
        gated_ = activations.silu_and_mul[element];
        break;
      case Activation::gelu_exact_and_mul:
        gated_ = activations.gelu_and_mul_exact[element];
        break;
      case Activation::gelu_tanh_and_mul:
        gated_ = activations.gelu_and_mul_tanh[element];
        break;
      case Activation::relu2:
        unary_ = activations.relu2[element];
        break;
      case Activation::add_gelu_exact:
        add_gelu_ = elementwise.add_gelu_exact[element];
        break;
      case Activation::add_gelu_tanh:
        add_gelu_ = elementwise.add_gelu_tanh[element];
        break;
    }
  }
  void operator()(const char* x, void* y) const {
    if (gated_ != nullptr) {
      gated_(x, x + half_, y, columns_);
    } else if (unary_ != nullptr) {
      unary_(x, y, columns_);
    } else {
      add_gelu_(x, bias_, y, columns_);
    }
  }

 private:
  const void* bias_;
  int64_t columns_, half_;
  GatedRun gated_ = nullptr;
  UnaryRun unary_ = nullptr;
  AddGeluRun add_gelu_ = nullptr;
};

float largest_code(CodeFormat format) {
  constexpr float kLargest[] = {kLargestE4M3, kLargestE5M2, kLargestInt8};
  return kLargest[format];
}

}  // namespace

Status activation_quant(const ActivationQuantArgs& args) {
  Element element = kF32;
  AC4K_TRY(find_element(args.op, args.type, &element));
  const int64_t size = element_bytes(element), N = args.num_columns;
  const RowActivation activation(args, element);
  const QuantizeKernels& table = *kernels().quantize;
  const auto encode = table.codes[args.format].encode[element];
  const auto amax = table.amax[element];
  // A row without elements has a scale all the same, but no groups.
  const int64_t width = args.scale_columns;
  const int64_t groups = width == N ? 1 : (N + width - 1) / width;
  if (args.one_scale) args.scale[0] = args.given[0];

  const int threads = static_cast<int>(
      std::clamp<int64_t>(threads_for(static_cast<double>(args.num_rows * N), kElementsPerThread),
                          1, std::max<int64_t>(args.num_rows, 1)));
  const int64_t place = (N * size + kLine - 1) / kLine * kLine;
  auto* buffers = static_cast<char*>(workspace(static_cast<std::size_t>(place * threads)));
  if (buffers == nullptr && place > 0) {
    return fail(AC4K_OUT_OF_MEMORY, args.op, ": no memory for ", threads, " rows");
  }
  run_threads(threads, [&](int thread) {
    char* y = buffers + thread * place;
    const int64_t last = args.num_rows * (thread + 1) / threads;
    for (int64_t row = args.num_rows * thread / threads; row < last; ++row) {
      activation(args.x.row(row), y);
      for (int64_t group = 0; group < groups; ++group) {
        const int64_t first = group * width, n = std::min(width, N - first);
        float scale = 0.0f;
        if (args.one_scale) {
          scale = args.given[0];
        } else {
          const int64_t index = row * groups + group;
          scale = args.given != nullptr
                      ? args.given[index]
                      : scale_of(amax(y + first * size, n), largest_code(args.format), false);
          args.scale[index] = scale;
        }
        encode(y + first * size, inverse_of(scale), 0, args.codes + row * N + first, n);
      }
    }
  });
  return AC4K_OK;
}

}  // namespace ac4k::cpu
