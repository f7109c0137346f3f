// AC4K from C++: wrap memory you own in tensor views, find an op, call it, check the numbers.
#include <ac4k/ac4k.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

// A float32 matrix on the CPU and the DLPack view of it that the library takes. Views hold pointers
// into the object, so it stays where it was made.
struct Matrix {
  Matrix(int64_t rows, int64_t columns) : shape{rows, columns}, values(rows * columns) {
    view.data = values.data();
    view.device = {kDLCPU, 0};
    view.ndim = 2;
    view.dtype = {kDLFloat, 32, 1};
    view.shape = shape;
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  float& at(int64_t row, int64_t column) { return values[row * shape[1] + column]; }

  int64_t shape[2];
  std::vector<float> values;
  DLTensor view{};  // no strides: row-major
};

// Calls an op whose arguments are all matrices.
void call(const char* name, const std::vector<const Matrix*>& inputs, Matrix& output) {
  const ac4k_op* op = ac4k_find_op(name);
  if (op == nullptr) throw std::runtime_error(std::string("no such op: ") + name);

  std::vector<ac4k_arg> args;
  for (const Matrix* input : inputs) {
    ac4k_arg arg{};
    arg.kind = AC4K_ARG_TENSOR;
    arg.value.tensor = &input->view;
    args.push_back(arg);
  }
  const DLTensor* outputs[] = {&output.view};
  if (ac4k_call(op, args.data(), args.size(), outputs, 1, nullptr) != AC4K_OK) {
    throw std::runtime_error(ac4k_last_error());
  }
}

void fill(Matrix& matrix, float step) {
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    matrix.values[i] = std::sin(step * static_cast<float>(i + 1));
  }
}

void expect_small(const char* what, double error, double tolerance) {
  std::printf("%-22s largest error %.1e (allowed %.1e)\n", what, error, tolerance);
  if (!(error <= tolerance)) throw std::runtime_error(std::string(what) + ": wrong result");
}

int main() try {
  std::printf("AC4K %s\n", ac4k_version());
  const int64_t M = 33, N = 65, K = 127;

  Matrix a(M, K), b(M, K), c(M, K), fused(M, K);
  fill(a, 0.1f), fill(b, 0.2f), fill(c, 0.3f);
  call("element_wise_mul_add", {&a, &b, &c}, fused);
  double error = 0;
  for (size_t i = 0; i < fused.values.size(); ++i) {
    const double expected = double{a.values[i]} * b.values[i] + c.values[i];
    error = std::fmax(error, std::fabs(fused.values[i] - expected));
  }
  expect_small("element_wise_mul_add", error, 2.5e-7);  // |values| <= 2, two roundings

  Matrix w(K, N), product(M, N);
  fill(w, 0.4f);
  call("gemm", {&a, &w}, product);
  error = 0;
  for (int64_t row = 0; row < M; ++row) {
    for (int64_t column = 0; column < N; ++column) {
      double expected = 0;
      for (int64_t k = 0; k < K; ++k) expected += double{a.at(row, k)} * w.at(k, column);
      error = std::fmax(error, std::fabs(product.at(row, column) - expected));
    }
  }
  expect_small("gemm", error, K * K * 6e-8);  // K sums, each at most K, rounded by 2^-24

  // Mistakes come back as a status and a sentence, and nothing is written.
  try {
    call("gemm", {&a, &b}, product);
    throw std::logic_error("a wrong shape was accepted");
  } catch (const std::runtime_error& mistake) {
    std::printf("as it should, this fails: %s\n", mistake.what());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
