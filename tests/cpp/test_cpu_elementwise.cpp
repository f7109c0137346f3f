// The elementwise CPU ops and byte streams on every instruction-set level of this machine, against
// plain loops in long double.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"

namespace ac4k::cpu {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
int64_t bytes_of(DType type) { return type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2; }

struct Format {
  int mantissa_bits, exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int least_exponent() const { return 1 - bias() - mantissa_bits; }  // of the smallest denormal
};
Format format_of(DType type) {
  switch (type) {
    case DType::f64:
      return {52, 11};
    case DType::f32:
      return {23, 8};
    case DType::f16:
      return {10, 5};
    default:
      return {7, 8};
  }
}

double decode16(DType type, uint16_t bits) {
  const Format f = format_of(type);
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> f.mantissa_bits;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  if (exponent == (1 << f.exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, f.least_exponent());
  return sign * std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - 1 + f.least_exponent());
}

double decode(DType type, const char* p) {
  if (type == DType::f64) {
    double value;
    std::memcpy(&value, p, 8);
    return value;
  }
  if (type == DType::f32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return decode16(type, bits);
}

// The unit in the last place of a type at a value.
long double unit_at(DType type, long double value) {
  const Format f = format_of(type);
  const int exponent = value == 0 ? f.least_exponent()
                                  : std::ilogb(static_cast<long double>(value)) - f.mantissa_bits;
  return std::ldexp(1.0L, std::max(exponent, f.least_exponent()));
}

// The nearest value of a 16-bit type, ties to even, by search over units.
double round16(DType type, double value) {
  if (std::isnan(value) || std::isinf(value) || value == 0) return value;
  const double unit = static_cast<double>(unit_at(type, value));
  const double rounded = std::nearbyint(value / unit) * unit;
  const double largest = type == DType::f16 ? 65504.0 : 0x1.fep127;
  return std::fabs(rounded) > largest
             ? std::copysign(std::numeric_limits<double>::infinity(), value)
             : std::copysign(rounded, value);
}

// A value every type holds exactly or nearly: written through the type's own rounding.
void encode(DType type, double value, char* p) {
  if (type == DType::f64) {
    std::memcpy(p, &value, 8);
  } else if (type == DType::f32) {
    const float single = static_cast<float>(value);
    std::memcpy(p, &single, 4);
  } else {
    const double rounded = round16(type, value);
    uint16_t bits = std::signbit(rounded) ? 0x8000 : 0;
    const Format f = format_of(type);
    const double magnitude = std::fabs(rounded);
    const int infinity = ((1 << f.exponent_bits) - 1) << f.mantissa_bits;
    if (std::isnan(rounded)) {
      bits = static_cast<uint16_t>(bits | infinity | 1 << (f.mantissa_bits - 1));
    } else if (std::isinf(rounded)) {
      bits = static_cast<uint16_t>(bits | infinity);
    } else if (magnitude != 0) {
      const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias());
      const int whole = static_cast<int>(std::ldexp(magnitude, f.mantissa_bits - exponent));
      bits = static_cast<uint16_t>(bits | (((exponent + f.bias() - 1) << f.mantissa_bits) + whole));
    }
    std::memcpy(p, &bits, 2);
  }
}

std::vector<std::string> available_levels() {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa <= detected_isa()) names.push_back(name_of(isa));
  }
  return names;
}

// Contiguous elements with guard bytes around them.
struct Row {
  static constexpr int64_t kGuard = 64;
  static constexpr char kMark = 0x5c;
  DType type;
  int64_t count;
  std::vector<char> memory;

  Row(DType t, int64_t n)
      : type(t), count(n), memory(static_cast<size_t>(n * bytes_of(t) + 2 * kGuard), kMark) {}
  Row(DType t, const std::vector<double>& values) : Row(t, static_cast<int64_t>(values.size())) {
    for (int64_t i = 0; i < count; ++i) set(i, values[static_cast<size_t>(i)]);
  }
  char* data() { return memory.data() + kGuard; }
  const char* data() const { return memory.data() + kGuard; }
  double get(int64_t i) const { return decode(type, data() + i * bytes_of(type)); }
  void set(int64_t i, double value) { encode(type, value, data() + i * bytes_of(type)); }
  bool guards_intact() const {
    const auto marked = [](char c) { return c == kMark; };
    return std::all_of(memory.begin(), memory.begin() + kGuard, marked) &&
           std::all_of(memory.end() - kGuard, memory.end(), marked);
  }
};

class CpuElementwise : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_EQ(set_isa(GetParam()), AC4K_OK); }
  void TearDown() override {
    EXPECT_EQ(set_isa("auto"), AC4K_OK);
    EXPECT_EQ(set_num_threads(0), AC4K_OK);
  }
};

Row run_gelu(const Row& x, const Row& bias, Gelu kind) {
  Row out(x.type, x.count);
  const int64_t shape[] = {x.count / bias.count, bias.count}, strides[] = {bias.count, 1};
  EXPECT_EQ(add_gelu(x.type, {x.data(), 2, shape, strides}, bias.data(), 1, out.data(), kind),
            AC4K_OK);
  EXPECT_TRUE(out.guards_intact());
  return out;
}

long double gelu_reference(long double v, Gelu kind) {
  if (kind == Gelu::exact) return 0.5L * v * std::erfc(-v * std::sqrt(0.5L));
  const long double z = 2 * std::sqrt(2 / std::acos(-1.0L)) * (v + 0.044715L * v * v * v);
  return v / (1 + std::exp(-z));
}

// x + bias as the op forms it.
double biased(DType type, double x, double bias) {
  return type == DType::f64 ? x + bias
                            : static_cast<double>(static_cast<float>(x) + static_cast<float>(bias));
}

// Allowed relative error before the rounding to 16 bits. Exact form, also in the negative tail: f32
// 4 epsilon, f64 1e-14; 16-bit types, whose own unit is 2^-11 at best: 2^-16. tanh form: its
// exponent z is rounded about three times, each worth |z| units.
long double relative_limit(DType type, Gelu kind, double v) {
  if (bytes_of(type) == 2) return 0x1p-16L;
  const long double unit = type == DType::f64 ? 0x1p-53L : 0x1p-24L;
  if (kind == Gelu::exact) return type == DType::f64 ? 1e-14L : 8 * unit;
  const long double z = 1.6L * (std::fabs(v) + 0.045L * std::fabs(v * v * v));
  return (8 + 4 * std::min(z, 1000.0L)) * unit;
}

void expect_gelu(const Row& x, const Row& bias, Gelu kind, const std::string& where) {
  const Row out = run_gelu(x, bias, kind);
  for (int64_t i = 0; i < x.count; ++i) {
    const double v = biased(x.type, x.get(i), bias.get(i % bias.count));
    const double got = out.get(i);
    if (std::isnan(v) || v == -std::numeric_limits<double>::infinity()) {
      ASSERT_TRUE(std::isnan(got)) << where << " gelu(" << v << ") is " << got;
      continue;
    }
    if (std::isinf(v)) {
      ASSERT_EQ(got, v) << where;
      continue;
    }
    if (v == 0) {
      ASSERT_EQ(got, 0) << where;
      ASSERT_EQ(std::signbit(got), std::signbit(v)) << where << " sign of zero";
      continue;
    }
    const long double expected = gelu_reference(v, kind);
    const bool narrow = bytes_of(x.type) == 2;
    const DType computed = narrow ? DType::f32 : x.type;
    long double limit = relative_limit(x.type, kind, v) * std::fabs(expected) +
                        std::ldexp(1.0L, format_of(computed).least_exponent());
    if (narrow) limit += unit_at(x.type, expected) / 2;
    if (std::isinf(got) && narrow && std::fabs(expected) >= 65520) continue;
    ASSERT_LE(std::fabs(got - expected), limit)
        << where << " gelu(" << std::hexfloat << v << ") is " << got << ", not " << expected;
  }
}

TEST_P(CpuElementwise, GeluOfEvery16BitValue) {
  for (const DType type : {DType::f16, DType::bf16}) {
    Row x(type, 65536), bias(type, std::vector<double>(65536, 0.0));
    for (int i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      std::memcpy(x.data() + 2 * i, &bits, 2);
      encode(type, -0.0, bias.data() + 2 * i);  // keeps the sign of zero
    }
    expect_gelu(x, bias, Gelu::exact, GetParam() + " exact");
    expect_gelu(x, bias, Gelu::tanh, GetParam() + " tanh");
  }
}

TEST_P(CpuElementwise, GeluOfWideTypes) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType type : {DType::f32, DType::f64}) {
    std::vector<double> values = {
        0.0,   -0.0,   inf,     -inf,    std::nan(""), 1e-310, -1e-310, 1e-40, -1e-40, 1e-38, -1e30,
        1e30,  3.4e38, -3.4e38, -13.2,   -14.0,        -14.4,  -14.6,   -16.0, -17.0,  16.0,  -37.5,
        -38.4, -38.6,  -40.0,   -1000.0, 1e-8,         -1e-8,  5.0,     -5.0,  -10.0,  10.0};
    std::minstd_rand random(7);
    const double reach = type == DType::f32 ? 15 : 39;
    for (int i = 0; i < 20000; ++i) {
      values.push_back((static_cast<double>(random()) / 2147483647.0 * 2 - 1) * reach);
      values.push_back(std::ldexp(static_cast<double>(random()), -31 - i % 60) * (i % 2 ? 1 : -1));
    }
    while (values.size() % 8 != 0) values.push_back(1.0);
    const Row x(type, values), bias(type, std::vector<double>(values.size(), -0.0));
    expect_gelu(x, bias, Gelu::exact, GetParam() + " exact");
    expect_gelu(x, bias, Gelu::tanh, GetParam() + " tanh");
  }
}

TEST_P(CpuElementwise, GeluAddsTheBiasOfItsColumn) {
  for (const DType type : kTypes) {
    for (const int64_t cols : {1, 2, 3, 7, 17, 33, 100, 1025}) {
      std::vector<double> values, bias;
      for (int64_t i = 0; i < cols * 5; ++i)
        values.push_back(static_cast<double>(i * 37 % 101) / 16 - 3);
      for (int64_t i = 0; i < cols; ++i) bias.push_back(static_cast<double>(i * 13 % 29) / 8 - 2);
      expect_gelu(Row(type, values), Row(type, bias), Gelu::exact, GetParam());
      expect_gelu(Row(type, values), Row(type, bias), Gelu::tanh, GetParam());
    }
  }
}

double mul_add_reference(DType type, double a, double b, double c) {
  if (type == DType::f64) return std::fma(a, b, c);
  const float sum = std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  return type == DType::f32 ? static_cast<double>(sum) : round16(type, sum);
}

TEST_P(CpuElementwise, MulAddRoundsOnce) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const DType type : kTypes) {
    for (const int64_t n : {1, 2, 5, 15, 16, 17, 31, 33, 64, 100, 4097}) {
      std::minstd_rand random(static_cast<uint32_t>(n));
      std::vector<double> values[3];
      for (auto& list : values) {
        for (int64_t i = 0; i < n; ++i) {
          list.push_back(std::ldexp(static_cast<double>(random()) - 1.07e9,
                                    -30 - static_cast<int>(random() % 12)));
        }
      }
      const double special[][3] = {{inf, 0, 1},          {inf, 1, -inf},  {std::nan(""), 1, 1},
                                   {1, 1, -1},           {-0.0, 1, -0.0}, {300, 300, -65504},
                                   {1e-3, 1e-3, 1e-7},   {inf, -2, 5},    {3e-8, 0.5, 0},
                                   {1e-20, 1e-20, 1e-40}};
      for (int64_t i = 0; i < std::min<int64_t>(n, std::ssize(special)); ++i) {
        for (int t = 0; t < 3; ++t) values[t][static_cast<size_t>(i)] = special[i][t];
      }
      const Row a(type, values[0]), b(type, values[1]), c(type, values[2]);
      Row out(type, n);
      const int64_t strides[] = {1};
      ASSERT_EQ(mul_add(type, {a.data(), 1, &n, strides}, {b.data(), 1, &n, strides},
                        {c.data(), 1, &n, strides}, out.data()),
                AC4K_OK);
      ASSERT_TRUE(out.guards_intact());
      for (int64_t i = 0; i < n; ++i) {
        const double expected = mul_add_reference(type, a.get(i), b.get(i), c.get(i));
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(out.get(i)));
        } else {
          ASSERT_EQ(out.get(i), expected) << GetParam() << " element " << i;
          ASSERT_EQ(std::signbit(out.get(i)), std::signbit(expected));
        }
      }
    }
  }
}

// Random shapes of up to 8 dimensions with permuted, stretched, negative and zero strides.
struct StridedInput {
  std::vector<int64_t> strides;
  Row memory;
  int64_t origin = 0;

  StridedInput(DType type, const std::vector<int64_t>& shape, std::minstd_rand& random)
      : memory(type, 0) {
    const size_t ndim = shape.size();
    std::vector<size_t> order(ndim);
    for (size_t d = 0; d < ndim; ++d) order[d] = ndim - 1 - d;
    if (random() % 2) std::shuffle(order.begin(), order.end(), random);
    strides.resize(ndim);
    int64_t extent = 1;
    for (const size_t d : order) {
      if (random() % 5 == 0) {
        strides[d] = 0;
        continue;
      }
      const int64_t stretch = random() % 4 == 0 ? 2 : 1;
      strides[d] = extent * stretch;
      extent = strides[d] * shape[d];
      if (random() % 4 == 0) {
        origin += strides[d] * (shape[d] - 1);
        strides[d] = -strides[d];
      }
    }
    memory = Row(type, extent);
    for (int64_t i = 0; i < extent; ++i) {
      memory.set(i, (static_cast<int>(random() % 255) - 127) / 32.0);
    }
  }
  View view(const std::vector<int64_t>& shape) const {
    return {memory.data() + origin * bytes_of(memory.type), static_cast<int>(shape.size()),
            shape.data(), strides.data()};
  }
  double get(const std::vector<int64_t>& shape, int64_t linear) const {
    int64_t offset = origin;
    for (size_t d = shape.size(); d-- > 0;) {
      offset += linear % shape[d] * strides[d];
      linear /= shape[d];
    }
    return memory.get(offset);
  }
};

TEST_P(CpuElementwise, AnyStrides) {
  std::minstd_rand random(11);
  for (int round = 0; round < 300; ++round) {
    const DType type = kTypes[round % 4];
    std::vector<int64_t> shape(random() % 9);
    int64_t count = 1;
    for (auto& size : shape) {
      size = shape.size() > 5   ? 1 + random() % 3
             : shape.size() > 2 ? 1 + random() % 9
                                : 1 + random() % 200;
      if (random() % 40 == 0) size = 0;
      count *= size;
    }
    const StridedInput a(type, shape, random), b(type, shape, random), c(type, shape, random);
    Row out(type, count);
    ASSERT_EQ(mul_add(type, a.view(shape), b.view(shape), c.view(shape), out.data()), AC4K_OK);
    ASSERT_TRUE(out.guards_intact());
    for (int64_t i = 0; i < count; ++i) {
      const double expected =
          mul_add_reference(type, a.get(shape, i), b.get(shape, i), c.get(shape, i));
      ASSERT_EQ(out.get(i), expected) << GetParam() << " round " << round << " element " << i;
    }
    if (shape.empty() || count == 0) continue;

    // gelu: the same bits as with contiguous inputs.
    const int64_t cols = shape.back();
    const int64_t bias_stride = static_cast<int64_t>(random() % 5) - 2;
    Row bias_memory(type, cols * 2), bias(type, cols), x(type, count);
    for (int64_t i = 0; i < cols * 2; ++i) bias_memory.set(i, static_cast<double>(i % 7) / 4);
    const int64_t origin = bias_stride < 0 ? (cols - 1) * -bias_stride : 0;
    for (int64_t i = 0; i < cols; ++i) bias.set(i, bias_memory.get(origin + i * bias_stride));
    for (int64_t i = 0; i < count; ++i) x.set(i, a.get(shape, i));
    const Gelu kind = round % 2 ? Gelu::exact : Gelu::tanh;
    ASSERT_EQ(add_gelu(type, a.view(shape), bias_memory.data() + origin * bytes_of(type),
                       bias_stride, out.data(), kind),
              AC4K_OK);
    ASSERT_EQ(out.memory, run_gelu(x, bias, kind).memory) << GetParam() << " round " << round;
  }
}

TEST_P(CpuElementwise, SameBitsForAnyNumberOfThreads) {
  const int64_t rows = 70, cols = 1501, n = rows * cols;
  for (const DType type : kTypes) {
    Row x(type, n), bias(type, cols);
    for (int64_t i = 0; i < n; ++i) x.set(i, static_cast<double>(i % 1009) / 100 - 5);
    for (int64_t i = 0; i < cols; ++i) bias.set(i, static_cast<double>(i % 31) / 32);
    ASSERT_EQ(set_num_threads(1), AC4K_OK);
    const Row expected = run_gelu(x, bias, Gelu::exact);
    for (const int threads : {2, 3, 7}) {
      ASSERT_EQ(set_num_threads(threads), AC4K_OK);
      ASSERT_EQ(run_gelu(x, bias, Gelu::exact).memory, expected.memory);
    }
    // Every element is written, by someone.
    const int64_t strides[] = {1};
    Row out(type, n);
    const View view{x.data(), 1, &n, strides};
    ASSERT_EQ(mul_add(type, view, view, view, out.data()), AC4K_OK);
    for (int64_t i = 0; i < n; i += 97) {
      ASSERT_EQ(out.get(i), mul_add_reference(type, x.get(i), x.get(i), x.get(i)));
    }
  }
}

TEST_P(CpuElementwise, OutputMayBeAnInput) {
  for (const DType type : kTypes) {
    Row x(type, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
    const Row original = x;
    const int64_t strides[] = {1};
    const View view{x.data(), 1, &x.count, strides};
    ASSERT_EQ(mul_add(type, view, view, view, x.data()), AC4K_OK);
    for (int64_t i = 0; i < x.count; ++i) {
      ASSERT_EQ(x.get(i), original.get(i) * original.get(i) + original.get(i));
    }
  }
}

TEST_P(CpuElementwise, StreamBytes) {
  std::minstd_rand random(5);
  const int64_t sizes[][2] = {
      {0, 5},           {5, 0},           {1, 1},           {1, 1000},
      {7, 100000},      {100, 100},       {1000, 7},        {1000003, 1},
      {1000003, 3},     {999999, 4096},   {70000, 65},      {5000, 9000},
      {900001, 300007}, {600000, 600000}, {300000, 900001}, {1100000, 262145},
      {2000000, 70001}};
  for (const auto& size : sizes) {
    const int64_t read = size[0], write = size[1];
    std::vector<uint8_t> src(static_cast<size_t>(read));
    for (auto& byte : src) byte = static_cast<uint8_t>(random());
    std::vector<uint8_t> expected(static_cast<size_t>(write), 0);
    if (write > read) {
      for (int64_t i = 0; i < write && read > 0; ++i) {
        expected[static_cast<size_t>(i)] = src[static_cast<size_t>(i % read)];
      }
    } else if (write > 0) {
      for (int64_t i = 0; i < read; ++i)
        expected[static_cast<size_t>(i % write)] ^= src[static_cast<size_t>(i)];
    }
    for (const int threads : {1, 2, 5}) {
      ASSERT_EQ(set_num_threads(threads), AC4K_OK);
      std::vector<uint8_t> out(static_cast<size_t>(write) + 128, 0x5c);
      ASSERT_EQ(stream_bytes(src.data(), read, out.data() + 64, write), AC4K_OK);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + 64))
          << GetParam() << " read " << read << " write " << write << " threads " << threads;
      for (size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(out[i], 0x5c);
        ASSERT_EQ(out[out.size() - 1 - i], 0x5c);
      }
    }
  }
}

TEST_P(CpuElementwise, OtherTypesAreRefused) {
  char byte = 0;
  const View scalar{&byte, 0, nullptr, nullptr};
  EXPECT_EQ(mul_add(DType::i32, scalar, scalar, scalar, &byte), AC4K_UNSUPPORTED);
  EXPECT_EQ(add_gelu(DType::u8, scalar, &byte, 1, &byte, Gelu::exact), AC4K_UNSUPPORTED);
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuElementwise, testing::ValuesIn(available_levels()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ac4k::cpu
