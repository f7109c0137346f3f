// quantize and dequantize: GGUF blocks of every format, and ops of their own for the six oldest.
#include <string>

#include "core/block_formats.hpp"
#include "cpu/gguf.hpp"
#include "ops/gguf.hpp"
#include "ops/rows.hpp"

namespace ac4k {
namespace {

constexpr int kX = 0, kBlocks = 0;
constexpr int kFormat = 1;  // of `quantize` and `dequantize`
constexpr int kK = 0;

BlockFormat chosen_format(const Call& call) {
  return static_cast<BlockFormat>(call.integer(kFormat));
}

Status quantize_cpu(const Call& call, BlockFormat format) {
  return cpu::quantize_gguf({call.type(), format, call.rows(), call.dim(kK)},
                            RowView(call.tensor(kX)),
                            static_cast<uint8_t*>(data_of(call.output())));
}
Status dequantize_cpu(const Call& call, BlockFormat format) {
  return cpu::dequantize_gguf({call.type(), format, call.rows(), call.dim(kK)},
                              static_cast<const uint8_t*>(data_of(call.tensor(kBlocks))),
                              data_of(call.output()));
}
Status quantize_cuda(const Call& call, BlockFormat format) {
  return quantize_gguf_on_cuda(call, format, call.tensor(kX), call.dim(kK));
}
Status dequantize_cuda(const Call& call, BlockFormat format) {
  return dequantize_gguf_on_cuda(call, format, call.rows() * call.dim(kK));
}

// "{q4_0, q4_1, ...}" and "fmt: ..., K/32, 18 | ..., K/32, 20 | ...".
std::string format_names() {
  std::string text;
  for (const BlockSize& size : kBlockSizes) {
    text += (text.empty() ? "{" : ", ") + std::string(size.name);
  }
  return text + "}";
}
std::string format_shapes() {
  std::string text;
  for (const BlockSize& size : kBlockSizes) {
    text += (text.empty() ? "fmt: " : " | ") + std::string("..., K/") +
            std::to_string(size.values) + ", " + std::to_string(size.bytes);
  }
  return text;
}

constexpr const char* kTypes = "T: f32 f16 bf16";

const std::string kQuantizeSignature = "quantize(x: T[..., K] row_strided, fmt: " + format_names() +
                                       ") -> u8[" + format_shapes() + "]";
const std::string kDequantizeSignature = "dequantize(q: u8[" + format_shapes() +
                                         "], fmt: " + format_names() +
                                         ", dtype: T = f32) -> T[..., K]";

const RegisterOp kQuantize{{
    .signature = kQuantizeSignature.c_str(),
    .types = kTypes,
    .doc = "Quantise rows to GGUF blocks of a format: the bytes of a GGUF file.",
    .formula = "The rules of the format without an importance matrix (docs/gguf_formats.md) in"
               " float32, each operation rounded to nearest even; the bytes are the same on every"
               " CPU and GPU. NaN counts as 0, an infinity as the largest float32 of its sign.",
    .example = ">>> import numpy as np\n"
               ">>> q = ac4k.quantize(np.full((2, 256), 0.5, np.float32), \"q6_k\")\n"
               ">>> q.shape, float(ac4k.dequantize(q, \"q6_k\")[0, 0])\n"
               "((2, 1, 210), 0.5)",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return quantize_cpu(call, chosen_format(call)); },
    .cuda = [](const Call& call) { return quantize_cuda(call, chosen_format(call)); },
}};

const RegisterOp kDequantize{{
    .signature = kDequantizeSignature.c_str(),
    .types = kTypes,
    .doc = "Numbers from GGUF blocks of a format.",
    .formula = "What the blocks of the format stand for (docs/gguf_formats.md), in float32, rounded"
               " once to the dtype. A scale that is NaN gives NaN.",
    .example = ">>> import numpy as np\n"
               ">>> q = ac4k.quantize(np.arange(32, dtype=np.float32)[None], \"q8_0\")\n"
               ">>> ac4k.dequantize(q, \"q8_0\")[0, ::10].round(1).tolist()\n"
               "[0.0, 10.0, 20.0, 30.0]",
    .tolerance = 0.0,
    .cpu = [](const Call& call) { return dequantize_cpu(call, chosen_format(call)); },
    .cuda = [](const Call& call) { return dequantize_cuda(call, chosen_format(call)); },
}};

// The ops of one format of 32. `first` are the first four bytes for numbers that are all -8.
#define AC4K_FORMAT_OPS(name, bytes, rule, value, first)                                        \
  const RegisterOp kQuantize_##name{{                                                           \
      .signature = "quantize_" #name "(x: T[..., K] row_strided) -> u8[..., K/32, " #bytes "]", \
      .types = kTypes,                                                                          \
      .doc = "Quantise rows to " #name " blocks of 32: " #bytes " bytes each, as in GGUF.",     \
      .formula = rule                                                                           \
      " Codes follow from d before it is rounded to float16. NaN counts as 0,"                  \
      " an infinity as the largest float32 of its sign.",                                       \
      .example = ">>> import numpy as np\n"                                                     \
                 ">>> q = ac4k.quantize_" #name "(np.full((1, 32), -8, np.float32))\n"          \
                 ">>> q.shape, q[0, 0, :4].tolist()\n"                                          \
                 "((1, 1, " #bytes "), " first ")",                                             \
      .tolerance = 0.0,                                                                         \
      .cpu = [](const Call& call) { return quantize_cpu(call, kBlock_##name); },                \
      .cuda = [](const Call& call) { return quantize_cuda(call, kBlock_##name); },              \
  }};                                                                                           \
  const RegisterOp kDequantize_##name{{                                                         \
      .signature =                                                                              \
          "dequantize_" #name "(q: u8[..., K/32, " #bytes "], dtype: T = f32) -> T[..., K]",    \
      .types = kTypes,                                                                          \
      .doc = "Numbers from " #name " blocks.",                                                  \
      .formula = value ", in float32, rounded once to the dtype.",                              \
      .example = ">>> import numpy as np\n"                                                     \
                 ">>> q = ac4k.quantize_" #name "(np.full((1, 32), -8, np.float32))\n"          \
                 ">>> float(ac4k.dequantize_" #name "(q)[0, 0].round(2))\n"                     \
                 "-8.0",                                                                        \
      .tolerance = 0.0,                                                                         \
      .cpu = [](const Call& call) { return dequantize_cpu(call, kBlock_##name); },              \
      .cuda = [](const Call& call) { return dequantize_cuda(call, kBlock_##name); },            \
  }};

AC4K_FORMAT_OPS(q4_0, 18,
                "With m the number of largest magnitude (the first of several): d = m / -8,"
                " q = min(15, trunc(x * (1 / d) + 8.5)).",
                "out = d * (q - 8)", "[0, 60, 0, 0]")
AC4K_FORMAT_OPS(q4_1, 20,
                "m = min x, d = (max x - m) / 15, q = min(15, trunc((x - m) * (1 / d) + 0.5)).",
                "out = d * q + m", "[0, 0, 0, 200]")
AC4K_FORMAT_OPS(q5_0, 22,
                "With m the number of largest magnitude (the first of several): d = m / -16,"
                " q = min(31, trunc(x * (1 / d) + 16.5)).",
                "out = d * (q - 16)", "[0, 56, 0, 0]")
AC4K_FORMAT_OPS(q5_1, 24,
                "m = min x, d = (max x - m) / 31, q = min(31, trunc((x - m) * (1 / d) + 0.5)).",
                "out = d * q + m", "[0, 0, 0, 200]")
AC4K_FORMAT_OPS(q8_0, 34, "d = max |x| / 127, q = x * (1 / d) to the nearest, halves away from 0.",
                "out = d * q", "[8, 44, 129, 129]")
AC4K_FORMAT_OPS(q8_1, 36,
                "d = max |x| / 127, q = x * (1 / d) to the nearest, halves away from 0; s = d times"
                " the sum of q.",
                "out = d * q", "[8, 44, 0, 220]")

}  // namespace
}  // namespace ac4k
