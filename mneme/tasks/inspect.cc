#include "mneme/tasks/inspect.h"

#include <filesystem>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/cache/plan.h"
#include "mneme/kernels/kernels.h"
#include "mneme/models/registry.h"
#include "mneme/models/weights.h"
#include "mneme/tasks/loaded.h"
#include "mneme/text/tokenizer.h"

namespace mneme::tasks {
namespace {

constexpr std::array kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

std::int64_t bytes_per_token(const LayerShape& layer, DType dtype) {
  return raw_layout(dtype, layer.n_heads, layer.key_dim, layer.value_dim).block_bytes() / kernels::kBlockTokens;
}

std::int64_t bytes_per_token(const CacheShape& shape, DType dtype) {
  std::int64_t total = 0;
  for (const LayerShape& layer : shape.layers) total += bytes_per_token(layer, dtype);
  return total;
}

/// Runs of layers that are alike, as "0-29".
Json layer_groups(const CacheShape& shape) {
  Json groups = Json::array();
  for (std::size_t first = 0, last; first < shape.layers.size(); first = last) {
    const LayerShape& layer = shape.layers[first];
    for (last = first + 1; last < shape.layers.size(); ++last) {
      const LayerShape& next = shape.layers[last];
      if (!(next.retention == layer.retention && next.n_heads == layer.n_heads && next.key_dim == layer.key_dim &&
            next.value_dim == layer.value_dim))
        break;
    }
    groups.push_back({{"layers", last - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, last - 1)},
                      {"retention", layer.retention.name()},
                      {"codec", mneme::name_of(shape.dtype)},
                      {"heads", layer.n_heads},
                      {"key_dim", layer.key_dim},
                      {"value_dim", layer.value_dim},
                      {"bytes_per_token", bytes_per_token(layer, shape.dtype)}});
  }
  return groups;
}

Json cache_plan(const CacheShape& shape) {
  Json kinds = Json::object();
  for (const DType dtype : kDTypes) kinds[std::string(mneme::name_of(dtype))] = bytes_per_token(shape, dtype);
  return {{"plan", layer_groups(shape)},
          {"growth", {"dynamic", "static"}},
          {"block_tokens", kernels::kBlockTokens},
          {"bytes_per_token", std::move(kinds)}};
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
  architecture_of(config.model_type);  // an unknown one is an error, not a page of zeros
  const Weights weights = Weights::open(request.model.path);
  const DType dtype = dtype_of(request.model).value_or(config.dtype);
  return {{"model",
           {{"path", request.model.path},
            {"architecture", config.model_type},
            {"dtype", mneme::name_of(dtype)},
            {"parameters", weights.n_elements()},
            {"bytes", weights.n_bytes()},
            {"vocab_size", config.vocab_size},
            {"hidden_size", config.hidden_size},
            {"intermediate_size", config.intermediate_size},
            {"num_hidden_layers", config.num_hidden_layers},
            {"num_attention_heads", config.num_attention_heads},
            {"num_key_value_heads", config.num_key_value_heads},
            {"head_dim", config.head_dim},
            {"max_position_embeddings", config.max_position_embeddings}}},
          {"cache", cache_plan(cache_shape_of(config, dtype, at::kCPU))},
          {"tokenizer", tokenizer_facts(request.model.path)},
          {"machine", machine()}};
}

}  // namespace mneme::tasks
