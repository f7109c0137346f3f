// Settings that steer more than one part of the library, and what the environment may set.
#pragma once

#include <cstdio>

#include "core/status.hpp"

namespace ac4k {

// Whether kernels may start before the one in front of them in the stream has ended (programmatic
// dependent launch). They wait for its results themselves.
bool dependent_launch();

// A bad value in the environment is named on stderr and otherwise ignored: a library that fails to
// load helps nobody.
void report_bad_environment(Status status);

}  // namespace ac4k
