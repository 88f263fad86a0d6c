#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mneme/models/embedding.h"
#include "mneme/models/layer_embeddings.h"
#include "mneme/models/model.h"
#include "mneme/models/sublayer.h"
#include "mneme/ops/linear.h"

namespace mneme {

/// What a decoder is made of. An architecture file starts from `standard_ends`, adds its layers and says what is
/// different.
struct DecoderParts {
  Embedding embedding;
  float embedding_scale = 1.0f;
  bool scales_given_embeddings = false;             ///< those too that a caller gives instead of ids
  std::optional<Embedding> learned_positions = {};  ///< a vector for each position, added to the token's
  std::vector<ops::Rope> ropes = {};                ///< at most Decoder::kMaxRopes
  std::optional<LayerEmbeddings> layer_embeddings = {};
  std::vector<std::vector<Residual>> layers = {};
  std::vector<std::size_t> cache_layers = {};  ///< which layer of the cache each of them uses; empty: one each
  Norm norm = {};
  ops::Linear head = {};
  float logit_scale = 1.0f;
  float logit_softcap = 0.0f;  ///< 0: none
};

/// What checkpoints call the parts before and after the layers.
struct EndNames {
  std::string embedding = "model.embed_tokens", norm = "model.norm", head = "lm_head";
};

/// Embedding, the config's rotary embeddings (ropes_of), last norm and head.
DecoderParts standard_ends(const Loader& load, const ModelConfig& config, NormKind norm = NormKind::kRms,
                           const EndNames& names = {});

/// The layer that most decoders have: h <- h + attention(norm(h)), h <- h + feed_forward(norm(h)).
std::vector<Residual> pre_norm_layer(Norm attention_norm, std::unique_ptr<const Sublayer> attention,
                                     Norm feed_forward_norm, std::unique_ptr<const Sublayer> feed_forward);
/// The same with norms called input_layernorm and post_attention_layernorm below `prefix`, which ends in a dot.
std::vector<Residual> pre_norm_layer(const Loader& load, const ModelConfig& config, const std::string& prefix,
                                     std::unique_ptr<const Sublayer> attention,
                                     std::unique_ptr<const Sublayer> feed_forward);

/// "model.layers.3."
std::string layer_prefix(std::int64_t index);

/// A decoder-only model: token vectors go through layers of sublayers, each of which adds to them, then through a norm
/// and the head.
///
/// Hidden rows are float32 throughout; each product rounds its input as its weights' dtype asks (ops/linear.h).
class Decoder final : public Model {
 public:
  static constexpr std::size_t kMaxRopes = 4;

  Decoder(const ModelConfig& config, const Loader& load, DecoderParts parts);

  CacheShape cache_shape() const override;
  std::int64_t n_bytes() const override;
  void embed(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const override;
  void forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
               const ops::Rows& logits) const override;

 private:
  void token_vectors(ops::Workspace& workspace, const TokenBatch& batch, const ops::Rows& hidden) const;

  DecoderParts parts_;
};

}  // namespace mneme
