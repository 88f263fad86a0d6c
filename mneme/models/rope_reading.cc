#include "mneme/models/rope_reading.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "mneme/base/error.h"

namespace mneme {
namespace {

std::vector<double> factors(const Json& object, const char* key, const std::string& file) {
  std::vector<double> result;
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return result;
  check(it->is_array(), ErrorKind::kCorruptData, "{}: \"{}\" must be a list of numbers", file, key);
  for (const Json& item : *it) {
    check(item.is_number() && item > 0, ErrorKind::kCorruptData,
          "{}: \"{}\" holds something that is no positive number", file, key);
    result.push_back(item.get<double>());
  }
  return result;
}

std::optional<double> positive_or_none(const ConfigKeys& keys, const char* key) {
  return keys.has(key) ? std::optional(keys.positive(key, 0)) : std::nullopt;
}

/// The object that says how to rotate, from a file that has it under either name.
const Json& rope_object(const Json& json, const std::string& file) {
  static const Json none = Json::object();
  const Json* object = &none;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null() || it->empty()) continue;
    check(it->is_object(), ErrorKind::kCorruptData, "{}: \"{}\" must be an object, it is {}", file, key,
          it->type_name());
    object = &*it;
  }
  return *object;
}

void check_complete(const RopeConfig& rope, const ConfigKeys& keys) {
  const auto require = [&](const char* key) {
    check(keys.has(key), ErrorKind::kCorruptData, "{}: rotary embedding of type {} needs \"{}\"", keys.file,
          rope.rope_type, key);
  };
  const auto is = [&](const char* type) { return rope.rope_type == type; };
  if (is("linear") || is("llama3") || is("dynamic")) require("factor");
  if (is("llama3")) {
    require("low_freq_factor");
    require("high_freq_factor");
    check(rope.low_freq_factor < rope.high_freq_factor, ErrorKind::kCorruptData,
          "{}: \"low_freq_factor\" {} must be less than \"high_freq_factor\" {}", keys.file, rope.low_freq_factor,
          rope.high_freq_factor);
  }
  if (is("longrope")) {
    require("short_factor");
    require("long_factor");
  }
}

/// `theta` and `part` are what holds where the object does not say.
RopeConfig rope_from(const Json& object, const ConfigKeys& row, const Json& json, double theta, double part,
                     std::int64_t max_position_embeddings) {
  const ConfigKeys keys{object, row.file}, file{json, row.file};
  RopeConfig rope;
  rope.rope_type = json_string(object, "rope_type", json_string(object, "type", "default", row.file), row.file);
  // Parity: older Phi-3 files call it su, or yarn, and mean longrope.
  if (rope.rope_type == "su" || (rope.rope_type == "yarn" && keys.has("short_factor"))) rope.rope_type = "longrope";
  rope.rope_theta = keys.positive("rope_theta", theta);
  rope.partial_rotary_factor = keys.positive("partial_rotary_factor", part);
  check(rope.partial_rotary_factor <= 1, ErrorKind::kCorruptData,
        "{}: \"partial_rotary_factor\" is {}, at most a whole head can be rotated", row.file,
        rope.partial_rotary_factor);
  rope.low_freq_factor = keys.positive("low_freq_factor", rope.low_freq_factor);
  rope.high_freq_factor = keys.positive("high_freq_factor", rope.high_freq_factor);
  rope.beta_fast = keys.positive("beta_fast", rope.beta_fast);
  rope.beta_slow = keys.positive("beta_slow", rope.beta_slow);
  rope.truncate = json_bool(object, "truncate", true, row.file);
  rope.attention_factor = positive_or_none(keys, "attention_factor");
  rope.mscale = positive_or_none(keys, "mscale");
  rope.mscale_all_dim = positive_or_none(keys, "mscale_all_dim");
  rope.short_factor = factors(object, "short_factor", row.file);
  rope.long_factor = factors(object, "long_factor", row.file);
  // Parity: where a file gives it beside the object too, that is what counts.
  rope.original_max_position_embeddings =
      file.size("original_max_position_embeddings",
                row.size("original_max_position_embeddings",
                         keys.size("original_max_position_embeddings", max_position_embeddings)));
  const bool by_length = rope.rope_type == "yarn" || rope.rope_type == "longrope";
  const double stretch = static_cast<double>(max_position_embeddings) /
                         static_cast<double>(std::max<std::int64_t>(1, rope.original_max_position_embeddings));
  rope.factor = keys.positive("factor", by_length ? stretch : rope.factor);
  check_complete(rope, keys);
  return rope;
}

}  // namespace

void read_rope(const ConfigKeys& row, const Json& json, ModelConfig& config) {
  // The row's default, unless the file has its own; files keep what is none of the row's keys too.
  const auto setting = [&](const char* key, double fallback) {
    return ConfigKeys{json, row.file}.positive(key, row.positive(key, fallback));
  };
  const double theta = setting("rope_theta", 10000.0), part = setting("partial_rotary_factor", 1.0);
  const Json& given = rope_object(json, row.file);
  const Json& object = given.empty() && row.json.contains("rope_parameters") ? row.json.at("rope_parameters") : given;
  const auto read = [&](const Json& parameters, double base) {
    return rope_from(parameters, row, json, base, part, config.max_position_embeddings);
  };
  const bool has_local = row.has("rope_local_base_freq");
  const double local = setting("rope_local_base_freq", 10000.0);
  const bool by_type = std::ranges::any_of(object, [](const Json& value) { return value.is_object(); });
  if (by_type) {
    const auto of_type = [&](const char* type) {
      const auto it = object.find(type);
      return it == object.end() || !it->is_object() ? Json::object() : *it;
    };
    config.rope = read(of_type("full_attention"), theta);
    config.sliding_rope = read(of_type("sliding_attention"), has_local ? local : theta);
  } else {
    const Json none = Json::object();
    config.rope = read(object, theta);
    if (has_local) config.sliding_rope = read(none, local);
  }
  if (config.sliding_rope == config.rope) config.sliding_rope.reset();
}

}  // namespace mneme
