// OpenMP behind one function, and how many threads an amount of work deserves.
#pragma once

#include <omp.h>

#include <cstdint>

namespace ac4k::cpu {

// As many threads as num_threads() allows, but at least `grain` units of work each. Inside someone
// else's parallel region: one.
int threads_for(double work, double grain);

// Runs body(share) for `count` shares, side by side as far as OpenMP has threads for it: its limits
// may leave fewer than were asked for, which then take several shares.
template <class Body>
void run_threads(int count, const Body& body) {
  if (count <= 1) {
    body(0);
    return;
  }
#pragma omp parallel num_threads(count)
  for (int share = omp_get_thread_num(); share < count; share += omp_get_num_threads()) {
    body(share);
  }
}

}  // namespace ac4k::cpu
