#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/models/embedding.h"
#include "mneme/models/model.h"
#include "mneme/models/weights.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/linear.h"
#include "mneme/ops/rope.h"

namespace mneme {

/// How one pre-norm decoder differs from the next. Names and sizes come from the config; an architecture file sets
/// these.
struct DecoderOptions {
  bool qkv_bias = false;
  bool output_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  ///< RMS norm of each query and key head before RoPE (Qwen3)
};

/// The decoder that Llama, Mistral and Qwen share:
///
///   h = h + O(attention(rope(Q x), rope(K x), V x)),  x = norm(h)
///   h = h + down(act(gate y) * up y),                 y = norm(h)
///
/// Hidden rows are float32 throughout; each product rounds its input as its weights' dtype asks (ops/linear.h).
/// Queries, keys and values are one product, and so are gate and up.
class Decoder final : public Model {
 public:
  Decoder(const ModelConfig& config, const Weights& weights, DType dtype, at::Device device,
          const DecoderOptions& options);

  CacheShape cache_shape() const override { return cache_shape_of(config(), dtype(), device()); }
  std::int64_t n_bytes() const override;
  void forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
               const ops::Rows& logits) const override;

 private:
  struct Layer {
    at::Tensor attention_norm, query_norm, key_norm, mlp_norm;
    ops::Linear qkv, output, gate_up, down;
  };

  Layer load_layer(const Weights& weights, std::int64_t index, const DecoderOptions& options) const;
  void attention(ops::Workspace& workspace, const Layer& layer, KvLayer& kv, const TokenBatch& batch,
                 const ops::Rope::Table& angles, const ops::Rows& hidden) const;
  void mlp(ops::Workspace& workspace, const Layer& layer, const ops::Rows& hidden) const;

  Embedding embedding_;
  std::vector<Layer> layers_;
  at::Tensor norm_;
  ops::Linear head_;
  ops::Rope rope_;
  ops::Activation activation_;
};

}  // namespace mneme
