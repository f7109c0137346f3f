// Few tokens: numbers far larger than their neighbours would leave these few digits of fixed point,
// so they are taken out and multiplied in float32.
#pragma once

#include <atomic>

#include "cpu/linear_plan.hpp"

namespace ac4k::cpu {

class Outliers {
 public:
  // Memory for those of a product, aligned to 64 bytes; touched only where there are some.
  static int64_t bytes(const LinearProblem& p) {
    return first_piece(p) + num_slots(p) * kSlotBytes;
  }
  Outliers(const LinearProblem& p, char* memory);

  // Takes a token's out of `x`, kGroupColumns numbers from column `column` on. Threads may take
  // those of different tokens or columns side by side.
  void take(int64_t token, int64_t column, float* x);
  // What was taken, in the order of the products; after all of it was.
  void arrange();

  bool none() const { return !any_.load(std::memory_order_relaxed); }
  // sums[row * kPieceRows + token]: a tile's 64 rows times what was taken of kPieceRows tokens.
  void multiply(int64_t tile, int64_t panel, float* sums) const;

 private:
  // A slot for 64 columns of 16 tokens, in float32.
  static constexpr int64_t kSlotBytes = 4 * kPieceBytes;
  static int64_t num_sub_blocks(const LinearProblem& p) {
    return divide_up(p.args.K, kPackedColumns);
  }
  static int64_t num_slots(const LinearProblem& p) {
    return num_sub_blocks(p) * divide_up(p.args.num_tokens, kPieceRows);
  }
  static int64_t limits_bytes(const LinearProblem& p) {
    return p.args.num_tokens * divide_up(p.args.K, kGroupColumns) *
           static_cast<int64_t>(sizeof(float));
  }
  static int64_t first_piece(const LinearProblem& p) {
    return divide_up(limits_bytes(p) + num_slots(p), 64) * 64;
  }
  void arrange_slot(int64_t sub_block, int64_t panel);

  const LinearProblem& p_;
  const int64_t groups_, sub_blocks_;
  float* limits_;   // [token][group]: what is larger was taken
  uint8_t* taken_;  // [panel][sub-block]: is there something in its slot?
  uint8_t* slots_;  // the same
  std::atomic<bool> any_{false};
};

}  // namespace ac4k::cpu
