// Where exceptions of the standard library end: none may cross the C ABI.
#pragma once

#include <exception>
#include <new>

#include "core/status.hpp"

namespace ac4k {

// What `body` gives, or its exception as a status under the name of `function`.
template <typename Body>
Status guarded(const char* function, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(AC4K_OUT_OF_MEMORY, function, ": out of memory");
  } catch (const std::exception& error) {
    return fail(AC4K_RUNTIME_ERROR, function, ": ", error.what());
  }
}

}  // namespace ac4k
