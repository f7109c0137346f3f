#include "cpu/outliers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace ac4k::cpu {
namespace {

// Weights may be zero where the largest numbers stand. Whichever so many columns that are (half of
// those that hold anything, if they are few), the squares of what rounding to fixed point adds are
// below kError of those of the other columns' numbers.
constexpr int kColumnsWithoutWeights = 16;
constexpr double kError = 0x1p-20;
constexpr double kSteps = 2 * kLargestFixed;  // a number is wrong by up to largest / kSteps
// Codes count from an offset, which their sums lose in float32: up to here that is as little.
constexpr double kFarTooLarge = 0x1p10;

// Are there enough numbers of at least a 32nd of the largest? Then they alone are so much; as
// integers, which are in the same order and which a compiler compares many at a time.
bool many_are_large(const uint32_t (&magnitudes)[kGroupColumns], uint32_t largest, int present) {
  constexpr uint32_t kFiveBits = 5u << 23;
  if (largest <= kFiveBits) return false;
  int large = 0;
  for (const uint32_t each : magnitudes) large += each >= largest - kFiveBits;
  constexpr double kLarge = kError / (32 * 32), kNeeded = 1 / (3 * kSteps * kSteps);
  return (large - kColumnsWithoutWeights) * kLarge >= present * kNeeded;
}

}  // namespace

Outliers take_outliers(float (&x)[kGroupColumns], float (&outliers)[kGroupColumns]) {
  constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  uint32_t magnitudes[kGroupColumns];
  uint32_t largest = 0;
  int present = 0;
  for (int i = 0; i < kGroupColumns; ++i) {
    magnitudes[i] = std::bit_cast<uint32_t>(x[i]) & kMagnitude;
    largest = std::max(largest, magnitudes[i]);
    present += magnitudes[i] != 0;
  }
  if (present < 2 || largest >= kInfinity) return Outliers::none;
  if (many_are_large(magnitudes, largest, present)) return Outliers::none;

  double rest[kGroupColumns];
  double* end = rest;
  for (int i = 0; i < kGroupColumns; ++i) {
    if (magnitudes[i] != 0) *end++ = std::fabs(static_cast<double>(x[i]));
  }
  double* others = rest + std::min(kColumnsWithoutWeights, (present + 1) / 2);
  std::nth_element(rest, others, end, std::greater<>());
  double squares = 0;
  for (const double* each = others; each < end; ++each) squares += *each * *each;
  // Its square, times `present` / 3 on average, is kError of those squares.
  const double limit = kSteps * std::sqrt(3 * kError * squares / present);
  const double most = std::bit_cast<float>(largest);
  if (most <= limit) return Outliers::none;
  if (most > kFarTooLarge * std::sqrt(squares)) return Outliers::too_large;
  for (int i = 0; i < kGroupColumns; ++i) {
    const bool taken = std::fabs(x[i]) > limit;
    outliers[i] = taken ? x[i] : 0;
    x[i] = taken ? 0 : x[i];
  }
  return Outliers::taken;
}

}  // namespace ac4k::cpu
