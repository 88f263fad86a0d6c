#include "mneme/models/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/config_defaults.h"
#include "mneme/models/stored_tensor.h"

namespace mneme {
namespace {

const GgufFile::Tensor* find(const GgufFile& file, std::string_view name) {
  const auto it = std::ranges::find(file.tensors(), name, &GgufFile::Tensor::name);
  return it == file.tensors().end() ? nullptr : &*it;
}

/// Metadata below one architecture's prefix, e.g. "llama.".
class Section {
 public:
  Section(const GgufFile& file, const std::string& architecture) : file_(file), prefix_(architecture + ".") {}

  bool has(const char* key) const { return file_.metadata().contains(prefix_ + key); }

  std::int64_t integer(const char* key, std::int64_t fallback) const {
    return json_int(file_.metadata(), (prefix_ + key).c_str(), fallback, file_.name());
  }
  double real(const char* key, double fallback) const {
    return json_double(file_.metadata(), (prefix_ + key).c_str(), fallback, file_.name());
  }
  bool boolean(const char* key, bool fallback) const {
    return json_bool(file_.metadata(), (prefix_ + key).c_str(), fallback, file_.name());
  }
  const Json& value(const char* key) const {
    require(key);
    return file_.metadata().at(prefix_ + key);
  }
  std::string string(const char* key, const char* fallback) const {
    return json_string(file_.metadata(), (prefix_ + key).c_str(), fallback, file_.name());
  }
  void require(const char* key) const {
    check(has(key), ErrorKind::kCorruptData, "{}: the metadata key {}{} is missing", file_.name(), prefix_, key);
  }
  std::int64_t required_integer(const char* key) const {
    require(key);
    return integer(key, 0);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

/// What each rotary frequency is divided by under Llama 3's scaling.
std::vector<float> llama3_factors(const Json& rope, std::int64_t n) {
  const double theta = rope["rope_theta"], factor = rope["factor"], low = rope["low_freq_factor"];
  const double high = rope["high_freq_factor"], original = rope["original_max_position_embeddings"];
  std::vector<float> factors;
  for (std::int64_t i = 0; i < n; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(theta, static_cast<double>(i) / static_cast<double>(n));
    const double smooth = std::clamp((original / wavelength - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return factors;
}

/// All numbers of a vector of F32.
std::vector<float> numbers(const GgufFile& file, const GgufFile::Tensor& tensor) {
  check(tensor.type == 0 && tensor.shape.size() == 1, ErrorKind::kUnsupported, "{}: {} must be a vector of F32",
        file.name(), tensor.name);
  std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
  read_rows({.name = tensor.name, .shape = tensor.shape, .data = tensor.data, .row_order = {}}, 0, 1, values.data());
  return values;
}

/// Converters turn Llama 3's `rope_scaling` into a tensor of factors. The parameters behind it are known up to the
/// largest factor: all releases share the others, and the factors are held against them here.
Json llama3_from_factors(const GgufFile& file, const GgufFile::Tensor& tensor, double theta) {
  const std::vector<float> stored = numbers(file, tensor);
  const std::int64_t n = std::ssize(stored);
  const Json rope = {{"rope_type", "llama3"},
                     {"rope_theta", theta},
                     {"factor", static_cast<double>(*std::ranges::max_element(stored))},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 8192}};
  const bool equal = std::ranges::equal(stored, llama3_factors(rope, n), [](float a, float b) {
    return std::abs(a - b) <= 1e-5f * std::abs(b);  // float32 factors of a converter that works in float32
  });
  check(equal, ErrorKind::kUnsupported, "{}: the rotary factors in rope_freqs.weight are not those of Llama 3",
        file.name());
  return rope;
}

Json rope_parameters(const GgufFile& file, const Section& section) {
  const double theta = section.real("rope.freq_base", 10000.0);
  if (const auto* factors = find(file, "rope_freqs.weight")) return llama3_from_factors(file, *factors, theta);
  const std::string type = section.string("rope.scaling.type", "none");
  Json rope = {{"rope_type", type == "none" ? "default" : type}, {"rope_theta", theta}};
  const auto *longs = find(file, "rope_factors_long.weight"), *shorts = find(file, "rope_factors_short.weight");
  if (longs && shorts) {
    rope["rope_type"] = "longrope";
    rope["long_factor"] = numbers(file, *longs);
    rope["short_factor"] = numbers(file, *shorts);
    if (section.has("rope.scaling.attn_factor")) {
      rope["attention_factor"] = section.real("rope.scaling.attn_factor", 1.0);
    }
  }
  if (section.has("rope.scaling.factor")) rope["factor"] = section.real("rope.scaling.factor", 1.0);
  if (type == "yarn") {
    const std::pair<const char*, const char*> kKeys[] = {{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                                         {"rope.scaling.yarn_beta_slow", "beta_slow"},
                                                         {"rope.scaling.yarn_attn_factor", "attention_factor"}};
    for (const auto& [key, name] : kKeys) {
      if (section.has(key)) rope[name] = section.real(key, 1.0);
    }
  }
  if (section.has("rope.scaling.original_context_length")) {
    rope["original_max_position_embeddings"] = section.integer("rope.scaling.original_context_length", 0);
  }
  return rope;
}

std::int64_t head_dim(const GgufFile& file, const Section& section, std::int64_t hidden_size, std::int64_t n_heads) {
  check(n_heads > 0, ErrorKind::kCorruptData, "{}: attention.head_count is {}, it must be positive", file.name(),
        n_heads);
  const std::int64_t keys = section.integer("attention.key_length", hidden_size / n_heads);
  const std::int64_t values = section.integer("attention.value_length", keys);
  check(values == keys, ErrorKind::kUnsupported, "{}: heads with keys of {} and values of {} are not supported",
        file.name(), keys, values);
  return keys;
}

/// What Gemma's scores are divided by the root of: not in the file, another than the head size in the 27B models only.
std::int64_t query_scalar(const Json& config, std::int64_t layers_of_27b) {
  const bool is_27b = config["num_hidden_layers"] == layers_of_27b;
  return is_27b ? config["hidden_size"].get<std::int64_t>() / config["num_attention_heads"].get<std::int64_t>()
                : config["head_dim"].get<std::int64_t>();
}

/// Model types that config.json calls otherwise.
std::string model_type_of(const std::string& architecture) {
  if (architecture == "gemma3") return "gemma3_text";
  if (architecture == "qwen3moe") return "qwen3_moe";
  if (architecture == "gpt-oss") return "gpt_oss";
  return architecture;
}

/// The keys of a mixture of experts.
void add_experts(const Section& section, Json& config) {
  config["num_local_experts"] = section.required_integer("expert_count");
  config["num_experts_per_tok"] = section.required_integer("expert_used_count");
}

/// LFM2 lists key/value heads by layer, none for a convolution; one number holds for layers that all attend.
void add_lfm2_layers(const GgufFile& file, const Section& section, Json& config) {
  const Json& heads = section.value("attention.head_count_kv");
  if (!heads.is_array()) {
    config["num_key_value_heads"] = section.integer("attention.head_count_kv", 0);
    return;
  }
  check(heads.size() == config["num_hidden_layers"].get<std::size_t>(), ErrorKind::kCorruptData,
        "{}: attention.head_count_kv lists {} of {} layers", file.name(), heads.size(),
        config["num_hidden_layers"].get<std::int64_t>());
  std::int64_t n_kv_heads = 0;
  Json types = Json::array();
  for (const Json& entry : heads) {
    check(entry.is_number_integer() && entry >= 0 && (entry == 0 || n_kv_heads == 0 || entry == n_kv_heads),
          ErrorKind::kCorruptData,
          "{}: attention.head_count_kv must be one number, and 0 for convolutions; layer {} has another", file.name(),
          types.size());
    if (entry > 0) n_kv_heads = entry.get<std::int64_t>();
    types.push_back(entry > 0 ? "full_attention" : "conv");
  }
  config["layer_types"] = std::move(types);
  config["num_key_value_heads"] = n_kv_heads > 0 ? Json(n_kv_heads) : config["num_attention_heads"];
}

/// What one architecture has beside the keys that all have.
void add_own_keys(const GgufFile& file, const Section& section, const std::string& architecture, Json& config) {
  const std::int64_t window = section.integer("attention.sliding_window", 0);
  const auto number_or_null = [&](const char* key) { return section.has(key) ? Json(section.real(key, 0)) : Json(); };
  if (architecture == "llama") {
    config["attention_bias"] = find(file, "blk.0.attn_q.bias") != nullptr;
    // Mistral's models are written as "llama"; the window is what tells them apart.
    if (window > 0) config["model_type"] = "mistral", config["sliding_window"] = window;
  } else if (architecture == "phi3") {
    config["sliding_window"] = window > 0 ? Json(window) : Json();
  } else if (architecture == "gemma2" || architecture == "gemma3") {
    if (window > 0) config["sliding_window"] = window;
    config["attn_logit_softcapping"] = number_or_null("attn_logit_softcapping");
    config["final_logit_softcapping"] = number_or_null("final_logit_softcapping");
    if (section.has("rope.freq_base_swa")) config["rope_local_base_freq"] = section.real("rope.freq_base_swa", 0);
    config["query_pre_attn_scalar"] = query_scalar(config, architecture == "gemma2" ? 46 : 62);
  } else if (architecture == "qwen3moe") {
    add_experts(section, config);
    config["moe_intermediate_size"] = section.required_integer("expert_feed_forward_length");
    config["norm_topk_prob"] = true;
  } else if (architecture == "gpt-oss") {
    add_experts(section, config);
    config["intermediate_size"] = section.required_integer("expert_feed_forward_length");
    if (window > 0) config["sliding_window"] = window;
    config["rope_parameters"]["truncate"] = false;
  } else if (architecture == "lfm2") {
    config["conv_L_cache"] = section.required_integer("shortconv.l_cache");
    config["block_auto_adjust_ff_dim"] = false;  // the file says what came of it
  }
}

/// What attention and the network after it are made of.
void add_attention(const GgufFile& file, const Section& section, const std::string& architecture, Json& config) {
  config["intermediate_size"] = section.required_integer("feed_forward_length");
  config["num_attention_heads"] = section.required_integer("attention.head_count");
  if (architecture == "lfm2") {
    add_lfm2_layers(file, section, config);
  } else {
    config["num_key_value_heads"] = section.integer("attention.head_count_kv", config["num_attention_heads"]);
  }
  config["head_dim"] = head_dim(file, section, config["hidden_size"], config["num_attention_heads"]);
  config["max_position_embeddings"] = section.required_integer("context_length");
  config["rope_parameters"] = rope_parameters(file, section);
  // Phi-3's default beside the parameters would outweigh what is among them.
  const auto original = config["rope_parameters"].find("original_max_position_embeddings");
  if (original != config["rope_parameters"].end()) config["original_max_position_embeddings"] = *original;
  const std::int64_t head = config["head_dim"], rotated = section.integer("rope.dimension_count", head);
  if (rotated == head) return;
  check(rotated > 0 && rotated < head, ErrorKind::kCorruptData, "{}: {} numbers of a head of {} cannot be rotated",
        file.name(), rotated, head);
  // Converters put the rows of Llama's heads into an order that is known for whole heads only.
  check(architecture != "llama", ErrorKind::kUnsupported,
        "{}: heads of {} of which only {} are rotated are not supported", file.name(), head, rotated);
  config["rope_parameters"]["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head);
}

/// Mamba has no positions: its context length is a number that converters make up.
void add_recurrence(const GgufFile& file, const Section& section, Json& config) {
  check(!section.boolean("ssm.dt_b_c_rms", false), ErrorKind::kUnsupported,
        "{}: time steps, B and C that are normalized (Falcon Mamba) are not supported", file.name());
  config["intermediate_size"] = section.required_integer("ssm.inner_size");
  config["state_size"] = section.required_integer("ssm.state_size");
  config["conv_kernel"] = section.required_integer("ssm.conv_kernel");
  config["time_step_rank"] = section.required_integer("ssm.time_step_rank");
  config["use_conv_bias"] = find(file, "blk.0.ssm_conv1d.bias") != nullptr;
  config["layer_norm_epsilon"] = config["rms_norm_eps"];
}

/// The end of a turn ends generation as the end of the text does.
Json end_tokens(const GgufFile& file) {
  std::vector<std::int64_t> ids;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::int64_t id = json_int(file.metadata(), key, -1, file.name());
    if (id >= 0 && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

Json token(const GgufFile& file, const char* key) {
  const std::int64_t id = json_int(file.metadata(), key, -1, file.name());
  return id < 0 ? Json() : Json(id);
}

}  // namespace

Json config_from_gguf(const GgufFile& file) {
  const std::string architecture = json_string(file.metadata(), "general.architecture", "", file.name());
  const std::string model_type = model_type_of(architecture);
  if (config_defaults(model_type).empty()) return {{"model_type", model_type}};
  const Section section(file, architecture);
  const std::int64_t experts = section.integer("expert_count", 0);
  check(experts == 0 || architecture == "qwen3moe" || architecture == "gpt-oss", ErrorKind::kUnsupported,
        "{}: {} experts in a layer are not supported for {}", file.name(), experts, architecture);
  const auto* embedding = find(file, "token_embd.weight");
  check(embedding && !embedding->shape.empty(), ErrorKind::kCorruptData, "{}: the tensor token_embd.weight is missing",
        file.name());
  section.require("attention.layer_norm_rms_epsilon");

  Json config = {{"model_type", model_type}, {"dtype", "bfloat16"}};
  config["vocab_size"] = embedding->shape.front();
  config["hidden_size"] = section.required_integer("embedding_length");
  config["num_hidden_layers"] = section.required_integer("block_count");
  config["rms_norm_eps"] = section.real("attention.layer_norm_rms_epsilon", 0);
  config["tie_word_embeddings"] = find(file, "output.weight") == nullptr;
  if (architecture == "mamba") {
    add_recurrence(file, section, config);
  } else {
    add_attention(file, section, architecture, config);
    add_own_keys(file, section, architecture, config);
  }
  config["bos_token_id"] = token(file, "tokenizer.ggml.bos_token_id");
  config["pad_token_id"] = token(file, "tokenizer.ggml.padding_token_id");
  config["eos_token_id"] = end_tokens(file);
  return config;
}

}  // namespace mneme
