// W4A16 for C++: 16-bit activations times 4-bit weights, with a choice of kernels. Failures throw
// ac4k::Error; w4a16.h says what the arguments mean.
//
//   ac4k::W4A16Runner runner(ac4k::W4A16Runner::Type::bf16, ac4k::W4A16Runner::Quant::group);
//   std::vector<uint8_t> packed(runner.packed_size(N, K, 128));
//   runner.pack(q, scales, nullptr, N, K, 128, packed.data(), packed.size());
//   runner.gemm(A, packed.data(), packed.size(), nullptr, 1.0f, C, M, N, K, 128,
//               runner.best_config(M, N, K, 128));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor.hpp"
#include "w4a16.h"

namespace ac4k {

class W4A16Runner {
 public:
  enum class Type { f16, bf16 };
  enum class Quant : int32_t {
    per_channel = AC4K_W4A16_PER_CHANNEL,
    group = AC4K_W4A16_GROUP,
    group_zeros = AC4K_W4A16_GROUP_ZEROS
  };
  using Product = ac4k_w4a16_product;

  W4A16Runner(Type activations, Quant quant, DLDevice device = {kDLCPU, 0}) {
    ac4k_w4a16_runner* runner = nullptr;
    const auto code = static_cast<uint8_t>(activations == Type::bf16 ? kDLBfloat : kDLFloat);
    check(ac4k_w4a16_runner_create({code, 16, 1}, static_cast<int32_t>(quant), device, &runner));
    runner_.reset(runner);
  }

  int64_t packed_size(int64_t N, int64_t K, int64_t group_size) const {
    int64_t bytes = 0;
    check(ac4k_w4a16_runner_packed_size(runner_.get(), N, K, group_size, &bytes));
    return bytes;
  }
  void pack(const uint8_t* q, const void* scales, const void* zeros, int64_t N, int64_t K,
            int64_t group_size, void* packed, int64_t packed_bytes) const {
    check(ac4k_w4a16_runner_pack(runner_.get(), q, scales, zeros, N, K, group_size, packed,
                                 packed_bytes));
  }

  int64_t workspace_size(int64_t M, int64_t N, int64_t K) const {
    int64_t bytes = 0;
    check(ac4k_w4a16_runner_workspace_size(runner_.get(), M, N, K, &bytes));
    return bytes;
  }
  // Names of the configs, by number.
  std::vector<std::string> configs(int64_t M, int64_t N, int64_t K) const {
    int64_t count = 0;
    check(ac4k_w4a16_runner_num_configs(runner_.get(), M, N, K, &count));
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      check(ac4k_w4a16_runner_config_name(runner_.get(), M, N, K, i, &name));
      names.emplace_back(name);
    }
    return names;
  }
  int64_t best_config(int64_t M, int64_t N, int64_t K, int64_t group_size) const {
    int64_t config = 0;
    check(ac4k_w4a16_runner_best_config(runner_.get(), M, N, K, group_size, &config));
    return config;
  }

  void gemm(const Product& product) const {
    check(ac4k_w4a16_runner_gemm(runner_.get(), &product));
  }
  // C = alpha * A B^T + bias
  void gemm(const void* A, const void* B_packed, int64_t B_bytes, const void* bias, float alpha,
            void* C, int64_t M, int64_t N, int64_t K, int64_t group_size, int64_t config = 0,
            void* workspace = nullptr, int64_t workspace_bytes = 0, void* stream = nullptr) const {
    gemm({A, B_packed, B_bytes, bias, nullptr, alpha, AC4K_W4A16_NONE, C, M, N, K, group_size,
          config, workspace, workspace_bytes, stream});
  }

  // The fastest config; `microseconds` gets the time of each.
  int64_t tune(const Product& product, double seconds = 0.5,
               std::vector<double>* microseconds = nullptr) const {
    int64_t best = 0, count = 0;
    check(ac4k_w4a16_runner_num_configs(runner_.get(), product.M, product.N, product.K, &count));
    if (microseconds != nullptr) microseconds->resize(static_cast<size_t>(count));
    check(ac4k_w4a16_runner_tune(runner_.get(), &product, seconds, &best,
                                 microseconds != nullptr ? microseconds->data() : nullptr));
    return best;
  }

 private:
  struct Destroy {
    void operator()(ac4k_w4a16_runner* runner) const { ac4k_w4a16_runner_destroy(runner); }
  };
  std::unique_ptr<ac4k_w4a16_runner, Destroy> runner_;
};

}  // namespace ac4k
