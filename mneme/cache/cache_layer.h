#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/cache/kv_layer.h"
#include "mneme/cache/state_layer.h"

namespace mneme {

/// What a cache holds for one layer of a model: keys and values, recurrent states, or both. What happens to sequences
/// happens to both parts; how tokens come in is each part's own (KvLayer::attend, StateLayer::advance).
class CacheLayer {
 public:
  /// At least one part.
  CacheLayer(std::optional<KvLayer> attention, std::optional<StateLayer> state)
      : attention_(std::move(attention)), state_(std::move(state)) {}

  bool has_attention() const noexcept { return attention_.has_value(); }
  bool has_state() const noexcept { return state_.has_value(); }
  /// The parts. Throws Error(kFailedPrecondition) for one that the layer does not have.
  KvLayer& attention() { return part(attention_, "keys and values"); }
  const KvLayer& attention() const { return part(attention_, "keys and values"); }
  StateLayer& state() { return part(state_, "recurrent states"); }
  const StateLayer& state() const { return part(state_, "recurrent states"); }

  /// What the next query may see, [B, Hkv, L', D]. Throws Error(kFailedPrecondition) if lengths differ, or if the layer
  /// has no attention.
  at::Tensor keys() const { return attention().keys(); }
  at::Tensor values() const { return attention().values(); }

  std::int64_t n_sequences() const noexcept { return attention_ ? attention_->n_sequences() : state_->n_sequences(); }
  std::int64_t length(std::int64_t sequence) const {
    return attention_ ? attention_->length(sequence) : state_->length(sequence);
  }

  /// Blocks of the parts, by the pool that they are taken from.
  struct Blocks {
    BlockCounts attention = {};
    StateLayer::Blocks state = {};
  };
  /// Blocks that appending `counts[i]` tokens to sequence i may take at most.
  Blocks blocks_needed(std::span<const std::int64_t> counts) const {
    Blocks blocks;
    if (attention_) blocks.attention = attention_->blocks_needed(counts);
    if (state_) blocks.state = state_->blocks_needed(counts);
    return blocks;
  }
  /// Blocks that a sequence of up to `length` tokens holds at most, where no past is recorded.
  Blocks peak_blocks(std::int64_t length) const {
    Blocks blocks;
    if (attention_) blocks.attention = KvSequence::peak(attention_->storage(), length);
    if (state_) blocks.state.states = 1;
    return blocks;
  }
  /// Blocks that `crop(n)` takes.
  Blocks blocks_to_crop(std::int64_t n) const {
    Blocks blocks;
    if (attention_) blocks.attention.raw = attention_->blocks_to_crop(n);
    return blocks;
  }
  /// Throws Error(kIo) if keys and values could not be written to their tier.
  void check_written() const {
    if (attention_) attention_->check_written();
  }

  /// Starts with this many empty sequences; `max_length` is the most tokens that each will hold, if that is known.
  void start(std::int64_t n_sequences, std::int64_t max_length = 0) {
    if (attention_) attention_->start(n_sequences, max_length);
    if (state_) state_->start(n_sequences);
  }
  void reset() noexcept {
    each_part([](auto& part) { part.reset(); });
  }
  void activate_past_recording() {
    each_part([](auto& part) { part.activate_past_recording(); });
  }
  bool recording() const noexcept { return attention_ ? attention_->recording() : state_->recording(); }
  /// The longest length up to `length` that a crop of sequence i would leave in every part just as one that never was
  /// longer; 0 if there is none.
  std::int64_t exact_length(std::int64_t i, std::int64_t length) const {
    if (attention_) length = attention_->sequence(i).exact_length(attention_->storage(), length, recording());
    return state_ ? state_->exact_length(i, length) : length;
  }

  /// Throws what the parts throw that cannot take back n tokens.
  void check_crop(std::int64_t n) const {
    each_part([&](const auto& part) { part.check_crop(n); });
  }
  void crop(std::int64_t n) {
    each_part([&](auto& part) { part.crop(n); });
  }
  /// Takes back what sequence i holds in excess of `length` tokens, in each part. Throws Error(kFailedPrecondition) for
  /// a part that has let go of what it would need.
  void shorten(std::int64_t i, std::int64_t length) {
    each_part([&](auto& part) { part.shorten(i, length); });
  }
  void select(std::span<const std::int64_t> indices) {
    each_part([&](auto& part) { part.select(indices); });
  }
  /// The sequences of a layer of the same kind and the same pools come behind those that are here.
  void add(CacheLayer other) {
    if (attention_) attention_->add(*std::move(other.attention_));
    if (state_) state_->add(*std::move(other.state_));
  }
  /// Copies every block to the pools of another layer of the same kind, each once. Throws Error(kOutOfMemory) or
  /// Error(kIo); the layer may be in two places then.
  void move_to(const CacheLayer& other) {
    if (attention_) attention_->move_to(other.attention_->storage());
    if (state_) state_->move_to(*other.state_);
  }
  template <class F>
  void each_block(F&& f) const {
    each_part([&](const auto& part) { part.each_block(f); });
  }

 private:
  template <class Part>
  static auto part(Part& part, const char* what) -> decltype(*part) {
    check(part.has_value(), ErrorKind::kFailedPrecondition, "this layer of the cache has no {}", what);
    return *part;
  }
  template <class F>
  void each_part(F&& f) {
    if (attention_) f(*attention_);
    if (state_) f(*state_);
  }
  template <class F>
  void each_part(F&& f) const {
    if (attention_) f(*attention_);
    if (state_) f(*state_);
  }

  std::optional<KvLayer> attention_;
  std::optional<StateLayer> state_;
};

}  // namespace mneme
