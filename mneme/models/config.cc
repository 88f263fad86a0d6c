#include "mneme/models/config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "mneme/base/error.h"
#include "mneme/base/gguf_file.h"
#include "mneme/base/printable.h"
#include "mneme/models/config_defaults.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/gguf_config.h"
#include "mneme/models/layer_types.h"
#include "mneme/models/rope_reading.h"

namespace mneme {
namespace {

constexpr std::int64_t kMaxLayers = 65536;
constexpr std::int64_t kMaxHeadDim = 65536;  // frequencies are computed before weights are held against it

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

std::int64_t quotient(std::int64_t value, std::int64_t divisor, const char* what, const std::string& file) {
  check(value % divisor == 0, ErrorKind::kCorruptData, "{}: {} do not divide: {} by {}", file, what, value, divisor);
  return value / divisor;
}

/// A size that may be 0.
std::int64_t non_negative(const Json& row, const char* key, const std::string& file) {
  const std::int64_t value = json_int(row, key, 0, file);
  check(value >= 0 && value <= ConfigKeys::kMaxSize, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be 0 to {}",
        file, key, value, ConfigKeys::kMaxSize);
  return value;
}

/// Heads, what each layer sees, positions. `json` is the whole file.
void read_attention(const ConfigKeys& keys, const Json& json, ModelConfig& config) {
  config.num_attention_heads = keys.size("num_attention_heads");
  check(config.num_attention_heads > 0, ErrorKind::kCorruptData, "{}: \"{}\" must not be null", keys.file,
        keys.spelled("num_attention_heads"));
  config.num_key_value_heads = keys.size("num_key_value_heads", config.num_attention_heads);
  quotient(config.num_attention_heads, config.num_key_value_heads, "attention heads and key/value heads", keys.file);
  config.head_dim = keys.has("head_dim") ? keys.size("head_dim", 0, kMaxHeadDim)
                                         : quotient(config.hidden_size, config.num_attention_heads,
                                                    "hidden size and attention heads", keys.file);
  plan_layers(keys, config);
  read_rope(keys, json, config);
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

  const ConfigKeys keys{row, name, config_aliases(config.model_type)};
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
  check(config.intermediate_size <= ConfigKeys::kMaxSize, ErrorKind::kCorruptData,
        "{}: \"expand\" makes an inner width of {}, at most {} is possible", name, config.intermediate_size,
        ConfigKeys::kMaxSize);
  config.rms_norm_eps = keys.positive("rms_norm_eps", config.rms_norm_eps);
  config.hidden_act = json_string(row, keys.spelled("hidden_act"), config.hidden_act, name);
  config.tie_word_embeddings = json_bool(row, "tie_word_embeddings", false, name);
  config.attention_bias = json_bool(row, "attention_bias", false, name);
  config.learned_positions = json_bool(row, "learned_positions", false, name);
  config.mlp_bias = json_bool(row, "mlp_bias", false, name);
  config.hidden_size_per_layer_input = non_negative(row, "hidden_size_per_layer_input", name);
  config.bos_token_id = keys.token("bos_token_id");
  config.pad_token_id = keys.token("pad_token_id");
  config.eos_token_id = keys.tokens("eos_token_id");
  if (row.contains(keys.spelled("num_attention_heads"))) read_attention(keys, json, config);
  config.dtype = dtype_from(json, name);
  return config;
}

}  // namespace mneme
