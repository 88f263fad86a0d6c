#pragma once

#include <string>
#include <vector>

#include "mneme/models/loading.h"
#include "mneme/ops/grouped_linear.h"

namespace mneme {

/// What an architecture file loads its parts with: the functions of loading.h in one dtype and onto one device.
struct Loader {
  const Weights& weights;
  DType dtype;
  at::Device device;

  /// A linear layer whose outputs are those of the parts, one after the other.
  ops::Linear linear(const std::vector<LinearPart>& parts, std::int64_t in_features, bool bias = false) const {
    return load_linear(weights, parts, in_features, bias, dtype, device);
  }
  /// The same from rows of any kind; bias as `vector` gives it, or undefined.
  ops::Linear linear(const WeightRows& rows, const at::Tensor& bias = {}) const {
    return ops::Linear(rows, dtype, device, bias);
  }
  /// n matrices of one shape, their rows one after the other, of which each input row goes through one.
  ops::GroupedLinear grouped(std::int64_t n, const WeightRows& rows, const at::Tensor& bias = {}) const {
    return ops::GroupedLinear(n, rows, dtype, device, bias);
  }
  at::Tensor vector(const std::string& name, std::int64_t n) const {
    return load_vector(weights, name, n, dtype, device);
  }
  at::Tensor matrix(const std::string& name, const std::vector<std::int64_t>& shape) const {
    return load_matrix(weights, name, shape, dtype, device);
  }
};

}  // namespace mneme
