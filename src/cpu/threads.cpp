#include "cpu/threads.hpp"

#include <pthread.h>

#include <atomic>

#include "cpu/kernels.hpp"

namespace ac4k::cpu {
namespace {

constexpr int kMaxThreads = 1024;
std::atomic<int> requested_threads{0};

// OpenMP's threads are not there in a child of fork, and waiting for them would never end; whoever
// had them made, torch for one. So a thread that forks gives its threads back before, and parent
// and child make new ones. Where OpenMP refuses, in a parallel region, the child does without.
std::atomic<bool> keeps_threads{false}, lost_threads{false};
const int watches_forks =
    pthread_atfork([] { keeps_threads.store(omp_pause_resource_all(omp_pause_hard) != 0); },
                   nullptr, [] { lost_threads.store(keeps_threads.load()); });

}  // namespace

int num_threads() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return requested > 0 ? requested : omp_get_max_threads();
}

Status set_num_threads(int count) {
  if (count < 0 || count > kMaxThreads) {
    return fail(AC4K_INVALID_VALUE, "num_threads: expected 0 (as OpenMP decides) to ", kMaxThreads,
                ", got ", count);
  }
  requested_threads.store(count, std::memory_order_relaxed);
  return AC4K_OK;
}

int threads_for(double work, double grain) {
  if (work < 2 * grain || omp_in_parallel() || lost_threads.load(std::memory_order_relaxed)) {
    return 1;
  }
  const int available = num_threads();
  const double deserved = work / grain;
  return deserved < available ? static_cast<int>(deserved) : available;
}

}  // namespace ac4k::cpu
