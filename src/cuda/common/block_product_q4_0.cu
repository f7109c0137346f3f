#include "common/block_product.cuh"

AC4K_BLOCK_PRODUCTS(Q4_0)
