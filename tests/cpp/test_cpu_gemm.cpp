// The CPU matrix multiplication on every instruction-set level of this machine, against plain loops
// in wide arithmetic. Inputs end at an unreadable page, outputs lie between guard bytes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernels.hpp"

namespace ac4k::cpu {
namespace {

// Memory whose last byte is the last before an unreadable page, and whose page before the first is
// unreadable as well.
class FencedBuffer {
 public:
  explicit FencedBuffer(size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    data_ = base_ + page + inner - bytes;
  }
  ~FencedBuffer() { munmap(base_, mapped_); }
  FencedBuffer(const FencedBuffer&) = delete;
  FencedBuffer& operator=(const FencedBuffer&) = delete;
  char* data() const { return data_; }

 private:
  char* base_;
  char* data_;
  size_t mapped_;
};

int64_t bytes_of(DType type) { return type == DType::f64 ? 8 : type == DType::f32 ? 4 : 2; }
int significand_bits(DType type) {
  return type == DType::f64 ? 53 : type == DType::f32 ? 24 : type == DType::f16 ? 11 : 8;
}
const char* label(DType type) {
  return type == DType::f64   ? "f64"
         : type == DType::f32 ? "f32"
         : type == DType::f16 ? "f16"
                              : "bf16";
}

double decode16(DType type, uint16_t bits) {
  const int mantissa_bits = type == DType::f16 ? 10 : 7;
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

std::vector<double> every16(DType type) {
  std::vector<double> values(65536);
  for (size_t i = 0; i < values.size(); ++i) values[i] = decode16(type, static_cast<uint16_t>(i));
  return values;
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
  static const std::vector<double> half = every16(DType::f16), bfloat = every16(DType::bf16);
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return (type == DType::f16 ? half : bfloat)[bits];
}

// For values that are exact in every type.
void encode(DType type, double value, char* p) {
  if (type == DType::f64) {
    std::memcpy(p, &value, 8);
    return;
  }
  const float single = static_cast<float>(value);
  if (type == DType::f32) {
    std::memcpy(p, &single, 4);
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  uint16_t half = static_cast<uint16_t>(bits >> 16);
  if (type == DType::f16) {
    const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t rest = magnitude == 0 ? 0 : (magnitude - 0x38000000u) >> 13;
    if (magnitude >= 0x7f800000u) rest = 0x7c00u | (magnitude > 0x7f800000u ? 0x200u : 0u);
    half = static_cast<uint16_t>(sign | rest);
  }
  std::memcpy(p, &half, 2);
}

enum class Layout { rows, columns, padded_rows, padded_columns, reversed, every_third, repeated };
constexpr Layout kLayouts[] = {Layout::rows,           Layout::columns,  Layout::padded_rows,
                               Layout::padded_columns, Layout::reversed, Layout::every_third,
                               Layout::repeated};

// A matrix of small random values (8 significant bits: exact in every type).
struct Matrix {
  DType type;
  int64_t rows, cols, row_stride, col_stride;
  FencedBuffer memory;
  char* first;  // element (0, 0)

  static int64_t span(int64_t rows, int64_t cols, Layout layout) {
    switch (layout) {
      case Layout::padded_rows:
        return rows * (cols + 5) - 5;
      case Layout::padded_columns:
        return cols * (rows + 3) - 3;
      case Layout::every_third:
        return rows * cols * 3 - 2;
      case Layout::repeated:
        return cols;
      default:
        return rows * cols;
    }
  }
  Matrix(DType t, int64_t r, int64_t c, Layout layout, uint32_t seed)
      : type(t),
        rows(r),
        cols(c),
        memory(static_cast<size_t>(std::max<int64_t>(0, span(r, c, layout)) * bytes_of(t))) {
    first = memory.data();
    row_stride = cols;
    col_stride = 1;
    if (layout == Layout::columns || layout == Layout::padded_columns) {
      row_stride = 1;
      col_stride = layout == Layout::columns ? rows : rows + 3;
    } else if (layout == Layout::padded_rows) {
      row_stride = cols + 5;
    } else if (layout == Layout::reversed) {
      row_stride = -cols;
      col_stride = -1;
      first += (rows * cols - 1) * bytes_of(t);
    } else if (layout == Layout::every_third) {
      row_stride = cols * 3;
      col_stride = 3;
    } else if (layout == Layout::repeated) {
      row_stride = 0;
    }
    std::minstd_rand random(seed);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        set(i, j, (static_cast<int>(random() >> 8) % 255 - 127) / 64.0);
      }
    }
  }
  char* at(int64_t i, int64_t j) const {
    return first + (i * row_stride + j * col_stride) * bytes_of(type);
  }
  double get(int64_t i, int64_t j) const { return decode(type, at(i, j)); }
  void set(int64_t i, int64_t j, double value) { encode(type, value, at(i, j)); }
};

// C with guard bytes before, after and between its rows.
struct Output {
  static constexpr int64_t kGuard = 64;
  static constexpr char kMark = 0x5c;
  DType type;
  int64_t rows, cols, stride;
  std::vector<char> memory;

  Output(DType t, int64_t r, int64_t c, int64_t gap)
      : type(t),
        rows(r),
        cols(c),
        stride(c + gap),
        memory(static_cast<size_t>(2 * kGuard + std::max<int64_t>(0, r * stride) * bytes_of(t)),
               kMark) {}
  char* data() { return memory.data() + kGuard; }
  double get(int64_t i, int64_t j) {
    return decode(type, data() + (i * stride + j) * bytes_of(type));
  }
  bool guards_intact() {
    std::vector<bool> written(memory.size(), false);
    const int64_t size = bytes_of(type);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t b = 0; b < cols * size; ++b) {
        written[static_cast<size_t>(kGuard + i * stride * size + b)] = true;
      }
    }
    for (size_t i = 0; i < memory.size(); ++i) {
      if (!written[i] && memory[i] != kMark) return false;
    }
    return true;
  }
};

Status multiply(const Matrix& a, const Matrix& b, Output& c) {
  return gemm({a.type, a.rows, b.cols, a.cols, a.first, a.row_stride, a.col_stride, b.first,
               b.row_stride, b.col_stride, c.data(), c.stride});
}

// |error| <= gamma * sum |a b| + half a unit in the last place of the result. gamma covers any
// order of summation; AMX adds pairs with products of 16 bits, which are exact in f32. Looks at
// every row_step-th row and at the last ones.
void expect_product(const Matrix& a, const Matrix& b, Output& c, const std::string& where,
                    int64_t row_step) {
  const DType type = a.type;
  const double accumulator = std::ldexp(1.0, type == DType::f64 ? -53 : -24);
  const double result = std::ldexp(1.0, -significand_bits(type));
  std::vector<double> row(static_cast<size_t>(a.cols));
  std::vector<double> columns(static_cast<size_t>(a.cols * b.cols));
  for (int64_t j = 0; j < b.cols; ++j) {
    for (int64_t k = 0; k < a.cols; ++k) columns[static_cast<size_t>(j * a.cols + k)] = b.get(k, j);
  }
  for (int64_t i = 0; i < a.rows; ++i) {
    if (i % row_step != 0 && i + 20 < a.rows) continue;
    for (int64_t k = 0; k < a.cols; ++k) row[static_cast<size_t>(k)] = a.get(i, k);
    for (int64_t j = 0; j < b.cols; ++j) {
      // Products have 16 bits and sums of a few thousand of them fit a double exactly.
      double sum = 0, magnitude = 0;
      const double* column = columns.data() + j * a.cols;
      for (int64_t k = 0; k < a.cols; ++k) {
        const double product = row[static_cast<size_t>(k)] * column[k];
        sum += product;
        magnitude += std::fabs(product);
      }
      const double limit =
          static_cast<double>(a.cols + 1) * accumulator * magnitude + result * std::fabs(sum);
      ASSERT_LE(std::fabs(c.get(i, j) - sum), limit)
          << where << " C(" << i << ", " << j << ") is " << c.get(i, j) << ", not " << sum;
    }
  }
}

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

std::vector<std::string> available_levels() {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::amx}) {
    if (isa <= detected_isa()) names.push_back(name_of(isa));
  }
  return names;
}

class CpuGemm : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_EQ(set_isa(GetParam()), AC4K_OK); }
  void TearDown() override {
    EXPECT_EQ(set_isa("auto"), AC4K_OK);
    EXPECT_EQ(set_num_threads(0), AC4K_OK);
  }

  void check(DType type, int64_t M, int64_t N, int64_t K, Layout a_layout, Layout b_layout,
             int64_t gap = 0) {
    const Matrix a(type, M, K, a_layout, static_cast<uint32_t>(M * 31 + K));
    const Matrix b(type, K, N, b_layout, static_cast<uint32_t>(N * 17 + K + 1));
    Output c(type, M, N, gap);
    const std::string where = GetParam() + " " + label(type) + " M=" + std::to_string(M) +
                              " N=" + std::to_string(N) + " K=" + std::to_string(K) + " layouts " +
                              std::to_string(static_cast<int>(a_layout)) + "," +
                              std::to_string(static_cast<int>(b_layout));
    ASSERT_EQ(multiply(a, b, c), AC4K_OK) << where;
    expect_product(a, b, c, where, M > 100 ? 17 : 1);
    ASSERT_TRUE(c.guards_intact()) << where << ": wrote outside C";
  }
};

TEST_P(CpuGemm, OddSizes) {
  for (const DType type : kTypes) {
    for (const int64_t M : {1, 2, 3, 4, 5, 13, 15, 17, 33, 47}) {
      for (const int64_t N : {1, 3, 5, 31, 33, 65}) {
        for (const int64_t K : {1, 3, 17, 33, 67}) {
          check(type, M, N, K, Layout::rows, Layout::rows);
          check(type, M, N, K, Layout::rows, Layout::columns, 3);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(CpuGemm, EveryLayout) {
  const int64_t shapes[][3] = {{1, 37, 29}, {3, 70, 35}, {19, 2, 40}, {21, 41, 71}, {35, 35, 96}};
  for (const DType type : kTypes) {
    for (const Layout a : kLayouts) {
      for (const Layout b : kLayouts) {
        for (const auto& shape : shapes) {
          check(type, shape[0], shape[1], shape[2], a, b, 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Several blocks of K, several tiles of C, blocks of A within a tile.
TEST_P(CpuGemm, LargerThanOneBlock) {
  const int64_t shapes[][3] = {{300, 35, 700}, {1030, 17, 40}, {37, 1100, 19}, {530, 530, 33},
                               {2, 2100, 530}, {3, 5, 5000},   {50, 40, 1537}, {1200, 3, 600}};
  for (const DType type : kTypes) {
    for (const auto& shape : shapes) {
      check(type, shape[0], shape[1], shape[2], Layout::rows, Layout::rows, 7);
      check(type, shape[0], shape[1], shape[2], Layout::columns, Layout::columns);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuGemm, SameBitsForAnyNumberOfThreads) {
  const int64_t shapes[][3] = {{4, 1500, 700}, {150, 210, 600}, {1100, 64, 300}, {61, 900, 70}};
  for (const DType type : kTypes) {
    for (const auto& shape : shapes) {
      const Matrix a(type, shape[0], shape[2], Layout::rows, 1);
      const Matrix b(type, shape[2], shape[1], Layout::padded_columns, 2);
      Output expected(type, shape[0], shape[1], 0);
      ASSERT_EQ(set_num_threads(1), AC4K_OK);
      ASSERT_EQ(multiply(a, b, expected), AC4K_OK);
      for (const int threads : {1, 2, 3, 7}) {
        Output c(type, shape[0], shape[1], 0);
        ASSERT_EQ(set_num_threads(threads), AC4K_OK);
        ASSERT_EQ(multiply(a, b, c), AC4K_OK);
        ASSERT_EQ(c.memory, expected.memory) << label(type) << " with " << threads << " threads";
      }
    }
  }
}

// A special value in A's row i must reach row i of C and no other.
TEST_P(CpuGemm, SpecialValuesStayInTheirRow) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType type : kTypes) {
    for (const int64_t M : {2, 7, 40}) {
      for (const double special : {inf, -inf, nan}) {
        const int64_t N = 37, K = 45;
        Matrix a(type, M, K, Layout::rows, 3);
        Matrix b(type, K, N, Layout::rows, 4);
        for (int64_t j = 0; j < N; ++j) b.set(K - 1, j, 1.0);
        a.set(1, K - 1, special);
        Output c(type, M, N, 0);
        ASSERT_EQ(multiply(a, b, c), AC4K_OK);
        for (int64_t i = 0; i < M; ++i) {
          for (int64_t j = 0; j < N; ++j) {
            if (i != 1) {
              ASSERT_TRUE(std::isfinite(c.get(i, j))) << label(type) << " row " << i;
            } else if (std::isnan(special)) {
              ASSERT_TRUE(std::isnan(c.get(i, j)));
            } else {
              ASSERT_EQ(c.get(i, j), special);
            }
          }
        }
      }
    }
  }
}

TEST_P(CpuGemm, EmptyDimensions) {
  for (const DType type : kTypes) {
    const Matrix no_depth_a(type, 5, 0, Layout::rows, 1), no_depth_b(type, 0, 6, Layout::rows, 1);
    Output zeros(type, 5, 6, 2);
    ASSERT_EQ(multiply(no_depth_a, no_depth_b, zeros), AC4K_OK);
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 6; ++j) ASSERT_EQ(zeros.get(i, j), 0);
    }
    ASSERT_TRUE(zeros.guards_intact());
    Output none(type, 0, 6, 0);
    ASSERT_EQ(gemm({type, 0, 6, 3, nullptr, 3, 1, nullptr, 6, 1, none.data(), 6}), AC4K_OK);
    ASSERT_EQ(gemm({type, 6, 0, 3, nullptr, 3, 1, nullptr, 0, 1, none.data(), 0}), AC4K_OK);
    ASSERT_TRUE(none.guards_intact());
  }
}

TEST_P(CpuGemm, OtherTypesAreRefused) {
  char byte = 0;
  EXPECT_EQ(gemm({DType::u8, 1, 1, 1, &byte, 1, 1, &byte, 1, 1, &byte, 1}), AC4K_UNSUPPORTED);
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuGemm, testing::ValuesIn(available_levels()),
                         [](const auto& info) { return info.param; });

TEST(CpuSettings, Isa) {
  EXPECT_EQ(set_isa("auto"), AC4K_OK);
  EXPECT_EQ(active_isa(), detected_isa());
  EXPECT_EQ(set_isa("generic"), AC4K_OK);
  EXPECT_EQ(active_isa(), Isa::generic);
  EXPECT_EQ(set_isa("sse9"), AC4K_INVALID_VALUE);
  EXPECT_NE(std::string(ac4k_last_error()).find("avx512"), std::string::npos);
  EXPECT_EQ(active_isa(), Isa::generic);
  if (detected_isa() < Isa::amx) {
    EXPECT_EQ(set_isa("amx"), AC4K_UNSUPPORTED);
    EXPECT_NE(std::string(ac4k_last_error()).find("generic"), std::string::npos);
  }
  EXPECT_EQ(set_isa("auto"), AC4K_OK);
}

TEST(CpuSettings, Threads) {
  EXPECT_EQ(set_num_threads(3), AC4K_OK);
  EXPECT_EQ(num_threads(), 3);
  EXPECT_EQ(set_num_threads(-1), AC4K_INVALID_VALUE);
  EXPECT_EQ(num_threads(), 3);
  EXPECT_EQ(set_num_threads(0), AC4K_OK);
  EXPECT_GE(num_threads(), 1);
}

}  // namespace
}  // namespace ac4k::cpu
