// What the two ways of multiplying packed weights share.
#pragma once

#include "cpu/common/table.hpp"
#include "cpu/element.hpp"
#include "cpu/linear.hpp"
#include "cpu/shares.hpp"

namespace ac4k::cpu {

// A product with rows of x that are evenly apart.
struct LinearProblem {
  LinearArgs args;
  Element element;
  int64_t x_stride;  // in elements

  int64_t num_tiles() const { return divide_up(args.N, kPackedRows); }
  int64_t num_blocks() const { return packed_blocks(block_of(args.format), args.K); }
  int64_t tile_bytes() const { return num_blocks() * packed_block_bytes(block_of(args.format)); }
  const uint8_t* tile(int64_t index) const { return args.weight + index * tile_bytes(); }
  const char* x(int64_t token, int64_t column) const {
    return args.x.data + (token * x_stride + column) * element_bytes(element);
  }
  char* out(int64_t token, int64_t row) const {
    return static_cast<char*>(args.out) + (token * args.N + row) * element_bytes(element);
  }
  const char* residual(int64_t token, int64_t row) const {
    return static_cast<const char*>(args.residual) +
           (token * args.N + row) * element_bytes(element);
  }
};

inline constexpr int64_t kMaxOutputRun = 4 * kPackedRows;  // of write_run

// The bias of `count` rows from `row` on as floats; zeros when there is none.
void load_bias(const LinearProblem& problem, int64_t row, int64_t count, float* bias);
// Sums of a token and of `count` rows from `row` on, up to kMaxOutputRun: all that comes behind the
// product, then to the output. `sums` is changed.
void write_run(const LinearProblem& problem, int64_t token, int64_t row, int64_t count,
               const float* bias, float* sums);

// Both: `*done` is false when an activation is not finite and the kernels cannot tell. Nothing was
// written then.
Status linear_few_tokens(const LinearProblem& problem, char* memory, bool* done);
int64_t few_tokens_bytes(const LinearProblem& problem);
Status linear_many_tokens(const LinearProblem& problem, const PanelKernels& kernel, bool* done);

}  // namespace ac4k::cpu
