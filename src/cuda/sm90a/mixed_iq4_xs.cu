#include "sm90a/mixed.cuh"
#include "sm90a/packed_k.cuh"

AC4K_MIXED(IQ4_XS)
