// AC4K for C++: everything.
//
//   std::vector<float> a(6, 1), b(6, 2), c(4);
//   ac4k::gemm(ac4k::TensorView(a.data(), {2, 3}), ac4k::TensorView(b.data(), {3, 2}),
//              ac4k::TensorView(c.data(), {2, 2}));
#pragma once

#include "ac4k.h"      // IWYU pragma: export
#include "ops.hpp"     // IWYU pragma: export
#include "tensor.hpp"  // IWYU pragma: export
#include "w4a16.hpp"   // IWYU pragma: export
