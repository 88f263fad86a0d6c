#include "mneme/cache/cache_file.h"

#include <cstring>

#include "mneme/base/checksum.h"
#include "mneme/base/error.h"
#include "mneme/base/json.h"

namespace mneme {
namespace {

constexpr const char* kFormat = "mneme cache";
constexpr std::int64_t kVersion = 3;
/// Changes with every change of what a block's bits are made from.
constexpr const char* kArithmetic = "products of codes, running softmax over spans of 8";

const std::string& string_at(const SafetensorsFile& file, const char* key) {
  const auto it = file.metadata().find(key);
  check(it != file.metadata().end(), ErrorKind::kCorruptData, "{}: not a saved cache, its header has no \"{}\"",
        file.name(), key);
  return it->second;
}

Json to_json(const Retention& retention) {
  const kernels::Visibility& v = retention.visibility();
  return {{"window", v.window}, {"chunk", v.chunk}, {"sinks", v.sinks}};
}

Retention retention_from(const Json& json, const std::string& name) {
  const std::int64_t window = json_int(json, "window", 0, name), chunk = json_int(json, "chunk", 0, name),
                     sinks = json_int(json, "sinks", 0, name);
  if (chunk) return Retention::chunk(chunk);
  if (!window) return Retention::all();
  return sinks ? Retention::sinks_and_last(sinks, window) : Retention::last(window);
}

Json to_json(const CacheShape& shape) {
  Json layers = Json::array();
  for (const LayerShape& layer : shape.layers) {
    layers.push_back({{"retention", to_json(layer.retention)},
                      {"n_heads", layer.n_heads},
                      {"key_dim", layer.key_dim},
                      {"value_dim", layer.value_dim}});
    if (layer.state)
      layers.back()["state"] = {{"sizes", layer.state->sizes}, {"input_width", layer.state->input_width}};
  }
  return {{"dtype", name_of(shape.dtype)}, {"layers", std::move(layers)}};
}

DType dtype_from(const std::string& name, const std::string& file) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw Error(ErrorKind::kCorruptData, "{}: there is no dtype \"{}\"", file, name);
}

StateShape state_from(const Json& json, const std::string& name) {
  check(json.is_object() && json.contains("sizes") && json["sizes"].is_array(), ErrorKind::kCorruptData,
        "{}: the states of a layer have no \"sizes\"", name);
  StateShape shape{.sizes = {}, .input_width = json_int(json, "input_width", 0, name)};
  for (const Json& size : json["sizes"]) {
    check(size.is_number_integer(), ErrorKind::kCorruptData, "{}: the size of a state is no integer", name);
    shape.sizes.push_back(json_int({{"size", size}}, "size", 0, name));
  }
  return shape;
}

CacheShape shape_from(const Json& json, const std::string& name) {
  check(json.is_object() && json.contains("layers") && json["layers"].is_array(), ErrorKind::kCorruptData,
        "{}: the shape of the cache is not an object with \"layers\"", name);
  CacheShape shape{.layers = {}, .dtype = dtype_from(json_string(json, "dtype", "", name), name)};
  for (const Json& layer : json["layers"]) {
    check(layer.is_object() && layer.contains("retention") && layer["retention"].is_object(), ErrorKind::kCorruptData,
          "{}: a layer of the cache has no \"retention\"", name);
    shape.layers.push_back({.retention = retention_from(layer["retention"], name),
                            .n_heads = json_int(layer, "n_heads", 0, name),
                            .key_dim = json_int(layer, "key_dim", 0, name),
                            .value_dim = json_int(layer, "value_dim", 0, name)});
    if (layer.contains("state")) shape.layers.back().state = state_from(layer["state"], name);
  }
  return shape;
}

Json to_json(const CacheOptions& options) {
  Json json = {{"quantized", options.quantized}, {"cache_config", to_json(options.config)}};
  if (options.max_cache_len) json["max_cache_len"] = *options.max_cache_len;
  if (options.max_batch_size) json["max_batch_size"] = *options.max_batch_size;
  if (options.dtype) json["dtype"] = name_of(*options.dtype);
  return json;
}

CacheOptions options_from(const Json& json, const std::string& name) {
  check(json.is_object(), ErrorKind::kCorruptData, "{}: the options of the cache are not an object", name);
  CacheOptions options{.quantized = json_bool(json, "quantized", false, name)};
  if (json.contains("cache_config")) options.config = CacheConfig::from_json(json["cache_config"]);
  if (json.contains("max_cache_len")) options.max_cache_len = json_int(json, "max_cache_len", 0, name);
  if (json.contains("max_batch_size")) options.max_batch_size = json_int(json, "max_batch_size", 0, name);
  if (json.contains("dtype")) options.dtype = dtype_from(json_string(json, "dtype", "", name), name);
  return options;
}

}  // namespace

std::map<std::string, std::string> cache_file_metadata(const CacheFileInfo& info) {
  return {{"format", kFormat},
          {"version", std::to_string(kVersion)},
          {"arithmetic", kArithmetic},
          {"shape", to_json(info.shape).dump()},
          {"options", to_json(info.options).dump()},
          {"recording", info.recording ? "true" : "false"},
          {"model", info.model}};
}

std::string cache_file_checksum(const std::map<std::string, std::string>& metadata, const CacheFileLists& lists) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != "checksum") text += fmt::format("{}:{}={}:{};", key.size(), key, value.size(), value);
  }
  for (const auto& [name, bytes] : lists) text += fmt::format("{}:{}={};", name.size(), name, checksum(bytes));
  return std::to_string(checksum(std::as_bytes(std::span(text))));
}

CacheFileInfo CacheFileInfo::read(const std::string& path) { return read(SafetensorsFile(path)); }

CacheFileInfo CacheFileInfo::read(const SafetensorsFile& file) {
  const std::string& name = file.name();
  check(string_at(file, "format") == kFormat, ErrorKind::kCorruptData, "{}: a file of format \"{}\", not a saved cache",
        name, string_at(file, "format"));
  const std::string& version = string_at(file, "version");
  check(version == std::to_string(kVersion), ErrorKind::kUnsupported,
        "{}: a saved cache of version {}, this program reads version {}; save it again with this program", name,
        version, kVersion);
  check(string_at(file, "arithmetic") == kArithmetic, ErrorKind::kUnsupported,
        "{}: made by another arithmetic (\"{}\", here it is \"{}\"): its numbers would not equal those of a run here; "
        "compute it again",
        name, string_at(file, "arithmetic"), kArithmetic);
  CacheFileLists lists;
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (tensor.dtype == "I64" && !tensor.name.ends_with(".checksums")) lists[tensor.name] = tensor.data;
  }
  check(string_at(file, "checksum") == cache_file_checksum(file.metadata(), lists), ErrorKind::kCorruptData,
        "{}: its header or its lists are damaged: their checksum is another", name);
  CacheFileInfo info{.shape = shape_from(parse_json(string_at(file, "shape"), name), name),
                     .options = options_from(parse_json(string_at(file, "options"), name), name),
                     .recording = string_at(file, "recording") == "true",
                     .model = string_at(file, "model"),
                     .token_ids = {}};
  for (const SafetensorsFile::Tensor& tensor : file.tensors()) {
    if (tensor.name != "token_ids." + std::to_string(info.token_ids.size())) continue;
    check(tensor.dtype == "I64" && tensor.shape.size() == 1, ErrorKind::kCorruptData,
          "{}: {} must be a list of I64, it is {} with {} dimensions", name, tensor.name, tensor.dtype,
          tensor.shape.size());
    std::vector<std::int64_t>& ids = info.token_ids.emplace_back(tensor.data.size() / sizeof(std::int64_t));
    if (!ids.empty()) std::memcpy(ids.data(), tensor.data.data(), tensor.data.size());
  }
  return info;
}

}  // namespace mneme
