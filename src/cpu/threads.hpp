// OpenMP behind one function, and how many threads an amount of work deserves.
#pragma once

#include <omp.h>

#include <cstdint>

namespace ac4k::cpu {

// As many threads as num_threads() allows, but at least `grain` units of work each. Inside someone
// else's parallel region: one.
int threads_for(double work, double grain);

// Of this process from now on; a child forked after it cannot have any.
void note_threads();

// Runs body(thread) on `count` threads, the caller among them.
template <class Body>
void run_threads(int count, const Body& body) {
  if (count <= 1) {
    body(0);
    return;
  }
  note_threads();
#pragma omp parallel num_threads(count)
  body(omp_get_thread_num());
}

}  // namespace ac4k::cpu
