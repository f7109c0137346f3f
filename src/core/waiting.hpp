// Lets a binding go on with other work while a call waits: ac4k_set_wait_hooks.
#pragma once

#include "ac4k/ac4k.h"

namespace ac4k {

// Lives as long as a wait. No lock may be held that another thread takes with the binding's: it
// would wait for this thread, and this thread for it.
class Waiting {
 public:
  Waiting();
  ~Waiting() noexcept(false);  // Python ends threads there that come back after it has finished
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  const ac4k_wait_hooks* const hooks_;
  void* const state_;
};

}  // namespace ac4k
