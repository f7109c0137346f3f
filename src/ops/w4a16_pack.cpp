// w4a16_pack_weight and w4a16_unpack_weight: codes and scales to the layout that `w4a16_gemm`
// reads, and back.
#include "cpu/packed_w4.hpp"
#include "ops/w4a16.hpp"

namespace ac4k {
namespace {

const char* layout_name(WeightFormat format) {
  constexpr const char* kNames[] = {"g32", "g64", "g128", "g32z", "g64z", "g128z"};
  return kNames[w4_index(format) % kNumW4Layouts];
}

Status check_groups(const Call& call, const char* argument, WeightFormat format, int64_t K,
                    int64_t groups) {
  if (w4_groups_fit(format, K, groups)) return AC4K_OK;
  const int values = block_of(format).values;
  return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '", argument,
              "': expected groups of ", values,
              values == 128 ? " columns or a multiple of it, or a single one," : " columns",
              " for the layout ", layout_name(format), ", got ", groups, " groups of K = ", K);
}

// ---- pack ----

constexpr int kCodes = 0, kScales = 1, kZeros = 2, kPackLayout = 3;
constexpr int kN = 0, kK = 1, kG = 2;  // dims in the order the signature names them

WeightFormat pack_format(const Call& call) {
  return w4_format(call.integer(kPackLayout), call.type());
}

Status check_pack(const Call& call) {
  const WeightFormat format = pack_format(call);
  if (call.has(kZeros) != w4_has_zeros(format)) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument 'zeros': expected ",
                w4_has_zeros(format) ? "a tensor" : "None", " for the layout ", layout_name(format),
                ", got ", call.has(kZeros) ? "a tensor" : "None");
  }
  return check_groups(call, "scales", format, call.dim(kK), call.dim(kG));
}

Status pack_cpu(const Call& call) {
  const auto words = [&](int i) { return static_cast<const uint16_t*>(data_of(call.tensor(i))); };
  return cpu::pack_w4({.format = pack_format(call),
                       .N = call.dim(kN),
                       .K = call.dim(kK),
                       .num_groups = call.dim(kG),
                       .codes = static_cast<const uint8_t*>(data_of(call.tensor(kCodes))),
                       .scales = words(kScales),
                       .zeros = call.has(kZeros) ? words(kZeros) : nullptr},
                      static_cast<uint8_t*>(data_of(call.output())));
}

const RegisterOp kPack{{
    .signature = "w4a16_pack_weight(q: u8[N, K], scales: T[N, G], zeros: T[N, G]? = None, *,"
                 " layout: " AC4K_W4_CHOICE " = g128) -> u8[" AC4K_W4_SHAPE "]",
    .types = "T: f16 bf16",
    .doc = "4-bit codes and scales in the order that `w4a16_gemm` reads; see `w4a16_pack`.",
    .formula =
        "The low four bits of q are the codes of an [N, K] matrix in G groups of K / G"
        " columns. weight = scale * (q - 8), or scale * (q - zero) in a layout with zero"
        " points. Tiles of 64 rows, padded with zeros; docs/packed_weights.md has the layout.",
    .example = ">>> import numpy as np\n"
               ">>> q, scales = np.zeros((128, 256), np.uint8), np.ones((128, 2), np.float16)\n"
               ">>> ac4k.w4a16_pack_weight(q, scales, layout=\"g128\").shape\n"
               "(2, 2, 4224)",
    .tolerance = 0.0,
    .check = check_pack,
    .cpu = pack_cpu,
}};

// ---- unpack ----

constexpr int kPacked = 0, kRows = 1, kColumns = 2, kGroups = 3, kUnpackLayout = 4;

WeightFormat unpack_format(const Call& call) {
  return w4_format(call.integer(kUnpackLayout), call.type());
}

Status check_unpack(const Call& call) {
  return check_groups(call, "G", unpack_format(call), call.integer(kColumns),
                      call.integer(kGroups));
}

Status unpack_cpu(const Call& call) {
  const auto words = [&](int i) { return static_cast<uint16_t*>(data_of(call.output(i))); };
  const WeightFormat format = unpack_format(call);
  const int64_t N = call.integer(kRows), groups = call.integer(kGroups);
  if (!w4_has_zeros(format)) {
    const uint16_t eight = w4_is_bf16(format) ? 0x4100 : 0x4800;
    for (int64_t i = 0; i < N * groups; ++i) words(2)[i] = eight;
  }
  return cpu::unpack_w4(static_cast<const uint8_t*>(data_of(call.tensor(kPacked))),
                        {.format = format,
                         .N = N,
                         .K = call.integer(kColumns),
                         .num_groups = groups,
                         .codes = static_cast<uint8_t*>(data_of(call.output(0))),
                         .scales = words(1),
                         .zeros = words(2)});
}

const RegisterOp kUnpack{{
    .signature = "w4a16_unpack_weight(packed: u8[" AC4K_W4_SHAPE
                 "], N: int, K: int, G: int, *, layout: " AC4K_W4_CHOICE
                 " = g128, dtype: T = f16) -> u8[N, K], T[N, G], T[N, G]",
    .types = "T: f16 bf16",
    .doc = "The codes, scales and zero points that `w4a16_pack_weight` was given.",
    .formula = "The inverse of `w4a16_pack_weight`; padding is left out. Zero points are 8 in a"
               " layout without them. dtype is that of the scales.",
    .example =
        ">>> import numpy as np\n"
        ">>> q, scales = np.full((2, 64), 7, np.uint8), np.ones((2, 2), np.float16)\n"
        ">>> packed = ac4k.w4a16_pack_weight(q, scales, layout=\"g32\")\n"
        ">>> codes, scales, zeros = ac4k.w4a16_unpack_weight(packed, 2, 64, 2, layout=\"g32\")\n"
        ">>> bool((codes == q).all()), scales[0].tolist(), zeros[0].tolist()\n"
        "(True, [1.0, 1.0], [8.0, 8.0])",
    .tolerance = 0.0,
    .check = check_unpack,
    .cpu = unpack_cpu,
}};

}  // namespace
}  // namespace ac4k
