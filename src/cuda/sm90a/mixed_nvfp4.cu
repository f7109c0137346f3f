#include "sm90a/mixed.cuh"
#include "sm90a/packed_micro.cuh"

AC4K_MIXED(NVFP4)
