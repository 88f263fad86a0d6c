#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/base/dtype.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/workspace.h"
#include "tests/support/floats.h"

namespace mneme::testing {

inline constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

inline float rounded(DType dtype, float x) {
  if (dtype == DType::kBFloat16) return from_bfloat16(to_bfloat16(x));
  if (dtype == DType::kFloat16) return from_float16(to_float16(x));
  return x;
}

/// Rows with memory of their own, not a number until written.
struct Matrix {
  std::int64_t n, width;
  std::vector<float> values;

  Matrix(std::int64_t n_rows, std::int64_t row_width)
      : n(n_rows), width(row_width), values(static_cast<std::size_t>(n_rows * row_width), kNan) {}

  static Matrix random(std::int64_t n, std::int64_t width, unsigned seed, float deviation = 1.0f) {
    Matrix m(n, width);
    m.values = random_floats(n * width, seed, deviation);
    return m;
  }

  float* row(std::int64_t i) { return values.data() + i * width; }
  const float* row(std::int64_t i) const { return values.data() + i * width; }
  ops::Rows rows() { return {values.data(), n, width}; }
  ops::Rows rows(std::int64_t first, std::int64_t count) { return {row(first), count, width}; }
  at::Tensor tensor() { return at::from_blob(values.data(), {n, width}, at::kFloat); }
};

/// A vector as a float32 tensor of its own.
inline at::Tensor tensor_of(const std::vector<float>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kFloat));
}

/// The size of the process's pool as long as this lives.
class Threads {
 public:
  explicit Threads(int n) : before_(ThreadPool::global().size()) { ThreadPool::global().resize(n); }
  ~Threads() { ThreadPool::global().resize(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace mneme::testing
