#include "sm90a/mixed.cuh"

AC4K_MIXED(IQ4_XS)
