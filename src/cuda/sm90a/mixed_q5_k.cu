#include "sm90a/mixed.cuh"

AC4K_MIXED(Q5_K)
