#include "sm90a/block_stream.cuh"

AC4K_BLOCK_STREAMS(Q4_0)
