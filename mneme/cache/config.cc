#include "mneme/cache/config.h"

#include <fmt/ranges.h>

#include <charconv>
#include <functional>
#include <map>

#include "mneme/base/error.h"

namespace mneme {
namespace {

using Read = std::function<void(const std::string& key, const Json& value)>;
using Readers = std::map<std::string, Read>;

Read number(std::optional<std::int64_t>& to) {
  return [&to](const std::string& key, const Json& value) {
    check(value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX),
          ErrorKind::kInvalidArgument, "cache_config: {} must be a whole number, it is {}", key, value.dump());
    to = value.get<std::int64_t>();
  };
}

Read flag(std::optional<bool>& to) {
  return [&to](const std::string& key, const Json& value) {
    check(value.is_boolean(), ErrorKind::kInvalidArgument, "cache_config: {} must be true or false, it is {}", key,
          value.dump());
    to = value.get<bool>();
  };
}

Read text(std::optional<std::string>& to) {
  return [&to](const std::string& key, const Json& value) {
    check(value.is_string(), ErrorKind::kInvalidArgument, "cache_config: {} must be a string, it is {}", key,
          value.dump());
    to = value.get<std::string>();
  };
}

void read_all(const std::string& where, const Json& json, const Readers& readers) {
  check(json.is_object(), ErrorKind::kInvalidArgument, "{} must be a JSON object, it is {}", where, json.dump());
  for (const auto& [key, value] : json.items()) {
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::vector<std::string> known;
      for (const auto& [name, read] : readers) known.push_back(name);
      throw Error(ErrorKind::kInvalidArgument, "{}: there is no key \"{}\"; there are {}", where, key,
                  fmt::join(known, ", "));
    }
    if (!value.is_null()) reader->second(key, value);
  }
}

/// "4" or "4-7".
LayerBits layer_range(const std::string& name) {
  LayerBits layers;
  const char *at = name.data(), *const end = name.data() + name.size();
  auto [after, error] = std::from_chars(at, end, layers.first);
  layers.last = layers.first;
  if (error == std::errc() && after != end && *after == '-')
    std::tie(after, error) = [&] {
      const auto result = std::from_chars(after + 1, end, layers.last);
      return std::pair(result.ptr, result.ec);
    }();
  check(error == std::errc() && after == end && layers.first >= 0 && layers.last >= layers.first,
        ErrorKind::kInvalidArgument, "cache_config: layers names \"{}\"; give a layer as \"4\" or a run as \"4-7\"",
        name);
  return layers;
}

Read layer_table(std::vector<LayerBits>& to) {
  return [&to](const std::string& key, const Json& value) {
    check(value.is_object(), ErrorKind::kInvalidArgument,
          "cache_config: {} must be an object such as {{\"0\": {{\"nbits\": 8}}}}, it is {}", key, value.dump());
    for (const auto& [name, bits] : value.items()) {
      LayerBits layers = layer_range(name);
      read_all("cache_config: layers " + name, bits,
               {{"nbits", number(layers.bits.nbits)},
                {"nbits_key", number(layers.bits.nbits_key)},
                {"nbits_value", number(layers.bits.nbits_value)}});
      for (const LayerBits& other : to) {
        check(layers.first > other.last || layers.last < other.first, ErrorKind::kInvalidArgument,
              "cache_config: layers {}-{} and {}-{} have layers in common; name each once", other.first, other.last,
              layers.first, layers.last);
      }
      to.push_back(std::move(layers));
    }
  };
}

}  // namespace

bool names_codec(const CacheConfig& c) {
  return c.backend || c.nbits || c.nbits_key || c.nbits_value || c.axis_key || c.axis_value || c.q_group_size ||
         c.residual_length || c.sink_length || c.rotate_values || !c.layers.empty();
}

CacheConfig CacheConfig::from_json(const Json& json) {
  CacheConfig c;
  read_all("cache_config", json,
           {{"backend", text(c.backend)},
            {"nbits", number(c.nbits)},
            {"nbits_key", number(c.nbits_key)},
            {"nbits_value", number(c.nbits_value)},
            {"axis_key", number(c.axis_key)},
            {"axis_value", number(c.axis_value)},
            {"q_group_size", number(c.q_group_size)},
            {"residual_length", number(c.residual_length)},
            {"sink_length", number(c.sink_length)},
            {"rotate_values", flag(c.rotate_values)},
            {"layers", layer_table(c.layers)},
            {"offloading", flag(c.offloading)},
            {"offload_device", text(c.offload_device)},
            {"offload_folder", text(c.offload_folder)},
            {"offload_only_non_sliding", flag(c.offload_only_non_sliding)},
            {"max_cache_bytes", number(c.max_cache_bytes)}});
  return c;
}

Json to_json(const CacheConfig& c) {
  Json json = Json::object();
  const auto put = [](Json& to, const char* key, const auto& value) {
    if (value) to[key] = *value;
  };
  put(json, "backend", c.backend);
  put(json, "nbits", c.nbits);
  put(json, "nbits_key", c.nbits_key);
  put(json, "nbits_value", c.nbits_value);
  put(json, "axis_key", c.axis_key);
  put(json, "axis_value", c.axis_value);
  put(json, "q_group_size", c.q_group_size);
  put(json, "residual_length", c.residual_length);
  put(json, "sink_length", c.sink_length);
  put(json, "rotate_values", c.rotate_values);
  for (const LayerBits& run : c.layers) {
    Json& bits = json["layers"][fmt::format("{}-{}", run.first, run.last)] = Json::object();
    put(bits, "nbits", run.bits.nbits);
    put(bits, "nbits_key", run.bits.nbits_key);
    put(bits, "nbits_value", run.bits.nbits_value);
  }
  put(json, "offloading", c.offloading);
  put(json, "offload_device", c.offload_device);
  put(json, "offload_folder", c.offload_folder);
  put(json, "offload_only_non_sliding", c.offload_only_non_sliding);
  put(json, "max_cache_bytes", c.max_cache_bytes);
  return json;
}

}  // namespace mneme
