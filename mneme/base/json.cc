#include "mneme/base/json.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/mapped_file.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

constexpr std::size_t kMaxDepth = 512;

const Json* find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

void require(bool right, const char* key, std::string_view name, const char* wanted, const Json& value) {
  check(right, ErrorKind::kCorruptData, "{}: \"{}\" must be {}, it is {}", name, key, wanted, value.type_name());
}

/// Builds the tree in linear time: members are appended, and looked for duplicates once, when their object ends. The
/// library's own builder searches an ordered object for every new key, which took 51 s for a vocabulary of 150,000.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view name, std::size_t n_bytes, RepeatedKeys repeated)
      : name_(name), n_bytes_(n_bytes), repeated_(repeated) {}

  Json take() { return std::move(root_); }

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool number_float(number_float_t value, const string_t&) override { return place(value); }
  bool string(string_t& value) override { return place(std::move(value)); }
  bool binary(binary_t& value) override { return place(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& value) override {
    members(*open_.back()).emplace_back(std::move(value), nullptr);
    return true;
  }
  bool end_object() override {
    resolve_repeated_keys(members(*open_.back()));
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    check(position <= n_bytes_, ErrorKind::kCorruptData, "{}: not valid JSON: it ends too early, after {} bytes", name_,
          n_bytes_);
    throw Error(ErrorKind::kCorruptData, "{}: not valid JSON at byte {} of {}", name_, position, n_bytes_);
  }

 private:
  using Members = std::vector<Json::object_t::value_type>;

  static Members& members(Json& object) { return object.get_ref<Json::object_t&>(); }

  Json* append(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &(members(parent).back().second = std::move(value));
  }

  bool place(Json value) {
    append(std::move(value));
    return true;
  }

  bool open(Json container) {
    check(open_.size() < kMaxDepth, ErrorKind::kCorruptData, "{}: nested deeper than {} levels", name_, kMaxDepth);
    open_.push_back(append(std::move(container)));
    return true;
  }

  /// As Python reads it, if repetition is allowed at all: a repeated key keeps its first place and takes its last
  /// value.
  void resolve_repeated_keys(Members& object) {
    std::unordered_map<std::string_view, std::size_t> places;
    places.reserve(object.size());
    for (std::size_t i = 0; i < object.size(); ++i) {
      const auto [place, is_new] = places.try_emplace(object[i].first, i);
      if (is_new) continue;
      check(repeated_ == RepeatedKeys::kKeepLast, ErrorKind::kCorruptData, "{}: the key {} occurs twice in one object",
            name_, printable(object[i].first));
      object[place->second].second = std::move(object[i].second);
    }
    if (places.size() == object.size()) return;
    Members unique;
    for (std::size_t i = 0; i < object.size(); ++i) {
      if (places.at(object[i].first) == i) unique.emplace_back(object[i].first, std::move(object[i].second));
    }
    object.swap(unique);
  }

  std::string_view name_;
  std::size_t n_bytes_;
  RepeatedKeys repeated_;
  Json root_;
  std::vector<Json*> open_;  // the containers around the next value; a parent does not grow while a child is open
};

}  // namespace

Json parse_json(std::string_view text, std::string_view name, RepeatedKeys repeated) {
  // The library takes a zero byte for the end of the text. No JSON has one, and what follows must not go unread.
  const std::size_t zero = text.find('\0');
  check(zero == text.npos, ErrorKind::kCorruptData, "{}: not valid JSON at byte {} of {}", name, zero + 1, text.size());
  TreeBuilder builder(name, text.size(), repeated);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json_file(const std::string& path) { return parse_json(MappedFile(path).text(), path); }

std::int64_t json_int(const Json& object, const char* key, std::int64_t fallback, std::string_view name) {
  const Json* value = find(object, key);
  if (!value) return fallback;
  require(value->is_number_integer(), key, name, "an integer", *value);
  if (value->is_number_unsigned()) {
    check(value->get<std::uint64_t>() <= INT64_MAX, ErrorKind::kCorruptData, "{}: \"{}\" is larger than 2^63-1", name,
          key);
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
