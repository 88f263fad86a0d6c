#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "mneme/cache/encoder_decoder_cache.h"
#include "mneme/models/model.h"

namespace mneme {

/// An encoder-decoder: weights and what they mean. Constant after loading, as Model.
///
/// The encoder turns a source into states; every decoder layer has keys and values of them, which are written to the
/// cross-attention cache once. From then on the decoder is a causal model (BoundDecoder).
class Seq2SeqModel {
 public:
  virtual ~Seq2SeqModel() = default;

  const ModelConfig& config() const noexcept { return config_; }
  DType dtype() const noexcept { return dtype_; }
  at::Device device() const noexcept { return device_; }

  /// What the decoder's own cache must hold, and what its cross-attention cache must: all tokens, whatever window the
  /// decoder has.
  CacheShape cache_shape() const { return cache_shape_of(config(), dtype(), device()); }
  CacheShape cross_cache_shape() const;

  /// Bytes of weights held in memory (mapped files apart).
  virtual std::int64_t n_bytes() const = 0;

  /// What is read instead of ids (Whisper): each sequence as `n_rows` rows of `width` features, of which its front end
  /// makes `n_states` embeddings.
  struct Features {
    std::int64_t n_rows, width, n_states;
  };
  /// Nothing for a model that reads ids.
  virtual std::optional<Features> features() const { return std::nullopt; }
  /// The front end: features [B * n_rows, width] -> embeddings [B * n_states, E], what `encode` takes. Throws
  /// Error(kUnsupported) for a model that reads ids, Error(kOutOfMemory).
  virtual void embed_features(ops::Workspace& workspace, const ops::Rows& features, const ops::Rows& embeddings) const;

  /// Encoder states [N, E] of the source's tokens, each of which sees all of its sequence. Positions are not read: they
  /// count from 0 in each sequence. Ids must be inside the vocabulary. Throws Error(kOutOfMemory).
  virtual void encode(const TokenBatch& source, ops::Workspace& workspace, const ops::Rows& states) const = 0;

  /// Appends keys and values of the states to every layer of the cross-attention cache, for which prepare() must have
  /// been called. Throws nothing.
  virtual void write_cross(const ops::Rows& states, std::span<const std::int64_t> row_starts, Cache& cross) const = 0;

  /// As Model::forward, of the decoder. `cross` must be written, for as many sequences as the batch has.
  virtual void decode(const TokenBatch& batch, Cache& cache, const Cache& cross,
                      std::span<const std::int64_t> logit_rows, const ops::Rows& logits) const = 0;

 protected:
  Seq2SeqModel(ModelConfig config, DType dtype, at::Device device)
      : config_(std::move(config)), dtype_(dtype), device_(device) {}

 private:
  ModelConfig config_;
  DType dtype_;
  at::Device device_;
};

/// Layers of a decoder's cross-attention: those of its own cache, but each keeps all of its tokens.
CacheShape cross_cache_shape_of(const ModelConfig& config, DType dtype, at::Device device);

/// Runs the encoder on a source and writes the cross-attention cache. Throws Error(kInvalidArgument) for a cache of
/// another model, what EncoderDecoderCache::prepare_cross throws, and Error(kIo) for blocks that could not be written
/// to a disk; the cache is unchanged then.
void encode_into(const Seq2SeqModel& model, const TokenBatch& source, EncoderDecoderCache& cache);

/// The decoder of a model beside a written cross-attention cache: a causal model whose past is the decoder's own cache.
/// So everything made for causal models runs it. Model and cache must outlive it.
class BoundDecoder final : public Model {
 public:
  BoundDecoder(const Seq2SeqModel& model, const Cache& cross)
      : Model(model.config(), model.dtype(), model.device()), model_(model), cross_(cross) {}

  CacheShape cache_shape() const override { return model_.cache_shape(); }
  std::int64_t n_bytes() const override { return model_.n_bytes(); }
  void forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
               const ops::Rows& logits) const override {
    model_.decode(batch, cache, cross_, logit_rows, logits);
  }

 private:
  const Seq2SeqModel& model_;
  const Cache& cross_;
};

}  // namespace mneme
