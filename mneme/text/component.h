#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/base/json.h"

namespace mneme {

/// What a text of `n_bytes` may grow to while a tokenizer rewrites it: far more than any real one needs (NFKC: 11
/// times), so that a bad tokenizer.json cannot fill the memory.
constexpr std::size_t max_rewritten_bytes(std::size_t n_bytes) { return 65536 + 32 * n_bytes; }

/// Whether the JSON is an integer in 0..limit.
inline bool is_integer_up_to(const Json& json, std::int64_t limit) {
  return json.is_number_integer() && json.get<std::int64_t>() >= 0 && json.get<std::int64_t>() <= limit;
}

/// The JSON as an error shows it: its beginning, and never a second error for bytes that are not UTF-8.
inline std::string excerpt(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
}

/// Typed access to one component of a tokenizer.json ("normalizer", "decoder", ...), for the code that builds it.
/// Every member throws Error(kCorruptData) naming the file, the component and the key.
class Component {
 public:
  /// `role` is the component's key in tokenizer.json.
  Component(const Json& json, std::string_view role, std::string_view file) : json_(json), role_(role), file_(file) {
    check(json.is_object(), ErrorKind::kCorruptData, "{}: the {} must be an object, it is {}", file, role,
          json.type_name());
    type_ = string("type");
  }

  const std::string& type() const noexcept { return type_; }

  const Json& at(const char* key) const {
    const auto it = json_.find(key);
    check(it != json_.end(), ErrorKind::kCorruptData, "{}: the {} {} lacks \"{}\"", file_, role_, type_, key);
    return *it;
  }
  std::string string(const char* key) const { return typed(key, &Json::is_string, "a string").get<std::string>(); }
  bool boolean(const char* key) const { return typed(key, &Json::is_boolean, "true or false").get<bool>(); }
  bool boolean(const char* key, bool fallback) const { return has(key) ? boolean(key) : fallback; }
  const Json& array(const char* key) const { return typed(key, &Json::is_array, "an array"); }
  std::size_t count(const char* key) const {
    if (!is_integer_up_to(at(key), INT32_MAX)) refuse_value(key);
    return at(key).get<std::size_t>();
  }
  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }

  [[noreturn]] void refuse() const {
    throw Error(ErrorKind::kUnsupported, "{}: the {} type \"{}\" is not supported", file_, role_, type_);
  }
  [[noreturn]] void refuse_value(const char* key) const {
    throw Error(ErrorKind::kCorruptData, "{}: the {} {} has an unknown \"{}\"", file_, role_, type_, key);
  }

 private:
  const Json& typed(const char* key, bool (Json::*is_type)() const noexcept, const char* wanted) const {
    const Json& value = at(key);
    check((value.*is_type)(), ErrorKind::kCorruptData, "{}: \"{}\" of the {} {} must be {}, it is {}", file_, key,
          role_, type_, wanted, value.type_name());
    return value;
  }

  const Json& json_;
  std::string_view role_;
  std::string_view file_;
  std::string type_;
};

}  // namespace mneme
