#include "mneme/models/config_keys.h"

#include <cmath>

#include "mneme/base/error.h"

namespace mneme {

const char* ConfigKeys::spelled(const char* key) const {
  const auto names = aliases.find(key);
  if (names == aliases.end()) return key;
  const std::string* name = nullptr;
  for (const Json& candidate : *names) {
    name = &candidate.get_ref<const std::string&>();
    if (const auto it = json.find(*name); it != json.end() && !it->is_null()) break;
  }
  return name->c_str();
}

bool ConfigKeys::has(const char* key) const {
  const auto it = json.find(spelled(key));
  return it != json.end() && !it->is_null();
}

std::int64_t ConfigKeys::size(const char* key, std::int64_t fallback, std::int64_t max) const {
  const std::int64_t value = json_int(json, spelled(key), fallback, file);
  check(!has(key) || (value > 0 && value <= max), ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be 1 to {}", file,
        spelled(key), value, max);
  return value;
}

double ConfigKeys::positive(const char* key, double fallback) const {
  const double value = json_double(json, spelled(key), fallback, file);
  check(std::isfinite(value) && value > 0, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be positive", file,
        spelled(key), value);
  return value;
}

std::optional<std::int64_t> ConfigKeys::token(const char* key) const {
  const std::int64_t id = json_int(json, key, -1, file);
  check(id <= kMaxSize, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be less than 2^31", file, key, id);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::vector<std::int64_t> ConfigKeys::tokens(const char* key) const {
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

double ConfigKeys::number(const char* key, double fallback) const {
  const double value = json_double(json, spelled(key), fallback, file);
  check(std::isfinite(value), ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be finite", file, spelled(key),
        value);
  return value;
}

}  // namespace mneme
