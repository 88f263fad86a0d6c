#include "mneme/text/template_from_json.h"

#include <utility>

#include "mneme/text/template_fault.h"
#include "mneme/text/template_text.h"

namespace mneme::jinja {
namespace {

Value from_json_at(const Json& json, int level);

std::string checked_text(const std::string& text) {
  if (!is_utf8(text)) fail("a string of the messages is not valid UTF-8");
  return text;
}

Value list_from_json(const Json& json, int level) {
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& item : json) items.push_back(from_json_at(item, level + 1));
  return Value::list(std::move(items));
}

Value dict_from_json(const Json& json, int level) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : json.items()) dict->set(checked_text(key), from_json_at(value, level + 1));
  return Value(std::move(dict));
}

Value from_json_at(const Json& json, int level) {
  if (level >= kMaxNesting) fail("the JSON nests deeper than {} levels", kMaxNesting);
  switch (json.type()) {
    case Json::value_t::boolean: return json.get<bool>();
    case Json::value_t::number_integer: return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      // Integers have 64 bits with sign; what is larger becomes a float, which keeps its size.
      if (json.get<std::uint64_t>() > INT64_MAX) return json.get<double>();
      return json.get<std::int64_t>();
    case Json::value_t::number_float: return json.get<double>();
    case Json::value_t::string: return checked_text(json.get_ref<const std::string&>());
    case Json::value_t::array: return list_from_json(json, level);
    case Json::value_t::object: return dict_from_json(json, level);
    default: return None{};
  }
}

}  // namespace

Value from_json(const Json& json) { return from_json_at(json, 0); }

}  // namespace mneme::jinja
