#include "mneme/base/error.h"
#include "mneme/cache/cache.h"

// Which sequences a cache holds.
namespace mneme {

void Cache::reorder(const at::Tensor& beam_idx) {
  check(beam_idx.defined() && beam_idx.dim() == 1 && at::isIntegralType(beam_idx.scalar_type(), /*includeBool=*/false),
        ErrorKind::kInvalidArgument, "reorder: beam_idx must be [B] integers");
  const at::Tensor indices = beam_idx.to(at::kCPU, at::kLong).contiguous();
  select(at::IntArrayRef(indices.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(indices.numel())));
}

void Cache::repeat_interleave(std::int64_t n) {
  static constexpr std::int64_t kMostSequences = 1 << 20;
  check(n >= 1, ErrorKind::kInvalidArgument, "repeat_interleave({}): each sequence must come at least once", n);
  check(n_sequences() == 0 || n <= kMostSequences / n_sequences(), ErrorKind::kInvalidArgument,
        "repeat_interleave({}) of {} sequences makes more than {}", n, n_sequences(), kMostSequences);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n_sequences(); ++i) rows.insert(rows.end(), static_cast<std::size_t>(n), i);
  select(rows);
}

/// Memory of a static cache for n sequences, if it may have as many.
void Cache::make_room_for(std::int64_t n) {
  if (!options_.max_cache_len) return;
  check(n <= options_.max_batch_size.value_or(n), ErrorKind::kInvalidArgument,
        "static cache: {} sequences exceed its max_batch_size of {}", n, options_.max_batch_size.value_or(0));
  reserve_rows(n);
}

void Cache::select(at::IntArrayRef rows) {
  for (const std::int64_t row : rows) {
    check(row >= 0 && row < n_sequences(), ErrorKind::kOutOfRange, "sequence {} of a cache that holds {} is not there",
          row, n_sequences());
  }
  make_room_for(std::ssize(rows));
  for (CacheLayer& layer : layers_) layer.select({rows.data(), rows.size()});
}

void Cache::check_like(const Cache& other) const {
  const auto n_layers = plan_.layers.size(), n_others = other.plan_.layers.size();
  check(n_layers == n_others, ErrorKind::kInvalidArgument,
        "a cache of {} layers cannot take the sequences of one of {}; make both for the same model", n_layers,
        n_others);
  for (std::size_t i = 0; i < n_layers; ++i) {
    const LayerPlan &here = plan_.layers[i], &there = other.plan_.layers[i];
    check(
        device_ == other.device_ && here.is_like(there), ErrorKind::kInvalidArgument,
        "layer {} of this cache ({}, {}, keeps {}) cannot take sequences of the other's ({}, {}, keeps {}); make both "
        "for the same model with the same cache_config",
        i, implementation(), here.codec_name(), here.retention.name(), other.implementation(), there.codec_name(),
        there.retention.name());
  }
  check(layers_.front().recording() == other.layers_.front().recording(), ErrorKind::kFailedPrecondition,
        "a cache that {} its past cannot take the sequences of one that {}; call activate_past_recording() on {}",
        layers_.front().recording() ? "records" : "does not record",
        other.layers_.front().recording() ? "does" : "does not",
        layers_.front().recording() ? "the other before its tokens come" : "this one before");
}

void Cache::add_sequences(const Cache& other) {
  check_whole();
  other.check_whole();
  check_like(other);
  for (const CacheLayer& layer : other.layers_) layer.check_written();
  for (const std::int64_t length : other.lengths()) {
    check(
        length <= options_.max_cache_len.value_or(length), ErrorKind::kInvalidArgument,
        "static cache: a sequence of {} tokens exceeds its capacity of {}; raise max_cache_len or use a dynamic cache",
        length, options_.max_cache_len.value_or(0));
  }
  make_room_for(n_sequences() + other.n_sequences());
  std::vector<CacheLayer> added = other.layers_;
  if (other.pools_ != pools_) {
    for (std::size_t i = 0; i < layers_.size(); ++i) added[i].move_to(layers_[i]);
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) layers_[i].add(std::move(added[i]));
}

}  // namespace mneme
