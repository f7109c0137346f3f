// Spills allowed: two blocks for eight tokens share an SM, and offsets want a few registers more.
#include "sm90a/mixed.cuh"

AC4K_MIXED(Q2_K)
