#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "mneme/cache/state_shape.h"
#include "mneme/models/config.h"
#include "mneme/models/sublayer.h"

namespace mneme {

/// Sizes and choices of a Mamba-2 mixer; config keys differ between the models that have one.
struct Mamba2Options {
  std::int64_t n_heads = 0, head_dim = 0, n_groups = 1, n_states = 0, conv_taps = 4;
  bool bias = false, conv_bias = true, output_bias = false;
  bool normalized = true;         ///< RMS norm of each group of channels around the gate
  bool norm_before_gate = false;  ///< else after it
  double eps = 1e-5;
  float least_time_step = 0.0f, most_time_step = std::numeric_limits<float>::infinity();
  /// Of what is projected: gates, values, b, c, time steps (Falcon-H1).
  double multipliers[5] = {1, 1, 1, 1, 1};

  std::int64_t channels() const { return n_heads * head_dim; }
  /// Channels of the convolution: values, b, c.
  std::int64_t conv_channels() const { return channels() + 2 * n_groups * n_states; }
  /// The convolution's window and the heads' matrices, functions of its inputs and of the time steps.
  StateShape state_shape() const;
  /// Throws Error(kCorruptData) for sizes that do not divide, Error(kUnsupported) for too many taps; `name` is the
  /// file.
  void check(const std::string& name) const;
};

/// `time_step_limit` of the config: two numbers, of which the second may be infinite, or null.
void read_time_step_limit(const ModelConfig& config, Mamba2Options& options);

/// Mamba-2 (Dao & Gu 2024, arXiv:2405.21060) below `prefix`, which ends in a dot:
///
///   (z, xbc, dt) = in(..),  (v, b, c) = silu(conv(xbc)),  y = out(norm((scan(v, dt, b, c) + D v) * silu(z)))
std::unique_ptr<const Sublayer> mamba2_mixer(const Loader& load, const Mamba2Options& options,
                                             const std::string& prefix, std::int64_t hidden_size);

}  // namespace mneme
