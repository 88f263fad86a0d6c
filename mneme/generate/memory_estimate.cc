#include "mneme/generate/memory_estimate.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/cache.h"
#include "mneme/cache/state_layer.h"
#include "mneme/generate/cache_options.h"
#include "mneme/generate/config.h"
#include "mneme/models/registry.h"
#include "mneme/models/weight_bytes.h"

namespace mneme {
namespace {

/// Adds the most that one sequence takes on its way to this length; a static cache takes as much at once.
void add_cache(const CacheShape& shape, const CacheOptions& options, std::int64_t length, MemoryEstimate& estimate) {
  const std::int64_t n_tokens = options.max_cache_len.value_or(length);
  const Cache cache(shape, options);  // empty: it takes nothing, and knows what it would
  const CachePlan plan = plan_cache(shape, options);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    const BlockCounts blocks = cache.layers()[i].peak_blocks(n_tokens).attention;
    const std::int64_t first_bytes = layer.codec ? layer.codec->codes().block_bytes(true) : layer.layout.block_bytes();
    if (layer.state) estimate.cache += StateLayer::state_bytes(*layer.state);
    if (!layer.has_attention()) continue;
    estimate.cache += blocks.raw * layer.layout.block_bytes();
    (layer.offloaded ? estimate.cache_offloaded : estimate.cache) +=
        blocks.sealed * layer.sealed_block_bytes() + blocks.first * first_bytes;
  }
}

/// float32 rows that a pass holds at once: the residual stream and a sublayer's input and output, the widest of what is
/// inside one, and logits where they are computed and where they are kept.
std::int64_t working_bytes(const ModelConfig& c, std::int64_t n_rows, std::int64_t batch_size) {
  const std::int64_t attention = 2 * (c.num_attention_heads + c.num_key_value_heads) * c.head_dim;
  const std::int64_t inner =
      std::max(attention, 3 * c.intermediate_size) + 2 * c.num_hidden_layers * c.hidden_size_per_layer_input;
  return 4 * (n_rows * (3 * c.hidden_size + inner) + 2 * batch_size * c.vocab_size);
}

}  // namespace

MemoryEstimate estimate_memory(const std::string& path, const MemoryRequest& request) {
  const ModelConfig config = ModelConfig::from_pretrained(path);
  const Architecture& architecture = architecture_of(config.model_type);
  const std::int64_t length = request.length.value_or(config.max_position_embeddings), n = request.batch_size;
  check(length >= 1 && length <= INT32_MAX, ErrorKind::kInvalidArgument,
        "memory is estimated for a length of 1 to 2^31-1 tokens, not for {}", length);
  check(n >= 1 && n <= INT32_MAX, ErrorKind::kInvalidArgument,
        "memory is estimated for 1 to 2^31-1 sequences, not for {}", n);
  const Arithmetic arithmetic = arithmetic_of(request.load.dtype);
  const DType dtype = arithmetic.dtype.value_or(config.dtype);
  const at::Device device = request.load.device;
  GenerateOptions wanted = request.cache;
  wanted.max_new_tokens = length;
  const GenerationSettings settings = resolve(wanted, {}, 0, n);
  const CacheOptions options = cache_options_of(settings);

  MemoryEstimate estimate;
  estimate.weights = weight_bytes(Weights::open(path, arithmetic.linear_as), config, dtype, device);
  add_cache(architecture.cache_shape(config, dtype, device), options, length, estimate);
  if (architecture.build_seq2seq) add_cache(cross_cache_shape_of(config, dtype, device), options, length, estimate);
  estimate.cache *= n;
  estimate.cache_offloaded *= n;
  estimate.working = working_bytes(config, n * std::min(length, settings.prefill_chunk_size), n);
  return estimate;
}

}  // namespace mneme
