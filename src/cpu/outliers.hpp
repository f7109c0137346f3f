// Few tokens: numbers far larger than their neighbours would leave these few digits of fixed point,
// so they get a row of their own.
#pragma once

#include "cpu/common/linear_table.hpp"

namespace ac4k::cpu {

enum class Outliers : uint8_t { none, taken, too_large };

// Moves from x to `outliers`, which gets zeros elsewhere, what is too large for the rest of x: none
// of them far too large, or nothing is moved. Numbers that are not finite stay.
Outliers take_outliers(float (&x)[kGroupColumns], float (&outliers)[kGroupColumns]);

}  // namespace ac4k::cpu
