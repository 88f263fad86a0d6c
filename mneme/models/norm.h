#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>

#include "mneme/models/loader.h"
#include "mneme/ops/workspace.h"

namespace mneme {

enum class NormKind {
  kRms,
  kRmsOnePlus,  ///< RMS norm whose stored weight is what is added to one (Gemma)
  kLayer,       ///< mean taken away, with a bias (GPT-2)
};

/// A norm of rows, or of heads within rows.
class Norm {
 public:
  /// None: `if (norm)` says so.
  Norm() = default;
  /// Loads `name`.weight [n] (and `name`.bias for layer norms). Throws what Weights::get throws.
  Norm(const Loader& load, const std::string& name, std::int64_t n, double eps, NormKind kind = NormKind::kRms);
  /// An RMS norm without weights.
  Norm(std::int64_t n, double eps, at::Device device);
  /// An RMS norm of these weights [n], float32 on their device.
  Norm(at::Tensor weight, double eps) : weight_(std::move(weight)), eps_(static_cast<float>(eps)) {}

  explicit operator bool() const noexcept { return weight_.defined(); }

  /// x and y [N, n]; may be the same rows.
  void forward(ops::Workspace& workspace, const ops::Rows& x, const ops::Rows& y) const;
  /// RMS norms only, in place: each n numbers of the columns [offset, offset + width), a multiple of n.
  void heads(ops::Workspace& workspace, const ops::Rows& x, std::int64_t offset, std::int64_t width) const;

 private:
  at::Tensor weight_, bias_;
  float eps_ = 0;
};

}  // namespace mneme
