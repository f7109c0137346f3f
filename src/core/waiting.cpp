#include "core/waiting.hpp"

#include <atomic>

namespace ac4k {
namespace {

std::atomic<const ac4k_wait_hooks*> current_hooks = nullptr;

}  // namespace

Waiting::Waiting()
    : hooks_(current_hooks.load(std::memory_order_acquire)),
      state_(hooks_ != nullptr ? hooks_->begin() : nullptr) {}

Waiting::~Waiting() noexcept(false) {
  if (hooks_ != nullptr) hooks_->end(state_);
}

}  // namespace ac4k

extern "C" void ac4k_set_wait_hooks(const ac4k_wait_hooks* hooks) {
  ac4k::current_hooks.store(hooks, std::memory_order_release);
}
