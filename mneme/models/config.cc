#include "mneme/models/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "mneme/base/error.h"
#include "mneme/base/gguf_file.h"
#include "mneme/base/printable.h"
#include "mneme/models/config_defaults.h"
#include "mneme/models/gguf_config.h"

namespace mneme {
namespace {

constexpr std::int64_t kMaxSize = INT32_MAX;
constexpr std::int64_t kMaxLayers = 65536;
constexpr std::int64_t kMaxHeadDim = 65536;  // frequencies are computed before weights are held against it

/// The keys of one object, with checks that say which key of which file is wrong. A key may stand under another name.
struct Keys {
  const Json& json;
  const std::string& file;
  const Json& aliases = config_aliases("");

  /// What the file calls a key.
  const char* spelled(const char* key) const {
    const auto names = aliases.find(key);
    if (names == aliases.end()) return key;
    const std::string* name = nullptr;
    for (const Json& candidate : *names) {
      name = &candidate.get_ref<const std::string&>();
      if (const auto it = json.find(*name); it != json.end() && !it->is_null()) break;
    }
    return name->c_str();
  }

  bool has(const char* key) const {
    const auto it = json.find(spelled(key));
    return it != json.end() && !it->is_null();
  }

  /// 1 to `max`; `fallback` (which need not be positive) if the key is missing or null.
  std::int64_t size(const char* key, std::int64_t fallback = 0, std::int64_t max = kMaxSize) const {
    const std::int64_t value = json_int(json, spelled(key), fallback, file);
    check(!has(key) || (value > 0 && value <= max), ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be 1 to {}",
          file, spelled(key), value, max);
    return value;
  }

  double positive(const char* key, double fallback) const {
    const double value = json_double(json, spelled(key), fallback, file);
    check(std::isfinite(value) && value > 0, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be positive", file,
          spelled(key), value);
    return value;
  }

  /// A token id; a negative one means "none", as older files write it.
  std::optional<std::int64_t> token(const char* key) const {
    const std::int64_t id = json_int(json, key, -1, file);
    check(id <= kMaxSize, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be less than 2^31", file, key, id);
    return id < 0 ? std::nullopt : std::optional(id);
  }

  /// One id or a list of ids.
  std::vector<std::int64_t> tokens(const char* key) const {
    const auto it = json.find(key);
    std::vector<std::int64_t> ids;
    if (it != json.end() && it->is_array()) {
      for (const Json& item : *it) {
        // Ids that came from GGUF metadata are signed, those that came from text are not.
        check(item.is_number_integer() && item >= 0 && item <= kMaxSize, ErrorKind::kCorruptData,
              "{}: \"{}\" holds something that is not a token id", file, key);
        ids.push_back(item.get<std::int64_t>());
      }
    } else if (const auto id = token(key)) {
      ids.push_back(*id);
    }
    return ids;
  }
};

DType dtype_from(const Json& json, const std::string& file) {
  const std::string older = json_string(json, "torch_dtype", "float32", file);
  std::string name = json_string(json, "dtype", older, file);
  if (name.starts_with("torch.")) name.erase(0, 6);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw Error(ErrorKind::kUnsupported, "{}: the dtype \"{}\" is not supported; use float32, bfloat16 or float16", file,
              printable(name));
}

/// Parity: as transformers standardizes it, `rope_scaling` goes before `rope_parameters`, and the base may lie beside
/// either or within.
RopeConfig rope_from(const Json& json, std::int64_t max_position_embeddings, const std::string& file) {
  const Json none = Json::object();
  const Json* object = &none;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null() || it->empty()) continue;
    check(it->is_object(), ErrorKind::kCorruptData, "{}: \"{}\" must be an object, it is {}", file, key,
          it->type_name());
    object = &*it;
  }
  const bool by_layer_type = std::ranges::any_of(*object, [](const Json& value) { return value.is_object(); });
  check(!by_layer_type, ErrorKind::kUnsupported, "{}: rotary parameters for each layer type are not supported", file);

  const Keys keys{*object, file};
  RopeConfig rope;
  rope.rope_type = json_string(*object, "rope_type", json_string(*object, "type", "default", file), file);
  rope.rope_theta = keys.positive("rope_theta", Keys{json, file}.positive("rope_theta", rope.rope_theta));
  rope.factor = keys.positive("factor", rope.factor);
  rope.low_freq_factor = keys.positive("low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = keys.positive("high_freq_factor", rope.high_freq_factor);
  rope.original_max_position_embeddings = keys.size("original_max_position_embeddings", max_position_embeddings);

  const auto require = [&](const char* key) {
    check(keys.has(key), ErrorKind::kCorruptData, "{}: rotary embedding of type {} needs \"{}\"", file, rope.rope_type,
          key);
  };
  if (rope.rope_type == "linear" || rope.rope_type == "llama3") require("factor");
  if (rope.rope_type == "llama3") {
    require("low_freq_factor");
    require("high_freq_factor");
    check(rope.low_freq_factor < rope.high_freq_factor, ErrorKind::kCorruptData,
          "{}: \"low_freq_factor\" {} must be less than \"high_freq_factor\" {}", file, rope.low_freq_factor,
          rope.high_freq_factor);
  }
  const double part = keys.positive("partial_rotary_factor", Keys{json, file}.positive("partial_rotary_factor", 1.0));
  check(part == 1.0, ErrorKind::kUnsupported, "{}: \"partial_rotary_factor\" is {}, only 1 is supported", file, part);
  return rope;
}

LayerType layer_type_from(const Json& json, const std::string& file) {
  check(json.is_string(), ErrorKind::kCorruptData, "{}: \"layer_types\" holds something that is not a string", file);
  const auto& name = json.get_ref<const std::string&>();
  if (name == "full_attention") return LayerType::kFullAttention;
  if (name == "sliding_attention") return LayerType::kSlidingAttention;
  if (name == "chunked_attention") return LayerType::kChunkedAttention;
  throw Error(ErrorKind::kUnsupported, "{}: the layer type \"{}\" is not supported", file, printable(name));
}

/// Either listed, or: with a window, the layers from `max_window_layers` on slide (all of them without that key).
void plan_layers(const Keys& keys, ModelConfig& config) {
  std::optional<std::int64_t> window, chunk;
  if (keys.has("sliding_window") && json_bool(keys.json, "use_sliding_window", true, keys.file)) {
    window = keys.size("sliding_window");
  }
  if (keys.has("attention_chunk_size")) chunk = keys.size("attention_chunk_size");

  if (keys.has("layer_types")) {
    const Json& types = keys.json.at("layer_types");
    check(types.is_array() && types.size() == static_cast<std::size_t>(config.num_hidden_layers),
          ErrorKind::kCorruptData, "{}: \"layer_types\" must list {} layers, it has {}", keys.file,
          config.num_hidden_layers, types.size());
    for (const Json& type : types) config.layer_types.push_back(layer_type_from(type, keys.file));
  } else {
    const std::int64_t first_sliding = json_int(keys.json, "max_window_layers", 0, keys.file);
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      config.layer_types.push_back(window && i >= first_sliding ? LayerType::kSlidingAttention
                                                                : LayerType::kFullAttention);
    }
  }

  const auto any = [&](LayerType type) { return std::ranges::count(config.layer_types, type) > 0; };
  if (any(LayerType::kSlidingAttention)) {
    check(window.has_value(), ErrorKind::kCorruptData, "{}: layers slide, but there is no \"sliding_window\"",
          keys.file);
    config.sliding_window = window;
  }
  if (any(LayerType::kChunkedAttention)) {
    check(chunk.has_value(), ErrorKind::kCorruptData,
          "{}: layers are chunked, but there is no \"attention_chunk_size\"", keys.file);
    config.attention_chunk_size = chunk;
  }
}

std::int64_t quotient(std::int64_t value, std::int64_t divisor, const char* what, const std::string& file) {
  check(value % divisor == 0, ErrorKind::kCorruptData, "{}: {} do not divide: {} by {}", file, what, value, divisor);
  return value / divisor;
}

/// Heads, what each layer sees, rotary embedding. `json` is the whole file.
void read_attention(const Keys& keys, const Json& json, ModelConfig& config) {
  config.num_attention_heads = keys.size("num_attention_heads");
  check(config.num_attention_heads > 0, ErrorKind::kCorruptData, "{}: \"{}\" must not be null", keys.file,
        keys.spelled("num_attention_heads"));
  config.num_key_value_heads = keys.size("num_key_value_heads", config.num_attention_heads);
  quotient(config.num_attention_heads, config.num_key_value_heads, "attention heads and key/value heads", keys.file);
  config.head_dim = keys.has("head_dim") ? keys.size("head_dim", 0, kMaxHeadDim)
                                         : quotient(config.hidden_size, config.num_attention_heads,
                                                    "hidden size and attention heads", keys.file);
  plan_layers(keys, config);
  config.rope = rope_from(json, config.max_position_embeddings, keys.file);
}

}  // namespace

ModelConfig ModelConfig::from_pretrained(const std::string& path) {
  std::error_code ignored;
  if (path.ends_with(".gguf") && !std::filesystem::is_directory(path, ignored)) {
    return from_json(config_from_gguf(GgufFile(path)), path);
  }
  check(std::filesystem::is_directory(path, ignored) || (!path.empty() && !std::filesystem::exists(path, ignored)),
        ErrorKind::kInvalidArgument,
        "\"{}\" is neither a model folder nor a .gguf file; give the folder that holds config.json", path);
  ModelConfig config = from_json(read_json_file(path + "/config.json"), path + "/config.json");
  config.name = path;
  return config;
}

ModelConfig ModelConfig::from_json(const Json& json, const std::string& name) {
  check(json.is_object(), ErrorKind::kCorruptData, "{}: the configuration is not a JSON object", name);
  ModelConfig config;
  config.name = name;
  config.model_type = json_string(json, "model_type", "", name);
  check(!config.model_type.empty(), ErrorKind::kCorruptData, "{}: there is no \"model_type\"", name);
  config.raw = json;
  const Json& defaults = config_defaults(config.model_type);
  if (defaults.empty()) return config;

  Json row = defaults;  // the keys that this model type knows; a null in the file is a value, as in Python
  for (auto& [key, value] : row.items()) {
    if (const auto it = json.find(key); it != json.end()) {
      value = *it;
    } else {
      config.raw[key] = value;
    }
  }

  const Keys keys{row, name, config_aliases(config.model_type)};
  config.vocab_size = keys.size("vocab_size");
  config.hidden_size = keys.size("hidden_size");
  // A type with `expand` has its inner width from it, unless the file says one.
  config.intermediate_size = keys.size("intermediate_size", keys.size("expand") * config.hidden_size);
  config.num_hidden_layers = keys.size("num_hidden_layers", 0, kMaxLayers);
  config.max_position_embeddings = keys.size("max_position_embeddings");
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"}) {
    check(keys.has(key), ErrorKind::kCorruptData, "{}: \"{}\" must not be null", name, keys.spelled(key));
  }
  check(config.intermediate_size > 0, ErrorKind::kCorruptData, "{}: \"intermediate_size\" must not be null", name);
  check(config.intermediate_size <= kMaxSize, ErrorKind::kCorruptData,
        "{}: \"expand\" makes an inner width of {}, at most {} is possible", name, config.intermediate_size, kMaxSize);
  config.rms_norm_eps = keys.positive("rms_norm_eps", config.rms_norm_eps);
  config.hidden_act = json_string(row, "hidden_act", config.hidden_act, name);
  config.tie_word_embeddings = json_bool(row, "tie_word_embeddings", false, name);
  config.attention_bias = json_bool(row, "attention_bias", false, name);
  config.mlp_bias = json_bool(row, "mlp_bias", false, name);
  config.bos_token_id = keys.token("bos_token_id");
  config.pad_token_id = keys.token("pad_token_id");
  config.eos_token_id = keys.tokens("eos_token_id");
  if (row.contains(keys.spelled("num_attention_heads"))) read_attention(keys, json, config);
  config.dtype = dtype_from(json, name);
  return config;
}

}  // namespace mneme
