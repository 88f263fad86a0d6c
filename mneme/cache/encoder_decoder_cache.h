#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mneme/cache/cache.h"

namespace mneme {

/// What an encoder-decoder model remembers: a cache of the decoder's own tokens, and one of the encoder's states that
/// every layer of the decoder attends to. Each is a cache of any kind.
///
/// The cross-attention cache is written once, before the decoder's first token, and only read from then on: it has its
/// own lengths, keeps all of its tokens, and no crop touches it. Lengths, limits and crops are those of the decoder;
/// whatever works on sequences works on both parts.
class EncoderDecoderCache {
 public:
  /// Takes both over. Throws Error(kInvalidArgument) if they hold different numbers of sequences, or if a layer of the
  /// cross-attention cache does not keep all of its tokens.
  EncoderDecoderCache(Cache self_attention_cache, Cache cross_attention_cache);

  Cache& self_attention_cache() noexcept { return self_; }
  const Cache& self_attention_cache() const noexcept { return self_; }
  Cache& cross_attention_cache() noexcept { return cross_; }
  const Cache& cross_attention_cache() const noexcept { return cross_; }

  /// Another one with the same content that shares all blocks with this one: O(layers).
  EncoderDecoderCache copy() const { return {self_.copy(), cross_.copy()}; }

  /// The decoder's tokens: of the longest sequence, and of each.
  std::int64_t seq_length() const { return self_.seq_length(); }
  std::vector<std::int64_t> lengths() const { return self_.lengths(); }
  /// The encoder's.
  std::vector<std::int64_t> cross_lengths() const { return cross_.lengths(); }
  /// Sequences of the cross-attention cache, or of the decoder's as long as that is empty.
  std::int64_t n_sequences() const noexcept;
  std::optional<std::int64_t> max_length() const noexcept { return self_.max_length(); }
  /// That of the decoder's part.
  const std::string& implementation() const noexcept { return self_.implementation(); }
  std::int64_t n_bytes() const { return self_.n_bytes() + cross_.n_bytes(); }
  std::int64_t n_bytes_offloaded() const { return self_.n_bytes_offloaded() + cross_.n_bytes_offloaded(); }

  /// Whether the encoder's states have been written.
  bool is_written() const { return cross_.seq_length() > 0; }
  /// Makes room for `counts[i]` encoder states of sequence i: the step before they are written. Throws
  /// Error(kFailedPrecondition) if they were before, Error(kInvalidArgument) for another number of sequences than the
  /// decoder's part holds, and what Cache::prepare throws; nothing changes then.
  void prepare_cross(std::span<const std::int64_t> counts);

  /// The classic doors: Cache::update of the decoder's part, and the one write of a cross-attention layer, keys and
  /// values [B, Hkv, S, D]. A second one is an Error(kFailedPrecondition).
  std::pair<at::Tensor, at::Tensor> update(const at::Tensor& keys, const at::Tensor& values, std::int64_t layer_idx) {
    return self_.update(keys, values, layer_idx);
  }
  std::pair<at::Tensor, at::Tensor> update_cross(const at::Tensor& keys, const at::Tensor& values,
                                                 std::int64_t layer_idx);

  /// On the decoder's part, as in Cache.
  void crop(std::int64_t n) { self_.crop(n); }
  void activate_past_recording() { self_.activate_past_recording(); }

  /// On both parts, as in Cache; a part that is still empty stays so. Where one part refuses, nothing changes.
  void select(at::IntArrayRef rows);
  void reorder(at::IntArrayRef beam_idx) { select(beam_idx); }
  void reorder(const at::Tensor& beam_idx);
  void repeat_interleave(std::int64_t n);
  /// Those of another one behind these, as Cache::add_sequences. A part that is empty where its neighbour is not gets
  /// sequences of no tokens: a source that was just written joins decoders that are under way.
  void add_sequences(const EncoderDecoderCache& other);
  /// Empties both: ready for another source.
  void reset();

 private:
  template <class Verb>
  void on_both(const Verb& verb);

  Cache self_, cross_;
};

}  // namespace mneme
