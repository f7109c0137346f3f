// Status inside the library: a code, with the text kept per thread. Exceptions exist only in the
// bindings.
#pragma once

#include <sstream>
#include <string>

#include "ac4k/ac4k.h"

namespace ac4k {

using Status = ac4k_status;

// Keeps `text` for ac4k_last_error and hands `code` back.
Status fail_with(Status code, std::string text);

// fail(AC4K_INVALID_VALUE, "gemm: argument 'B': expected ", 3, " rows, got ", 4)
template <typename... Parts>
[[nodiscard]] Status fail(Status code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return fail_with(code, std::move(text).str());
}

// Returns from the enclosing function unless `expression` is AC4K_OK.
#define AC4K_TRY(expression)                                                             \
  do {                                                                                   \
    if (const ::ac4k::Status ac4k_try_status = (expression); ac4k_try_status != AC4K_OK) \
        [[unlikely]] {                                                                   \
      return ac4k_try_status;                                                            \
    }                                                                                    \
  } while (false)

}  // namespace ac4k
