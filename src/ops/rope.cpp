// rope and mrope: rotary position embedding by a table of cosines and sines.
#include "ops/rope.hpp"

#include "core/op.hpp"

namespace ac4k {
namespace {

constexpr const char* kModule = "common/rope";
constexpr int kQ = 0, kPositions = 1, kCosSin = 2, kK = 3;
// mrope's sections come before the style.
constexpr int kRopeStyle = 4;
constexpr int kSectionT = 4, kSectionH = 5, kSectionW = 6, kInterleaved = 7, kMropeStyle = 8;
constexpr int kD = 1, kP = 2, kR = 3;  // places of dims in the signature
constexpr int kIntegers = 1;           // the type variable of positions

Status check_rope(const Call& call) { return check_rotary_dim(call, call.dim(kR), call.dim(kD)); }

Status check_mrope(const Call& call) {
  AC4K_TRY(check_rope(call));
  const int64_t half = call.dim(kR) / 2;
  int64_t sum = 0;
  for (const int section : {kSectionT, kSectionH, kSectionW}) {
    const int64_t pairs = call.integer(section);
    if (pairs < 0 || pairs > half) {
      return fail(AC4K_INVALID_VALUE, call.op.signature.name, ": argument '",
                  call.op.signature.params[static_cast<size_t>(section)].name, "': expected 0 to ",
                  half, " pairs, got ", pairs);
    }
    sum += pairs;
  }
  if (sum != half) {
    return fail(AC4K_INVALID_VALUE, call.op.signature.name,
                ": arguments 'section_t', 'section_h', 'section_w': expected ", half,
                " pairs together, half the columns of cos_sin, got ", sum);
  }
  return AC4K_OK;
}

RopeTensors tensors_of(const Call& call) {
  return call.has(kK)
             ? RopeTensors(call.tensor(kQ), call.output(0), &call.tensor(kK), &call.output(1))
             : RopeTensors(call.tensor(kQ), call.output(0));
}

Status run_cpu(const Call& call, bool neox, const cpu::MropeSections* sections) {
  const RopeTensors tensors = tensors_of(call);
  return cpu::rope(
      tensors.cpu_args(call.type()),
      {static_cast<const float*>(data_of(call.tensor(kCosSin))), call.dim(kP), call.dim(kR),
       integers_of(call.tensor(kPositions), call.type(kIntegers)), sections, neox});
}

struct Kernels {
  cuda::Kernel any[2][3], vectors[2][3], few[2][3];  // by style, then by type
};

Status run_cuda(const Call& call, Kernels& kernels, bool neox, const cpu::MropeSections* sections) {
  AC4K_TRY(check_num_positions(call, call.dim(kP)));
  const RopeTensors tensors = tensors_of(call);
  const int64_t R = call.dim(kR), D = call.dim(kD), vector = kVectorBytes / size_of(call.type());
  const auto complete = [&](auto& params) {
    params.cos_sin = static_cast<const float*>(data_of(call.tensor(kCosSin)));
    params.num_positions = static_cast<int>(call.dim(kP));
    params.positions = data_of(call.tensor(kPositions));
    params.wide_positions = call.type(kIntegers) == DType::i64;
    params.rotary_dim = static_cast<int>(R);
  };
  const auto set_axes = [&](auto& params) {
    for (int64_t pair = 0; pair < R / 2; ++pair) {
      params.axes[pair / kRopeAxesAWord] |= static_cast<unsigned>(sections->axis_of(pair))
                                            << (2 * (pair % kRopeAxesAWord));
    }
  };
  const size_t type = rope_type_index(call.type());
  RopeShape shape = vector_shape(D, vector);
  const bool axes_fit = sections == nullptr || R / 2 <= kRopeAxesAWord * kRopeAxisWords;
  if (!rotates_whole_vectors(R, D, vector) || !tensors.allows_vectors(call.type()) ||
      !all_aligned(call.tensor(kCosSin)) || !fits_vector_kernel(tensors, shape.num_slots) ||
      !axes_fit) {
    shape = {R / 2 + ceil_div(D - R, 2), 4, false};
  }
  shape.threads = kRopeTableThreads;
  FewMropeParams few{};
  if (shape.vectors && shape.num_slots <= kRopeTableThreads &&
      call.dim(kP) <= INT32_MAX / std::max<int64_t>(R, 1) && tensors.few_heads(few)) {
    complete(few);
    if (sections == nullptr) {
      return launch_few_heads(kernels.few[neox][type], call, shape.num_slots, few.num_heads,
                              static_cast<const FewRopeParams&>(few));
    }
    set_axes(few);
    return launch_few_heads(kernels.few[neox][type], call, shape.num_slots, few.num_heads, few);
  }
  RopeParams params{};
  params.heads = tensors.cuda_heads();
  complete(params);
  if (sections != nullptr) {
    params.section_t = static_cast<int>(sections->t);
    params.section_h = static_cast<int>(sections->h);
    params.section_w = static_cast<int>(sections->w);
    params.interleaved_sections = sections->interleaved;
    if (shape.vectors) set_axes(params);
  }
  return launch_rope((shape.vectors ? kernels.vectors : kernels.any)[neox][type], call, shape,
                     params);
}

#define AC4K_TYPES(name) {{kModule, name "_f32"}, {kModule, name "_f16"}, {kModule, name "_bf16"}}
#define AC4K_STYLES(name) {AC4K_TYPES(name "_interleaved"), AC4K_TYPES(name "_neox")}
#define AC4K_ROPE_KERNELS(op) {AC4K_STYLES(op "_any"), AC4K_STYLES(op), AC4K_STYLES(op "_few")}

Status rope_cpu(const Call& call) { return run_cpu(call, call.integer(kRopeStyle) == 0, nullptr); }

Status rope_cuda(const Call& call) {
  static constinit Kernels kernels = AC4K_ROPE_KERNELS("rope");
  return run_cuda(call, kernels, call.integer(kRopeStyle) == 0, nullptr);
}

cpu::MropeSections sections_of(const Call& call) {
  return {call.integer(kSectionT), call.integer(kSectionH), call.integer(kSectionW),
          call.integer(kInterleaved) != 0};
}

Status mrope_cpu(const Call& call) {
  const cpu::MropeSections sections = sections_of(call);
  return run_cpu(call, call.integer(kMropeStyle) == 0, &sections);
}

Status mrope_cuda(const Call& call) {
  static constinit Kernels kernels = AC4K_ROPE_KERNELS("mrope");
  const cpu::MropeSections sections = sections_of(call);
  return run_cuda(call, kernels, call.integer(kMropeStyle) == 0, &sections);
}

const RegisterOp kRope{{
    .signature = "rope(q: T[..., H, D] row_strided, positions: I[...], cos_sin: f32[P, R],"
                 " k: T[..., G, D]? row_strided = None, *, style: {neox, interleaved} = neox)"
                 " -> T[..., H, D] row_strided, T[..., G, D] row_strided if k",
    .types = "T: f32 f16 bf16; I: i32 i64",
    .doc = "Rotary position embedding of q, or of q and k, in one pass.",
    .formula =
        "With cos, sin = cos_sin[position][:R/2], cos_sin[position][R/2:] (ac4k.rope_table), pairs"
        " (a, b) become (a cos - b sin, b cos + a sin). Pairs are elements i and i + R/2 of a head"
        " (neox) or 2i and 2i + 1 (interleaved), i < R/2; elements from R on pass through. float32,"
        " each operation rounded as PyTorch's are, then rounded to T. A position outside [0, P)"
        " gives NaN in the rotated elements.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.array([[[1, 0]]], np.float32)\n"
               ">>> quarter_turns = np.array([[1, 0], [0, 1]], np.float32)\n"
               ">>> ac4k.rope(q, np.array([1]), quarter_turns).tolist()\n"
               "[[[0.0, 1.0]]]",
    // Two products and a sum, each off by at most eps / 2 of |a cos| + |b sin|.
    .tolerance = 1.0,
    .in_place = true,
    .check = check_rope,
    .cpu = rope_cpu,
    .cuda = rope_cuda,
}};

const RegisterOp kMrope{{
    .signature = "mrope(q: T[..., H, D] row_strided, positions: I[3, rows], cos_sin: f32[P, R],"
                 " k: T[..., G, D]? row_strided = None, *, section_t: int, section_h: int,"
                 " section_w: int, interleaved_sections: bool = False,"
                 " style: {neox, interleaved} = neox)"
                 " -> T[..., H, D] row_strided, T[..., G, D] row_strided if k",
    .types = "T: f32 f16 bf16; I: i32 i64",
    .doc = "Rotary position embedding with a time, a height and a width position for every token.",
    .formula =
        "As rope, where pair i takes its cosine and sine from the position of its section: the"
        " first section_t pairs time, the next section_h height, the last section_w width "
        "(Qwen2-VL);"
        " or, with interleaved_sections, time, height, width in turn, height for i < 3 section_h,"
        " width for i < 3 section_w, otherwise time (Qwen3-VL). The sections have R/2 pairs"
        " together; rows is the number of tokens.",
    .example = ">>> import numpy as np\n"
               ">>> q = np.array([[[1, 1, 1, 0, 0, 0]]], np.float32)\n"
               ">>> turns = np.array([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], np.float32)\n"
               ">>> positions = np.array([[0], [1], [0]])\n"
               ">>> ac4k.mrope(q, positions, turns, section_t=1, section_h=1, section_w=1)"
               ".tolist()\n"
               "[[[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]]]",
    .tolerance = 1.0,
    .in_place = true,
    .check = check_mrope,
    .cpu = mrope_cpu,
    .cuda = mrope_cuda,
}};

}  // namespace
}  // namespace ac4k
