#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mneme/cache/cache.h"
#include "mneme/models/config.h"
#include "mneme/ops/workspace.h"

namespace mneme {

/// The new tokens of all sequences of a batch, padding never among them.
struct TokenBatch {
  std::span<const std::int64_t> ids = {};        ///< [N]; empty if `embeddings` are given
  ops::Rows embeddings = {};                     ///< [N, E] float32 on the model's device, or none
  std::span<const std::int64_t> positions = {};  ///< [N] RoPE positions
  std::span<const std::int64_t>
      row_starts;  ///< [B + 1]: tokens of sequence i are rows [row_starts[i], row_starts[i+1])

  /// [B] tokens of each sequence as far as they are known, those that come in later calls too; empty: up to its last
  /// row. Only rotations that depend on the length of a text ask (longrope, dynamic).
  std::span<const std::int64_t> known_lengths = {};

  /// Where hidden states go, or empty: a matrix [N, E] of the caller's for the token vectors, one for what each layer
  /// but the last makes of them, and one for what the last makes, behind the norm before the head. The decoder of an
  /// encoder-decoder leaves them as they are.
  std::span<const ops::Rows> hidden_states = {};

  std::int64_t n_tokens() const { return row_starts.back(); }
};

/// A causal language model: weights and what they mean. Constant after loading: any number of threads may run it, each
/// with a cache of its own.
class Model {
 public:
  virtual ~Model() = default;

  const ModelConfig& config() const noexcept { return config_; }
  DType dtype() const noexcept { return dtype_; }
  at::Device device() const noexcept { return device_; }

  /// What a cache for this model must hold.
  virtual CacheShape cache_shape() const = 0;

  /// Bytes of weights held in memory (mapped files apart).
  virtual std::int64_t n_bytes() const = 0;

  /// Token vectors as they may be given instead of ids: out [ids.size(), E] float32. Ids must be inside the vocabulary.
  /// Throws Error(kUnsupported) for the decoder of an encoder-decoder.
  virtual void embed(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const;

  /// Appends the tokens to the cache and computes logits of some of their rows.
  ///
  /// logit_rows  rows of the batch, ascending
  /// logits      [logit_rows.size(), V] float32 on the model's device
  /// cache.prepare(counts) must have been called; ids must be inside the vocabulary. Throws nothing after that.
  virtual void forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
                       const ops::Rows& logits) const = 0;

 protected:
  Model(ModelConfig config, DType dtype, at::Device device)
      : config_(std::move(config)), dtype_(dtype), device_(device) {}

 private:
  ModelConfig config_;
  DType dtype_;
  at::Device device_;
};

/// Throws Error(kInvalidArgument) with both numbers unless a cache was made for this shape.
void check_fits(const CacheShape& shape, const Cache& cache);
/// The same for what a model asks for.
inline void check_fits(const Model& model, const Cache& cache) { check_fits(model.cache_shape(), cache); }

/// Layers, retentions and head sizes of a decoder-only attention model, from its config.
CacheShape cache_shape_of(const ModelConfig& config, DType dtype, at::Device device);

}  // namespace mneme
