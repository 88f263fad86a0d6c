#include "mneme/base/json.h"

#include "mneme/base/error.h"
#include "mneme/base/mapped_file.h"

namespace mneme {
namespace {

constexpr int kMaxDepth = 512;

const Json* find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void require(bool right, const char* key, std::string_view name, const char* wanted, const Json& value) {
  check(right, ErrorKind::kCorruptData, "{}: \"{}\" must be {}, it is {}", name, key, wanted, value.type_name());
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name) {
  try {
    const auto too_deep = [&](int depth, Json::parse_event_t, Json&) {
      check(depth <= kMaxDepth, ErrorKind::kCorruptData, "{}: nested deeper than {} levels", name, kMaxDepth);
      return true;
    };
    return Json::parse(text.begin(), text.end(), too_deep);
  } catch (const Json::parse_error& e) {
    throw Error(ErrorKind::kCorruptData, "{}: not valid JSON at byte {} of {}", name, e.byte, text.size());
  }
}

Json read_json_file(const std::string& path) { return parse_json(MappedFile(path).text(), path); }

std::int64_t json_int(const Json& object, const char* key, std::int64_t fallback, std::string_view name) {
  const Json* value = find(object, key);
  if (!value) return fallback;
  require(value->is_number_integer(), key, name, "an integer", *value);
  if (value->is_number_unsigned()) {
    check(value->get<std::uint64_t>() <= INT64_MAX, ErrorKind::kCorruptData, "{}: \"{}\" is larger than 2^63-1", name, key);
  }
  return value->get<std::int64_t>();
}

double json_double(const Json& object, const char* key, double fallback, std::string_view name) {
  const Json* value = find(object, key);
  if (!value) return fallback;
  require(value->is_number(), key, name, "a number", *value);
  return value->get<double>();
}

bool json_bool(const Json& object, const char* key, bool fallback, std::string_view name) {
  const Json* value = find(object, key);
  if (!value) return fallback;
  require(value->is_boolean(), key, name, "true or false", *value);
  return value->get<bool>();
}

std::string json_string(const Json& object, const char* key, std::string_view fallback, std::string_view name) {
  const Json* value = find(object, key);
  if (!value) return std::string(fallback);
  require(value->is_string(), key, name, "a string", *value);
  return value->get<std::string>();
}

}  // namespace mneme
