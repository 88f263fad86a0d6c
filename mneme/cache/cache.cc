#include "mneme/cache/cache.h"

#include <algorithm>
#include <unordered_set>

#include "mneme/base/error.h"
#include "mneme/cache/disk_tier.h"
#include "mneme/cache/staged_tier.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;

/// a * b + c of sizes, or INT64_MAX if that does not fit: more than any machine has, so what is asked for is refused.
std::int64_t multiply_add(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t product, sum;
  return __builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum) ? INT64_MAX : sum;
}

/// Where blocks go that are offloaded.
std::shared_ptr<Tier> make_offload_tier(const std::string& name, at::Device device, const CacheOptions& options) {
  std::shared_ptr<Tier> store;
  if (name == "disk") {
    store = std::make_shared<DiskTier>(options.config.offload_folder.value_or(""));
  } else {
    store = std::make_shared<HostTier>(device);
  }
  if (device.is_cpu()) return store;
  return std::make_shared<StagedTier>(std::move(store), device);
}

}  // namespace

Cache::Cache(const CacheShape& shape, const CacheOptions& options)
    : shape_(shape),
      options_(options),
      plan_(plan_cache(shape, options)),
      device_(shape.device),
      budget_(std::make_shared<ByteBudget>(options.config.max_cache_bytes.value_or(0))),
      workspace_(std::make_unique<ops::Workspace>(shape.device)),
      in_use_(std::make_unique<std::atomic<bool>>(false)) {
  const std::shared_ptr<Tier> memory = std::make_shared<DeviceTier>(shape.device);
  if (!plan_.offload_device.empty()) offload_tier_ = make_offload_tier(plan_.offload_device, shape.device, options);
  layers_.reserve(plan_.layers.size());
  for (const LayerPlan& layer : plan_.layers) {
    LayerPools& at = layer_pools_.emplace_back();
    std::optional<KvLayer> attention;
    std::optional<StateLayer> state;
    if (layer.has_attention()) attention = make_attention(layer, memory, at);
    if (layer.state) state = make_state(*layer.state, memory, at);
    layers_.emplace_back(std::move(attention), std::move(state));
  }
  wanted_.resize(pools_.size());
  add_prefetcher();
  if (options.max_batch_size) reserve_rows(*options.max_batch_size);
}

KvLayer Cache::make_attention(const LayerPlan& plan, const std::shared_ptr<Tier>& memory, LayerPools& at) {
  at.raw = add_pool(plan.layout.block_bytes(), memory);
  KvStorage storage{.retention = plan.retention,
                    .layout = plan.layout,
                    .codec = plan.codec,
                    .residual_blocks = plan.residual_blocks,
                    .device = device_,
                    .rotate_values = plan.rotate_values,
                    .n_readers = plan.n_readers,
                    .raw_pool = pools_[at.raw]};
  if (plan.codec || plan.offloaded) {
    const std::shared_ptr<Tier>& tier = plan.offloaded ? offload_tier_ : memory;
    const std::int64_t first = plan.codec ? plan.codec->codes().block_bytes(true) : plan.layout.block_bytes();
    at.sealed = add_pool(plan.sealed_block_bytes(), tier);
    at.first = first == plan.sealed_block_bytes() ? at.sealed : add_pool(first, tier);
    storage.sealed_pool = pools_[at.sealed];
    storage.first_pool = pools_[at.first];
  }
  return KvLayer(std::move(storage));
}

StateLayer Cache::make_state(const StateShape& shape, const std::shared_ptr<Tier>& memory, LayerPools& at) {
  at.states = add_pool(StateLayer::state_bytes(shape), memory);
  at.inputs = add_pool(StateLayer::input_bytes(shape), memory);
  return StateLayer(shape, device_, pools_[at.states], pools_[at.inputs]);
}

Cache::Cache(const Cache& other)
    : shape_(other.shape_),
      options_(other.options_),
      plan_(other.plan_),
      device_(other.device_),
      budget_(other.budget_),
      offload_tier_(other.offload_tier_),
      pools_(other.pools_),
      wanted_(other.wanted_),
      layer_pools_(other.layer_pools_),
      layers_(other.layers_),
      reserved_rows_(other.reserved_rows_),
      interrupted_(other.interrupted_),
      workspace_(std::make_unique<ops::Workspace>(other.device_)),
      in_use_(std::make_unique<std::atomic<bool>>(false)) {
  add_prefetcher();
}

/// The pool of blocks of this size in this tier. A layer's offloaded blocks lie together, to be read in one go, so each
/// layer has pools of its own there.
std::size_t Cache::add_pool(std::int64_t block_bytes, std::shared_ptr<Tier> tier) {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (tier->resident() && &pools_[i]->tier() == tier.get() && pools_[i]->block_bytes() == block_bytes) return i;
  }
  pools_.push_back(std::make_shared<BlockPool>(block_bytes, std::move(tier), budget_));
  return pools_.size() - 1;
}

void Cache::add_prefetcher() {
  if (!offload_tier_) return;
  const auto n = std::ranges::count_if(plan_.layers, &LayerPlan::offloaded);
  if (n == 0) return;
  prefetcher_ = std::make_shared<Prefetcher>(offload_tier_, n);
  if (options_.max_cache_len) prefetcher_->reserve(reserved_rows_ * (*options_.max_cache_len / kBlockTokens));
  std::int64_t index = 0;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (plan_.layers[i].offloaded) layers_[i].attention().set_prefetcher(prefetcher_, index++);
  }
}

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

CacheLayer& Cache::layer(std::int64_t i) {
  check(i >= 0 && i < static_cast<std::int64_t>(layers_.size()), ErrorKind::kOutOfRange,
        "layer {} of a cache of {} layers is not there", i, layers_.size());
  return layers_[static_cast<std::size_t>(i)];
}

void Cache::check_room(const CacheLayer& layer, std::span<const std::int64_t> counts) const {
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
  for (CacheLayer& layer : layers_) layer.start(n_sequences_given, options_.max_cache_len.value_or(0));
}

void Cache::check_whole() const {
  check(!interrupted_, ErrorKind::kFailedPrecondition,
        "the last forward pass on this cache ended in an error and could not be taken back; reset() it, or go on with "
        "a copy that was made before");
}

/// Adds to what reserve_wanted() makes room for.
void Cache::want(std::size_t layer, const CacheLayer::Blocks& blocks, std::int64_t times) {
  const LayerPools& at = layer_pools_[layer];
  const auto add = [&](std::size_t pool, std::int64_t n) { wanted_[pool] = multiply_add(times, n, wanted_[pool]); };
  add(at.raw, blocks.attention.raw);
  add(at.sealed, blocks.attention.sealed);
  add(at.first, blocks.attention.first);
  add(at.states, blocks.state.states);
  add(at.inputs, blocks.state.inputs);
}

/// Room in every pool for as many more blocks than are in use, or in none.
void Cache::reserve_wanted() {
  std::int64_t n_bytes = 0;
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    if (pools_[i]->tier().resident()) n_bytes = multiply_add(1, pools_[i]->bytes_to_reserve(wanted_[i]), n_bytes);
  }
  const std::vector<std::int64_t>& wanted = wanted_;
  try {
    budget_->check_room(n_bytes);
    for (std::size_t i = 0; i < pools_.size(); ++i) pools_[i]->reserve(wanted[i]);
  } catch (...) {
    std::ranges::fill(wanted_, 0);
    throw;
  }
  std::ranges::fill(wanted_, 0);
}

void Cache::prepare(std::span<const std::int64_t> counts) {
  check_whole();
  for (const CacheLayer& layer : layers_) {
    check_room(layer, counts);
    layer.check_written();
  }
  if (options_.max_cache_len) reserve_rows(static_cast<std::int64_t>(counts.size()));
  for (std::size_t i = 0; i < layers_.size(); ++i) want(i, layers_[i].blocks_needed(counts));
  reserve_wanted();
  start(static_cast<std::int64_t>(counts.size()));
}

/// Every layer back to the tokens that it held before the pass.
void Cache::take_back_pass() {
  const std::vector<std::int64_t>& lengths = lengths_before_pass_;
  if (std::ranges::all_of(lengths, [](std::int64_t length) { return length == 0; })) {
    const bool recording = layers_.front().recording();
    reset();
    start(std::ssize(lengths));
    if (recording) activate_past_recording();
    return;
  }
  for (CacheLayer& layer : layers_) {
    for (std::size_t i = 0; i < lengths.size(); ++i) layer.shorten(static_cast<std::int64_t>(i), lengths[i]);
  }
}

Cache::Pass::Pass(Cache& cache, std::span<const std::int64_t> counts) : cache_(cache) {
  cache.prepare(counts);
  cache.lengths_before_pass_.clear();  // keeps its memory: a step allocates nothing
  for (std::int64_t i = 0; i < cache.n_sequences(); ++i)
    cache.lengths_before_pass_.push_back(cache.layers_.front().length(i));
}

Cache::Pass::~Pass() {
  if (done_) return;
  try {
    cache_.take_back_pass();
  } catch (...) {
    cache_.interrupted_ = true;
  }
}

/// A static cache takes memory for n sequences, on top of what it and its copies have.
void Cache::reserve_rows(std::int64_t n) {
  if (n <= reserved_rows_) return;
  for (std::size_t i = 0; i < pools_.size(); ++i) wanted_[i] = pools_[i]->capacity() - pools_[i]->n_in_use();
  for (std::size_t i = 0; i < layers_.size(); ++i)
    want(i, layers_[i].peak_blocks(*options_.max_cache_len), n - reserved_rows_);
  reserve_wanted();
  reserved_rows_ = n;
  if (prefetcher_) prefetcher_->reserve(n * (*options_.max_cache_len / kBlockTokens));
}

std::pair<at::Tensor, at::Tensor> Cache::update(const at::Tensor& keys, const at::Tensor& values,
                                                std::int64_t layer_idx) {
  CacheLayer& target = layer(layer_idx);
  KvLayer& attention = target.attention();
  attention.check_update(keys, values);
  attention.check_written();
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(keys.size(0)), keys.size(2));
  // Layers are one token apart while a model goes through them, so this looks at one layer, where prepare() looks at
  // all.
  check_room(target, counts);
  if (options_.max_cache_len) reserve_rows(keys.size(0));
  want(static_cast<std::size_t>(layer_idx), {.attention = attention.blocks_needed(counts), .state = {}});
  reserve_wanted();
  start(keys.size(0));
  return attention.update(*workspace_, keys, values);
}

void Cache::crop(std::int64_t n) {
  check(n <= 0, ErrorKind::kInvalidArgument,
        "crop({}) on a cache of {} tokens: the count is negative, crop(-n) removes the last n tokens", n, seq_length());
  check(n >= -seq_length(), ErrorKind::kInvalidArgument,
        "crop({}): more tokens than the {} that the cache holds cannot be removed", n, seq_length());
  for (const CacheLayer& layer : layers_) layer.check_crop(-n);
  for (std::size_t i = 0; i < layers_.size(); ++i) want(i, layers_[i].blocks_to_crop(-n));
  reserve_wanted();
  for (CacheLayer& layer : layers_) layer.crop(-n);
}

void Cache::activate_past_recording() {
  for (CacheLayer& layer : layers_) layer.activate_past_recording();
}

void Cache::reset() {
  interrupted_ = false;
  for (CacheLayer& layer : layers_) layer.reset();
}

std::int64_t Cache::bytes_in(bool resident) const {
  std::int64_t total = 0;
  if (options_.max_cache_len) {
    for (const auto& pool : pools_) {
      if (pool->tier().resident() == resident) total += pool->block_bytes() * pool->capacity();
    }
    return total;
  }
  std::unordered_set<const Block*> seen;
  for (const CacheLayer& layer : layers_) {
    layer.each_block([&](const BlockRef& block) {
      const BlockPool& pool = *block.pool();
      if (pool.tier().resident() == resident && seen.insert(block.get()).second) total += pool.block_bytes();
    });
  }
  return total;
}

Cache::Use::Use(Cache& cache) : cache_(cache) {
  check(!cache.in_use_->exchange(true), ErrorKind::kFailedPrecondition,
        "this cache is in use by another call; give each call its own (copy() costs microseconds)");
}

Cache::Use::~Use() { cache_.in_use_->store(false); }

}  // namespace mneme
