#include "mneme/tasks/inspect.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/cache/plan.h"
#include "mneme/cache/state_layer.h"
#include "mneme/generate/cache_options.h"
#include "mneme/generate/memory_estimate.h"
#include "mneme/kernels/kernels.h"
#include "mneme/models/registry.h"
#include "mneme/models/weights.h"
#include "mneme/tasks/loaded.h"
#include "mneme/text/tokenizer.h"

namespace mneme::tasks {
namespace {

/// Kinds whose size is shown beside that of the plan.
struct Kind {
  const char* name;
  CacheOptions options;
};

std::vector<Kind> kinds() {
  const auto codec = [](const CacheConfig& config) { return CacheOptions{.quantized = true, .config = config}; };
  const auto kivi = [&](std::int64_t keys, std::int64_t values) {
    return codec({.backend = "kivi", .nbits_key = keys, .nbits_value = values});
  };
  return {{"float32", {.dtype = DType::kFloat32}},
          {"bfloat16", {.dtype = DType::kBFloat16}},
          {"float16", {.dtype = DType::kFloat16}},
          {"fp8", codec({.backend = "fp8"})},
          {"int8", codec({.backend = "int8"})},
          {"quanto4", codec({.backend = "quanto"})},
          {"hqq4", codec({.backend = "hqq", .axis_key = 1, .axis_value = 1})},
          {"kivi4+4", kivi(4, 4)},
          {"kivi4+2", kivi(4, 2)},
          {"kivi2+2", kivi(2, 2)}};
}

double bytes_per_token(const CachePlan& plan) {
  double total = 0;
  for (const LayerPlan& layer : plan.layers) total += layer.bytes_per_token();
  return total;
}

/// Bytes of the states of a sequence, whatever its length.
std::int64_t state_bytes(const CachePlan& plan) {
  std::int64_t total = 0;
  for (const LayerPlan& layer : plan.layers) total += layer.state ? StateLayer::state_bytes(*layer.state) : 0;
  return total;
}

/// What a layer computes, as its shape tells.
std::string kind_of(const LayerPlan& layer, bool cross) {
  const bool convolution = layer.state && layer.state->sizes.size() == 1;
  const std::string state = convolution ? "convolution" : "recurrence";
  if (!layer.has_attention()) return state;
  const kernels::Visibility& sees = layer.retention.visibility();
  const bool latent = layer.layout.n_heads == 1 && layer.layout.key_dim > layer.layout.value_dim;
  const std::string attention = cross             ? "cross-attention"
                                : latent          ? "latent attention"
                                : sees.chunk > 0  ? "chunked attention"
                                : sees.window > 0 ? "sliding attention"
                                                  : "full attention";
  return layer.state ? attention + " beside a " + state : attention;
}

Json layer_facts(const LayerPlan& layer, const CachePlan& plan, bool is_static, bool cross) {
  Json facts = {{"kind", kind_of(layer, cross)}, {"growth", is_static ? "static" : "dynamic"}};
  if (layer.has_attention()) {
    facts.update({{"retention", layer.retention.name()},
                  {"codec", layer.codec_name()},
                  {"placement", layer.offloaded ? plan.offload_device : "device"},
                  {"heads", layer.layout.n_heads},
                  {"key_dim", layer.layout.key_dim},
                  {"value_dim", layer.layout.value_dim},
                  {"bytes_per_token", layer.bytes_per_token()}});
  }
  if (layer.n_readers > 0) facts["also_read_by"] = fmt::format("{} later layers", layer.n_readers);
  if (layer.codec) {
    facts["raw"] = mneme::name_of(layer.layout.format);
    facts["residual_length"] = layer.residual_blocks * kernels::kBlockTokens;
  }
  if (layer.state) {
    facts["states"] = layer.state->sizes;
    facts["state_bytes"] = StateLayer::state_bytes(*layer.state);
    facts["recorded_bytes_per_token"] = StateLayer::input_bytes(*layer.state) / kernels::kBlockTokens;
    facts["note"] = layer.has_attention() ? "codecs, windows and offloading are for keys and values, not for states"
                                          : "states alone: codecs, windows and offloading mean nothing here";
  }
  return facts;
}

/// Layers [first, end), as "2" or "2-5".
std::string run_of(std::int64_t first, std::int64_t end) {
  return end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
}

/// Layers that are alike, as "0-2, 4-6", in the order in which the first of them stand.
Json layer_groups(const CachePlan& plan, bool is_static, bool cross) {
  std::vector<std::pair<Json, std::string>> groups;
  for (std::size_t first = 0, last; first < plan.layers.size(); first = last) {
    const Json facts = layer_facts(plan.layers[first], plan, is_static, cross);
    for (last = first + 1; last < plan.layers.size(); ++last) {
      if (layer_facts(plan.layers[last], plan, is_static, cross) != facts) break;
    }
    const std::string run = run_of(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last));
    const auto known = std::ranges::find(groups, facts, &std::pair<Json, std::string>::first);
    if (known == groups.end()) {
      groups.emplace_back(facts, run);
    } else {
      known->second += ", " + run;
    }
  }
  Json result = Json::array();
  for (const auto& [facts, layers] : groups) {
    Json group = {{"layers", layers}};
    group.update(facts);
    result.push_back(std::move(group));
  }
  return result;
}

Json cache_plan(const CacheShape& shape, const CacheOptions& options, bool cross = false) {
  const CachePlan plan = plan_cache(shape, options);
  Json sizes = Json::object();
  for (const Kind& kind : kinds()) {
    try {
      sizes[kind.name] = bytes_per_token(plan_cache(shape, kind.options));
    } catch (const Error&) {
      // groups that these heads cannot have
    }
  }
  Json facts = {{"implementation", plan.implementation},
                {"plan", layer_groups(plan, options.max_cache_len.has_value(), cross)},
                {"block_tokens", kernels::kBlockTokens},
                {"bytes_per_token", std::move(sizes)}};
  if (const std::int64_t bytes = state_bytes(plan)) facts["state_bytes"] = bytes;
  return facts;
}

/// The layers behind the cache's own, which read what those hold.
void add_readers(const ModelConfig& config, Json& plan, std::int64_t n_cached) {
  if (n_cached >= config.num_hidden_layers) return;
  plan.push_back({{"layers", run_of(n_cached, config.num_hidden_layers)},
                  {"kind", "reads the keys and values of an earlier layer"},
                  {"bytes_per_token", 0}});
}

/// The longest text, unless positions have no end.
std::optional<std::int64_t> longest_of(const ModelConfig& config) {
  const std::int64_t longest = config.max_position_embeddings;
  return longest == INT32_MAX ? std::nullopt : std::optional(longest);
}

Json memory_facts(const InspectRequest& request, const GenerateOptions& cache, const ModelConfig& config) {
  const std::int64_t length = request.length.value_or(longest_of(config).value_or(4096));
  const MemoryEstimate bytes = estimate_memory(request.model.path, {.load = {.dtype = load_dtype_of(request.model)},
                                                                    .length = length,
                                                                    .batch_size = request.batch_size,
                                                                    .cache = cache});
  return {{"length", length},      {"batch_size", request.batch_size},         {"weights", bytes.weights},
          {"cache", bytes.cache},  {"cache_offloaded", bytes.cache_offloaded}, {"working", bytes.working},
          {"total", bytes.total()}};
}

/// Numbers of the config that say something.
Json model_facts(const ModelConfig& c) {
  Json facts = Json::object();
  const std::pair<const char*, std::int64_t> sizes[] = {{"vocab_size", c.vocab_size},
                                                        {"hidden_size", c.hidden_size},
                                                        {"intermediate_size", c.intermediate_size},
                                                        {"num_hidden_layers", c.num_hidden_layers},
                                                        {"num_attention_heads", c.num_attention_heads},
                                                        {"num_key_value_heads", c.num_key_value_heads},
                                                        {"head_dim", c.head_dim}};
  for (const auto& [key, value] : sizes) {
    if (value > 0) facts[key] = value;
  }
  if (const auto longest = longest_of(c)) facts["max_position_embeddings"] = *longest;
  return facts;
}

Json tokenizer_facts(const std::string& path) {
  try {
    const Tokenizer tokenizer = Tokenizer::from_pretrained(path);
    Json special = Json::object();
    for (const auto& [role, token] : tokenizer.special_tokens()) special[role] = token.text;
    return {{"vocab_size", tokenizer.vocab_size()},
            {"added_tokens", tokenizer.added_tokens().size()},
            {"special_tokens", std::move(special)},
            {"chat_template", tokenizer.chat_template() != nullptr}};
  } catch (const Error& error) {
    return {{"problem", error.what()}};  // a model without a tokenizer still takes ids
  }
}

Json machine() {
  Json available = Json::array();
  for (const kernels::Table* table : kernels::available()) available.push_back(table->name);
  return {{"instruction_set", kernels::active().name},
          {"instruction_sets", std::move(available)},
          {"threads", ThreadPool::global().size()}};
}

}  // namespace

Json inspect(const InspectRequest& request) {
  if (request.model.threads) ThreadPool::global().resize(*request.model.threads);
  const ModelConfig config = ModelConfig::from_pretrained(request.model.path);
  const Architecture& architecture = architecture_of(config.model_type);  // unknown: an error, not a page of zeros
  const Weights weights = Weights::open(request.model.path);
  const DType dtype = dtype_of(request.model).value_or(config.dtype);
  GenerateOptions cache = request.cache;
  cache.cache_config = cache_config_of(request.cache_config);
  cache.max_new_tokens = config.max_position_embeddings;
  const Json memory = memory_facts(request, cache, config);
  const CacheOptions cache_options = cache_options_of(resolve(cache, {}, 0, 1));
  Json result = {{"model",
                  {{"path", request.model.path},
                   {"architecture", config.model_type},
                   {"dtype", mneme::name_of(dtype)},
                   {"parameters", weights.n_elements()},
                   {"bytes", weights.n_bytes()}}}};
  result["model"].update(model_facts(config));
  const CacheShape shape = architecture.cache_shape(config, dtype, at::kCPU);
  result["cache"] = cache_plan(shape, cache_options);
  if (architecture.build_seq2seq) {
    result["cross_cache"] = cache_plan(cross_cache_shape_of(config, dtype, at::kCPU), cache_options, /*cross=*/true);
  } else {
    add_readers(config, result["cache"]["plan"], std::ssize(shape.layers));
  }
  result["memory"] = memory;
  result["tokenizer"] = tokenizer_facts(request.model.path);
  result["machine"] = machine();
  return result;
}

}  // namespace mneme::tasks
