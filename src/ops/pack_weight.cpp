// pack_weight and unpack_weight: GGUF blocks to the layout that `quant_linear` reads, and back.
#include "core/op.hpp"
#include "cpu/packed_weights.hpp"
#include "ops/weight_formats.hpp"

namespace ac4k {
namespace {

constexpr int kWeight = 0, kN = 1, kK = 2, kFormat = 3;

WeightFormat format_of(const Call& call) {
  return static_cast<WeightFormat>(call.integer(kFormat));
}

Status check(const Call& call) {
  return check_block_multiple(call, "K", format_of(call), call.integer(kK));
}

Status pack_cpu(const Call& call) {
  return cpu::pack_weight(
      format_of(call), static_cast<const uint8_t*>(data_of(call.tensor(kWeight))), call.integer(kN),
      call.integer(kK), static_cast<uint8_t*>(data_of(call.output())));
}

Status unpack_cpu(const Call& call) {
  return cpu::unpack_weight(
      format_of(call), static_cast<const uint8_t*>(data_of(call.tensor(kWeight))), call.integer(kN),
      call.integer(kK), static_cast<uint8_t*>(data_of(call.output())));
}

const RegisterOp kPack{{
    .signature = "pack_weight(q: u8[" AC4K_GGUF_SHAPE
                 "], N: int, K: int, *, fmt: " AC4K_FORMAT_CHOICE ") -> u8[" AC4K_PACKED_SHAPE "]",
    .types = "",
    .doc = "Blocks of a GGUF matrix in the order that `quant_linear` reads; see `pack`.",
    .formula = "q are the blocks of an [N, K] matrix. Tiles of 64 rows, padded with zeros;"
               " docs/packed_weights.md has the layout.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.zeros((128, 2, 18), np.uint8)\n"
               ">>> ac4k.pack_weight(q, 128, 64, fmt=\"q4_0\").shape\n"
               "(2, 1, 2304)",
    .tolerance = 0.0,
    .check = check,
    .cpu = pack_cpu,
}};

const RegisterOp kUnpack{{
    .signature = "unpack_weight(packed: u8[" AC4K_PACKED_SHAPE
                 "], N: int, K: int, *, fmt: " AC4K_FORMAT_CHOICE ") -> u8[" AC4K_GGUF_SHAPE "]",
    .types = "",
    .doc = "The GGUF blocks that `pack_weight` was given, bit by bit.",
    .formula = "The inverse of `pack_weight`; padding is left out.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.arange(72, dtype=np.uint8).reshape(2, 2, 18)\n"
               ">>> packed = ac4k.pack_weight(q, 2, 64, fmt=\"q4_0\")\n"
               ">>> bool((ac4k.unpack_weight(packed, 2, 64, fmt=\"q4_0\") == q).all())\n"
               "True",
    .tolerance = 0.0,
    .check = check,
    .cpu = unpack_cpu,
}};

}  // namespace
}  // namespace ac4k
