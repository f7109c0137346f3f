// What the environment may set, and what happens when it sets nonsense.
#pragma once

#include <cstdio>

#include "core/status.hpp"

namespace ac4k {

// A bad value in the environment is named on stderr and otherwise ignored: a library that fails to
// load helps nobody.
void report_bad_environment(Status status);

}  // namespace ac4k
