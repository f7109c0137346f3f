#include "sm90a/mixed.cuh"

AC4K_MIXED(Q4_K)
