// One W4A16 product, as the op and its GPU launcher see it, and the configs it can run with.
#pragma once

#include <string>
#include <vector>

#include "ops/rows.hpp"
#include "ops/w4a16.hpp"

namespace ac4k {

enum class W4Activation : int { none, silu, gelu, gelu_tanh };

// out = activation(alpha * x W^T + bias) + residual
struct W4A16Args {
  WeightFormat format;
  int64_t N, K;
  const void* weight;
  const void* bias;      // [N], or null
  const void* residual;  // [tokens, N], or null; may be `out`
  void* out;             // [tokens, N]
  float alpha;
  W4Activation activation;
  int64_t config;  // 0: the launcher decides
};

// The CPU's configs: cpu::LinearPath, by number and by name.
inline constexpr const char* kW4CpuConfigs[] = {"auto", "cpu_few_tokens", "cpu_many_tokens",
                                                "cpu_float32"};
inline constexpr int64_t kNumW4CpuConfigs = sizeof(kW4CpuConfigs) / sizeof(kW4CpuConfigs[0]);

Status w4a16_on_cuda(const Call& call, const RowView& x, const W4A16Args& args);
// What `config` can be for a size on a GPU, by number; the first is "auto".
std::vector<std::string> w4a16_cuda_configs(int device_id, DType type, int64_t M, int64_t N,
                                            int64_t K);
// Bytes of global memory that a product needs besides its tensors.
int64_t w4a16_cuda_workspace(int device_id, int64_t M, int64_t N, int64_t K);

}  // namespace ac4k
