#include "mneme/cache/encoder_decoder_cache.h"

#include "mneme/base/error.h"

namespace mneme {

EncoderDecoderCache::EncoderDecoderCache(Cache self_attention_cache, Cache cross_attention_cache)
    : self_(std::move(self_attention_cache)), cross_(std::move(cross_attention_cache)) {
  check(self_.n_sequences() == 0 || cross_.n_sequences() == 0 || self_.n_sequences() == cross_.n_sequences(),
        ErrorKind::kInvalidArgument,
        "a self-attention cache of {} sequences and a cross-attention cache of {} do not go together; reset() one",
        self_.n_sequences(), cross_.n_sequences());
  const std::vector<CacheLayer>& layers = cross_.layers();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Retention& retention = layers[i].attention().retention();
    check(
        !retention.limited(), ErrorKind::kInvalidArgument,
        "layer {} of the cross-attention cache keeps {}, but a decoder sees all of the encoder's states; make it from "
        "the model's cross_cache_shape",
        i, retention.name());
  }
}

std::int64_t EncoderDecoderCache::n_sequences() const noexcept {
  return cross_.n_sequences() ? cross_.n_sequences() : self_.n_sequences();
}

void EncoderDecoderCache::prepare_cross(std::span<const std::int64_t> counts) {
  check(!is_written(), ErrorKind::kFailedPrecondition,
        "the cross-attention cache is written once and holds {} encoder states already; reset() it for another source",
        cross_.seq_length());
  const auto n = static_cast<std::int64_t>(counts.size());
  check(self_.n_sequences() == 0 || self_.n_sequences() == n, ErrorKind::kInvalidArgument,
        "{} encoder sequences were given to a decoder's cache that holds {}; reset() it or use another cache", n,
        self_.n_sequences());
  if (cross_.n_sequences() != n) cross_.reset();  // started, but never written
  cross_.prepare(counts);
}

std::pair<at::Tensor, at::Tensor> EncoderDecoderCache::update_cross(const at::Tensor& keys, const at::Tensor& values,
                                                                    std::int64_t layer_idx) {
  const CacheLayer& layer = cross_.layer(layer_idx);
  for (std::int64_t i = 0; i < layer.n_sequences(); ++i) {
    check(layer.length(i) == 0, ErrorKind::kFailedPrecondition,
          "layer {} of the cross-attention cache is written once and holds {} tokens already; reset() it for another "
          "source",
          layer_idx, layer.length(i));
  }
  check(self_.n_sequences() == 0 || keys.dim() != 4 || self_.n_sequences() == keys.size(0), ErrorKind::kInvalidArgument,
        "{} encoder sequences were given to a decoder's cache that holds {}", keys.size(0), self_.n_sequences());
  return cross_.update(keys, values, layer_idx);
}

/// Copies cost O(layers), so the parts change together or not at all.
template <class Verb>
void EncoderDecoderCache::on_both(const Verb& verb) {
  Cache cross = cross_.copy();
  if (cross.n_sequences()) verb(cross);
  if (self_.n_sequences() || !cross.n_sequences()) verb(self_);
  cross_ = std::move(cross);
}

void EncoderDecoderCache::select(at::IntArrayRef rows) {
  on_both([&](Cache& cache) { cache.select(rows); });
}

void EncoderDecoderCache::reorder(const at::Tensor& beam_idx) {
  on_both([&](Cache& cache) { cache.reorder(beam_idx); });
}

void EncoderDecoderCache::repeat_interleave(std::int64_t n) {
  on_both([&](Cache& cache) { cache.repeat_interleave(n); });
}

void EncoderDecoderCache::add_sequences(const EncoderDecoderCache& other) {
  const auto started = [](const Cache& part, std::int64_t n) {
    Cache copy = part.copy();
    if (copy.n_sequences() == 0 && n > 0) copy.prepare(std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
    return copy;
  };
  Cache self = started(self_, n_sequences()), cross = started(cross_, n_sequences());
  self.add_sequences(started(other.self_, other.n_sequences()));
  cross.add_sequences(started(other.cross_, other.n_sequences()));
  self_ = std::move(self);
  cross_ = std::move(cross);
}

void EncoderDecoderCache::reset() {
  self_.reset();
  cross_.reset();
}

}  // namespace mneme
