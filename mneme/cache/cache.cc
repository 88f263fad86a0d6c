#include "mneme/cache/cache.h"

#include <algorithm>
#include <unordered_set>

#include "mneme/base/error.h"

namespace mneme {
namespace {

/// a * b + c of sizes, or INT64_MAX if that does not fit: more than any machine has, so what is asked for is refused.
std::int64_t multiply_add(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t product, sum;
  return __builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum) ? INT64_MAX : sum;
}

}  // namespace

Cache::Cache(const CacheShape& shape, const CacheOptions& options)
    : options_(options),
      device_(shape.device),
      budget_(std::make_shared<ByteBudget>(options.max_cache_bytes.value_or(0))),
      workspace_(std::make_unique<ops::Workspace>(shape.device)),
      in_use_(std::make_unique<std::atomic<bool>>(false)) {
  static constexpr std::int64_t kMost = std::int64_t{1} << 53;  // tokens, sequences or bytes: more than any machine has
  const auto positive = [](const std::optional<std::int64_t>& value, const char* name) {
    check(!value || (*value > 0 && *value <= kMost), ErrorKind::kInvalidArgument, "{} must be 1 to {}, it is {}", name,
          kMost, value.value_or(0));
  };
  positive(options.max_cache_len, "max_cache_len");
  check(!shape.layers.empty(), ErrorKind::kInvalidArgument, "a cache of no layers cannot be");
  positive(options.max_batch_size, "max_batch_size");
  positive(options.max_cache_bytes, "max_cache_bytes");
  check(!options.max_batch_size || options.max_cache_len, ErrorKind::kInvalidArgument,
        "max_batch_size = {} is for static caches; give max_cache_len too", options.max_batch_size.value_or(0));
  layers_.reserve(shape.layers.size());
  for (const LayerShape& layer : shape.layers) {
    auto codec = float_codec(options.dtype.value_or(shape.dtype), layer.n_heads, layer.key_dim, layer.value_dim);
    std::shared_ptr<BlockPool>& pool = pools_[codec->block_bytes()];
    if (!pool) pool = std::make_shared<BlockPool>(codec->block_bytes(), shape.device, budget_);
    layers_.emplace_back(KvLayerOptions{.retention = layer.retention, .codec = std::move(codec)}, pool);
  }
  if (options.max_batch_size) reserve_rows(*options.max_batch_size);
}

Cache::Cache(const Cache& other)
    : options_(other.options_),
      device_(other.device_),
      budget_(other.budget_),
      pools_(other.pools_),
      layers_(other.layers_),
      reserved_rows_(other.reserved_rows_),
      workspace_(std::make_unique<ops::Workspace>(other.device_)),
      in_use_(std::make_unique<std::atomic<bool>>(false)) {}

Cache Cache::copy() const { return Cache(*this); }

std::int64_t Cache::seq_length() const {
  std::int64_t longest = 0;
  for (const std::int64_t length : lengths()) longest = std::max(longest, length);
  return longest;
}

std::vector<std::int64_t> Cache::lengths() const {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < n_sequences(); ++i) result.push_back(layers_.front().length(i));
  return result;
}

KvLayer& Cache::layer(std::int64_t i) {
  check(i >= 0 && i < static_cast<std::int64_t>(layers_.size()), ErrorKind::kOutOfRange,
        "layer {} of a cache of {} layers is not there", i, layers_.size());
  return layers_[static_cast<std::size_t>(i)];
}

void Cache::check_room(const KvLayer& layer, std::span<const std::int64_t> counts) const {
  const auto n = static_cast<std::int64_t>(counts.size());
  const bool empty = n_sequences() == 0;
  check(empty || n == n_sequences(), ErrorKind::kInvalidArgument,
        "cache: {} sequences were given to a cache that holds {}; reset() it or use another cache", n, n_sequences());
  for (const std::int64_t count : counts)
    check(count >= 0, ErrorKind::kInvalidArgument, "{} new tokens cannot be", count);
  if (!options_.max_cache_len) return;
  check(reserved_rows_ == 0 || n <= reserved_rows_, ErrorKind::kInvalidArgument,
        "static cache: {} sequences exceed the {} that it was made for; use another cache", n, reserved_rows_);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t cached = empty ? 0 : layer.length(i), added = counts[static_cast<std::size_t>(i)];
    check(
        added <= *options_.max_cache_len - cached, ErrorKind::kFailedPrecondition,
        "static cache: {} cached + {} new tokens exceed its capacity of {}; raise max_cache_len or use a dynamic cache",
        cached, added, *options_.max_cache_len);
  }
}

void Cache::start(std::int64_t n_sequences_given) {
  if (n_sequences() != 0) return;
  for (KvLayer& layer : layers_) layer.start(n_sequences_given);
}

/// Room in every pool for needed(pool) more blocks than are in use, or in none.
template <class Needed>
void Cache::reserve(const Needed& needed) {
  std::int64_t n_bytes = 0;
  for (auto& [block_bytes, pool] : pools_) n_bytes = multiply_add(1, pool->bytes_to_reserve(needed(*pool)), n_bytes);
  budget_->check_room(n_bytes);
  for (auto& [block_bytes, pool] : pools_) pool->reserve(needed(*pool));
}

/// Sum of blocks(layer) over the layers that take theirs from a pool.
template <class Blocks>
std::int64_t Cache::blocks_from(const BlockPool& pool, const Blocks& blocks) const {
  std::int64_t total = 0;
  for (const KvLayer& layer : layers_) {
    if (layer.codec().block_bytes() == pool.block_bytes()) total = multiply_add(1, blocks(layer), total);
  }
  return total;
}

void Cache::prepare(std::span<const std::int64_t> counts) {
  for (const KvLayer& layer : layers_) check_room(layer, counts);
  if (options_.max_cache_len) reserve_rows(static_cast<std::int64_t>(counts.size()));
  reserve([&](const BlockPool& pool) {
    return blocks_from(pool, [&](const KvLayer& layer) { return layer.blocks_needed(counts); });
  });
  start(static_cast<std::int64_t>(counts.size()));
}

/// A static cache takes memory for n sequences, on top of what it and its copies have.
void Cache::reserve_rows(std::int64_t n) {
  if (n <= reserved_rows_) return;
  const std::int64_t more = n - reserved_rows_;
  reserve([&](const BlockPool& pool) {
    const std::int64_t spare = pool.capacity() - pool.n_in_use();
    return multiply_add(
        more, blocks_from(pool, [&](const KvLayer& layer) { return layer.peak_blocks(*options_.max_cache_len); }),
        spare);
  });
  reserved_rows_ = n;
}

std::pair<at::Tensor, at::Tensor> Cache::update(const at::Tensor& keys, const at::Tensor& values,
                                                std::int64_t layer_idx) {
  KvLayer& target = layer(layer_idx);
  target.check_update(keys, values);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(keys.size(0)), keys.size(2));
  // Layers are one token apart while a model goes through them, so this looks at one layer, where prepare() looks at
  // all.
  check_room(target, counts);
  if (options_.max_cache_len) reserve_rows(keys.size(0));
  pools_.at(target.codec().block_bytes())->reserve(target.blocks_needed(counts));
  start(keys.size(0));
  return target.update(*workspace_, keys, values);
}

void Cache::crop(std::int64_t n) {
  check(n <= 0, ErrorKind::kInvalidArgument,
        "crop({}) on a cache of {} tokens: the count is negative, crop(-n) removes the last n tokens", n, seq_length());
  check(n >= -seq_length(), ErrorKind::kInvalidArgument,
        "crop({}): more tokens than the {} that the cache holds cannot be removed", n, seq_length());
  for (const KvLayer& layer : layers_) layer.check_crop(-n);
  for (KvLayer& layer : layers_) layer.crop(-n);
}

void Cache::activate_past_recording() {
  for (KvLayer& layer : layers_) layer.activate_past_recording();
}

void Cache::reorder(const at::Tensor& beam_idx) {
  const at::Tensor indices = beam_idx.to(at::kCPU, at::kLong).contiguous();
  select(at::IntArrayRef(indices.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(indices.numel())));
}

void Cache::repeat_interleave(std::int64_t n) {
  check(n >= 1, ErrorKind::kInvalidArgument, "repeat_interleave({}): each sequence must come at least once", n);
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < n_sequences(); ++i) rows.insert(rows.end(), static_cast<std::size_t>(n), i);
  select(rows);
}

void Cache::select(at::IntArrayRef rows) {
  for (const std::int64_t row : rows) {
    check(row >= 0 && row < n_sequences(), ErrorKind::kOutOfRange, "sequence {} of a cache that holds {} is not there",
          row, n_sequences());
  }
  if (options_.max_cache_len) {
    const auto n = static_cast<std::int64_t>(rows.size());
    check(n <= options_.max_batch_size.value_or(n), ErrorKind::kInvalidArgument,
          "static cache: {} sequences exceed its max_batch_size of {}", n, options_.max_batch_size.value_or(0));
    reserve_rows(n);
  }
  for (KvLayer& layer : layers_) layer.select({rows.data(), rows.size()});
}

void Cache::reset() {
  for (KvLayer& layer : layers_) layer.reset();
}

std::int64_t Cache::n_bytes() const {
  if (options_.max_cache_len) {
    std::int64_t total = 0;
    for (const auto& [bytes, pool] : pools_) total += bytes * pool->capacity();
    return total;
  }
  std::unordered_set<const Block*> seen;
  std::int64_t total = 0;
  for (const KvLayer& layer : layers_) {
    layer.each_block(
        [&](const BlockRef& block) { total += seen.insert(block.get()).second ? layer.codec().block_bytes() : 0; });
  }
  return total;
}

Cache::Use::Use(Cache& cache) : cache_(cache) {
  check(!cache.in_use_->exchange(true), ErrorKind::kFailedPrecondition,
        "this cache is in use by another call; give each call its own (copy() costs microseconds)");
}

Cache::Use::~Use() { cache_.in_use_->store(false); }

}  // namespace mneme
