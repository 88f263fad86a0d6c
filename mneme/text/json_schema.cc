#include "mneme/text/json_schema.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

using Node = JsonSchemaNode;
using Kind = Node::Kind;
using Index = std::uint32_t;

constexpr std::size_t kMostBytes = std::size_t{1} << 18, kMostNodes = 10'000, kMostChoices = 100'000;
constexpr std::int64_t kMostInteger = 999'999'999'999'999'999;  // 18 digits
constexpr int kNoHeight = std::numeric_limits<int>::max() / 2;  // no value that ends is known

using Words = std::span<const std::string_view>;
constexpr std::string_view kAnnotations[] = {"title",       "description", "default",  "examples",
                                             "$schema",     "$id",         "$comment", "$defs",
                                             "definitions", "deprecated",  "readOnly", "writeOnly"};
constexpr std::string_view kKeywords[] = {"type", "enum", "const", "anyOf", "allOf", "$ref"};
constexpr std::string_view kTypes[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

bool is_among(std::string_view text, Words all) { return std::ranges::find(all, text) != all.end(); }

/// Keywords that only values of a type heed.
Words keywords_of(std::string_view type) {
  static constexpr std::string_view kObject[] = {"properties", "required", "additionalProperties"};
  static constexpr std::string_view kArray[] = {"items", "prefixItems", "minItems", "maxItems"};
  static constexpr std::string_view kString[] = {"minLength", "maxLength"};
  static constexpr std::string_view kNumber[] = {"minimum"};
  static constexpr std::string_view kInteger[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
  if (type == "object") return kObject;
  if (type == "array") return kArray;
  if (type == "string") return kString;
  if (type == "number") return kNumber;
  if (type == "integer") return kInteger;
  return {};
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return type == "boolean" ? value.is_boolean() : value.is_null();
}

/// Turns a schema into nodes. Places are JSON pointers, as errors name them and references say them; what is referred
/// to is compiled once, later, so that schemas may go in circles.
class Compiler {
 public:
  Compiler(const Json& document, std::string_view name) : document_(document), name_(name) {}

  std::vector<Node> run() {
    compile(add(), document_, "#");
    places_["#"] = 0;
    while (!wanted_.empty()) {
      const auto [index, place] = wanted_.back();
      wanted_.pop_back();
      compile(index, at(place), place);
    }
    flatten_choices();
    measure();
    return std::move(nodes_);
  }

 private:
  Index add(Node node = {}) {
    check(nodes_.size() < kMostNodes, ErrorKind::kInvalidArgument, "{}: the schema has more than {} parts", name_,
          kMostNodes);
    nodes_.push_back(std::move(node));
    return static_cast<Index>(nodes_.size() - 1);
  }

  Index literal(const Json& value) { return add({.kind = Kind::kLiteral, .literal = value.dump()}); }

  Index compiled(const Json& schema, const std::string& place) {
    const Index index = add();
    compile(index, schema, place);
    return index;
  }

  template <class... Args>
  [[noreturn]] void refuse(ErrorKind kind, const std::string& place, fmt::format_string<Args...> format,
                           Args&&... args) const {
    throw Error(kind, "{}: {}: {}", name_, printable(place), fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void require(bool condition, const std::string& place, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) refuse(ErrorKind::kInvalidArgument, place, format, std::forward<Args>(args)...);
  }

  const Json& at(const std::string& place) const {
    try {
      return document_.at(Json::json_pointer(place.substr(1)));
    } catch (const Json::exception&) {
      refuse(ErrorKind::kInvalidArgument, place, "\"$ref\" leads to nothing; it must be a place in this schema");
    }
  }

  void compile(Index index, const Json& schema, const std::string& place) {
    if (schema == true || (schema.is_object() && only_annotations(schema))) {
      nodes_[index] = {.kind = Kind::kAnyOf, .choices = {any()}};
      return;
    }
    require(schema != false, place, "false allows no value");
    require(schema.is_object(), place, "a schema is an object or true");
    check_known(schema, place);
    if (schema.contains("$ref")) return compile_reference(index, schema, place);
    if (schema.contains("const")) return compile_values(index, schema, Json::array({schema["const"]}), "const", place);
    if (schema.contains("enum")) return compile_values(index, schema, schema["enum"], "enum", place);
    for (const char* key : {"anyOf", "allOf"}) {
      if (schema.contains(key)) return compile_choices(index, schema, key, place);
    }
    compile_types(index, schema, place);
  }

  static bool only_annotations(const Json& schema) {
    return std::ranges::all_of(schema.items(), [](const auto& item) { return is_among(item.key(), kAnnotations); });
  }

  void check_known(const Json& schema, const std::string& place) const {
    for (const auto& item : schema.items()) {
      bool known = is_among(item.key(), kAnnotations) || is_among(item.key(), kKeywords);
      for (const std::string_view type : kTypes) known = known || is_among(item.key(), keywords_of(type));
      if (!known)
        refuse(ErrorKind::kUnsupported, place, "\"{}\" is not supported; leave it out or say it otherwise",
               printable(item.key()));
    }
  }

  /// Refuses what stands beside keywords that are read.
  void check_keys(const Json& schema, const std::vector<std::string_view>& known, const std::string& place) const {
    for (const auto& item : schema.items()) {
      if (is_among(item.key(), kAnnotations) || std::ranges::find(known, item.key()) != known.end()) continue;
      refuse(ErrorKind::kUnsupported, place, "\"{}\" is not supported beside \"{}\"; leave it out",
             printable(item.key()), known.front());
    }
  }

  /// A value of any kind.
  Index any() {
    if (any_) return *any_;
    any_ = add();
    const Index string = add({.kind = Kind::kString}), number = add({.kind = Kind::kNumber});
    std::vector<Index> choices = {string, number};
    for (const Json& value : {Json(true), Json(false), Json(nullptr)}) choices.push_back(literal(value));
    choices.push_back(add({.kind = Kind::kArray, .value = *any_}));
    choices.push_back(add({.kind = Kind::kMap, .key = string, .value = *any_}));
    nodes_[*any_].choices = std::move(choices);
    return *any_;
  }

  void compile_reference(Index index, const Json& schema, const std::string& place) {
    check_keys(schema, {"$ref"}, place);
    require(schema["$ref"].is_string(), place, "\"$ref\" must be a text");
    const std::string target = schema["$ref"].get<std::string>();
    if (!target.starts_with("#") || (target.size() > 1 && target[1] != '/'))
      refuse(ErrorKind::kUnsupported, place,
             "\"$ref\" leads to \"{}\"; only places in the same schema, as in #/$defs/x, "
             "are supported",
             printable(target));
    at(target);
    const auto [known, is_new] = places_.try_emplace(target, target == "#" ? 0 : static_cast<Index>(nodes_.size()));
    if (is_new && target != "#") wanted_.emplace_back(add(), target);
    nodes_[index].choices = {known->second};
  }

  void compile_values(Index index, const Json& schema, const Json& values, const char* key, const std::string& place) {
    check_keys(schema, {key, "type"}, place);
    require(values.is_array() && !values.empty(), place, "\"{}\" must hold at least one value", key);
    const std::vector<std::string> types = types_of(schema, place);
    std::vector<Index> choices;
    for (const Json& value : values) {
      const bool fits = types.empty() || std::ranges::any_of(types, [&](const auto& t) { return has_type(value, t); });
      if (fits) choices.push_back(literal(value));
    }
    require(!choices.empty(), place, "no value of \"{}\" has the \"type\"", key);
    nodes_[index].choices = std::move(choices);
  }

  void compile_choices(Index index, const Json& schema, const char* key, const std::string& place) {
    check_keys(schema, {key}, place);
    const Json& each = schema[key];
    require(each.is_array() && !each.empty(), place, "\"{}\" must hold at least one schema", key);
    if (key == std::string_view("allOf") && each.size() > 1)
      refuse(ErrorKind::kUnsupported, place, "\"allOf\" of {} schemas is not supported; write them as one",
             each.size());
    std::vector<Index> choices;
    for (std::size_t i = 0; i < each.size(); ++i) {
      choices.push_back(compiled(each[i], fmt::format("{}/{}/{}", place, key, i)));
    }
    nodes_[index].choices = std::move(choices);
  }

  /// Those that "type" names; none without it.
  std::vector<std::string> types_of(const Json& schema, const std::string& place) const {
    if (!schema.contains("type")) return {};
    const Json& type = schema["type"];
    std::vector<std::string> types;
    for (const Json& one : type.is_array() ? type : Json::array({type})) {
      require(one.is_string() && is_among(one.get<std::string>(), kTypes), place, "\"type\" is none of {}",
              fmt::join(kTypes, ", "));
      types.push_back(one.get<std::string>());
    }
    require(!types.empty(), place, "\"type\" is an empty list");
    return types;
  }

  /// Without "type" the keywords of just one tell it.
  std::vector<std::string> types_or_guess(const Json& schema, const std::string& place) const {
    std::vector<std::string> types = types_of(schema, place);
    if (!types.empty()) return types;
    for (const std::string_view type : {"object", "array", "string"}) {
      const Words keywords = keywords_of(type);
      if (std::ranges::any_of(keywords, [&](std::string_view key) { return schema.contains(key); }))
        types.emplace_back(type);
    }
    if (types.size() != 1)
      refuse(ErrorKind::kUnsupported, place, "\"{}\" without \"type\" is not supported; say which type it is",
             printable(schema.begin().key()));
    return types;
  }

  void compile_types(Index index, const Json& schema, const std::string& place) {
    const std::vector<std::string> types = types_or_guess(schema, place);
    std::vector<std::string_view> known = {"type"};
    for (const std::string& type : types) known.insert(known.end(), keywords_of(type).begin(), keywords_of(type).end());
    check_keys(schema, known, place);
    std::vector<Index> choices;
    for (const std::string& type : types) {
      if (type == "boolean") {
        choices.push_back(literal(true));
        choices.push_back(literal(false));
      } else if (type == "null") {
        choices.push_back(literal(nullptr));
      } else if (type == "string") {
        Node node{.kind = Kind::kString};
        read_bounds(schema, "minLength", "maxLength", place, node);
        choices.push_back(add(std::move(node)));
      } else if (type == "object") {
        choices.push_back(object(schema, place));
      } else if (type == "array") {
        choices.push_back(array(schema, place));
      } else {
        choices.push_back(add(type == "integer" ? integer(schema, place) : number(schema, place)));
      }
    }
    nodes_[index].choices = std::move(choices);
  }

  void read_bounds(const Json& schema, const char* least, const char* most, const std::string& place,
                   Node& node) const {
    for (auto [key, bound] : {std::pair(least, &node.least), std::pair(most, &node.most)}) {
      if (!schema.contains(key)) continue;
      const Json& value = schema[key];
      require(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT32_MAX, place,
              "\"{}\" must be a whole number, 0 to 2^31-1", key);
      *bound = value.get<std::int64_t>();
    }
    require(node.least <= node.most, place, "{} = {} is above {} = {}", least, node.least, most, node.most);
  }

  Index array(const Json& schema, const std::string& place) {
    Node node{.kind = Kind::kArray};
    read_bounds(schema, "minItems", "maxItems", place, node);
    const Json first = schema.contains("prefixItems") ? schema["prefixItems"] : Json::array();
    require(first.is_array(), place, "\"prefixItems\" must be a list of schemas");
    for (std::size_t i = 0; i < first.size(); ++i) {
      node.choices.push_back(compiled(first[i], fmt::format("{}/prefixItems/{}", place, i)));
    }
    const bool closed = schema.contains("items") && schema["items"] == false;  // a tuple
    if (closed) {
      node.most = std::min(node.most, std::ssize(node.choices));
      require(node.least <= node.most, place, "minItems = {} is above the {} that there can be", node.least, node.most);
    }
    node.value = !closed && schema.contains("items") ? compiled(schema["items"], place + "/items") : any();
    return add(std::move(node));
  }

  Index object(const Json& schema, const std::string& place) {
    const Json properties = schema.contains("properties") ? schema["properties"] : Json::object();
    const Json required = schema.contains("required") ? schema["required"] : Json::array();
    const Json more = schema.contains("additionalProperties") ? schema["additionalProperties"] : Json(true);
    require(properties.is_object(), place, "\"properties\" must be an object of schemas");
    require(required.is_array(), place, "\"required\" must be a list of names");
    Node node{.kind = Kind::kObject};
    std::map<std::string, std::size_t> places;
    for (const auto& item : properties.items()) {
      places[item.key()] = node.properties.size();
      const Index value = compiled(item.value(), place + "/properties/" + item.key());
      node.properties.push_back({.key = literal(item.key()), .value = value});
    }
    const auto other = [&] { return compiled(more, place + "/additionalProperties"); };
    for (const Json& name : required) {
      require(name.is_string(), place, "\"required\" must be a list of names");
      const auto [known, is_new] = places.try_emplace(name.get<std::string>(), node.properties.size());
      if (is_new) node.properties.push_back({.key = literal(name), .value = other()});
      node.properties[known->second].required = true;
    }
    if (node.properties.empty() && more != false)
      return add({.kind = Kind::kMap, .key = add({.kind = Kind::kString}), .value = other()});
    return add(std::move(node));
  }

  Node number(const Json& schema, const std::string& place) const {
    if (!schema.contains("minimum")) return {.kind = Kind::kNumber};
    if (schema["minimum"] != 0)
      refuse(ErrorKind::kUnsupported, place, "\"minimum\" of a \"number\" can be 0 alone; use an \"integer\"");
    return {.kind = Kind::kNumber, .may_be_negative = false};
  }

  Node integer(const Json& schema, const std::string& place) const {
    Node node{.kind = Kind::kInteger, .least = -kMostInteger, .most = kMostInteger};
    bool bounded = false;
    const auto read = [&](const char* key, bool below, std::int64_t step) {
      if (!schema.contains(key)) return;
      bounded = true;
      require(schema[key].is_number(), place, "\"{}\" must be a number", key);
      const double value = std::clamp(schema[key].get<double>(), -1e18, 1e18);
      // A float64 holds integers to 2^53 alone, so those are read as such.
      const std::int64_t whole = schema[key].is_number_integer() && std::abs(value) < 1e18
                                     ? schema[key].get<std::int64_t>()
                                     : static_cast<std::int64_t>(below ? std::ceil(value) : std::floor(value));
      const bool exact = static_cast<double>(whole) == value;
      std::int64_t& bound = below ? node.least : node.most;
      const std::int64_t moved = whole + (exact ? step : 0);
      bound = below ? std::max(bound, moved) : std::min(bound, moved);
    };
    read("minimum", true, 0);
    read("exclusiveMinimum", true, 1);
    read("maximum", false, 0);
    read("exclusiveMaximum", false, -1);
    require(node.least <= node.most, place, "no integer is from {} to {}", node.least, node.most);
    if (bounded) node.kind = Kind::kIntegerWithin;
    return node;
  }

  /// Choices become choices among what is written, never among choices: what reads them need not look further. One that
  /// leads to itself before anything is written has no first character.
  void flatten_choices() {
    enum class State : char { kNew, kOpen, kDone };
    std::vector<State> states(nodes_.size(), State::kNew);
    std::size_t n_choices = 0;
    std::vector<std::pair<Index, std::size_t>> path;
    const auto enter = [&](Index i) {
      check(states[i] != State::kOpen, ErrorKind::kInvalidArgument,
            "{}: \"$ref\" goes in a circle in which no value is written", name_);
      if (states[i] == State::kNew && nodes_[i].kind == Kind::kAnyOf) states[i] = State::kOpen, path.emplace_back(i, 0);
    };
    for (Index start = 0; start < nodes_.size(); ++start) {
      enter(start);
      while (!path.empty()) {
        const auto [i, next] = path.back();
        if (next < nodes_[i].choices.size()) {
          ++path.back().second;
          enter(nodes_[i].choices[next]);
          continue;
        }
        nodes_[i].choices = written_choices(nodes_[i]);
        n_choices += nodes_[i].choices.size();
        check(n_choices <= kMostChoices, ErrorKind::kInvalidArgument, "{}: the schema has more than {} choices", name_,
              kMostChoices);
        states[i] = State::kDone;
        path.pop_back();
      }
    }
  }

  std::vector<Index> written_choices(const Node& node) const {
    std::set<Index> all;
    for (const Index i : node.choices) {
      if (nodes_[i].kind == Kind::kAnyOf) {
        all.insert(nodes_[i].choices.begin(), nodes_[i].choices.end());
      } else {
        all.insert(i);
      }
    }
    return {all.begin(), all.end()};
  }

  int height_of(const Node& node) const {
    int height = 0;
    const auto holds = [&](Index i) { height = std::max(height, nodes_[i].height); };
    switch (node.kind) {
      case Kind::kAnyOf:
        height = kNoHeight;
        for (const Index i : node.choices) height = std::min(height, nodes_[i].height);
        return height;
      case Kind::kArray:
        for (std::int64_t i = 0; i < std::min(node.least, std::ssize(node.choices)); ++i)
          holds(node.choices[static_cast<std::size_t>(i)]);
        if (node.least > std::ssize(node.choices)) holds(node.value);
        break;
      case Kind::kObject:
        for (const Node::Property& p : node.properties) {
          if (p.required) holds(p.value);
        }
        break;
      default: break;
    }
    return height < JsonSchema::kMostDepth ? height + 1 : kNoHeight;
  }

  /// Heights from below, until none changes: then a node without one has no value that ends.
  void measure() {
    for (Node& node : nodes_) node.height = kNoHeight;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = nodes_.size(); i-- > 0;) {  // what is inside mostly comes behind
        const int height = height_of(nodes_[i]);
        changed = changed || height != nodes_[i].height;
        nodes_[i].height = height;
      }
    }
    check(nodes_[0].height <= JsonSchema::kMostDepth, ErrorKind::kInvalidArgument,
          "{}: every value that matches nests deeper than {}: what is required contains itself, or is too deep", name_,
          JsonSchema::kMostDepth);
  }

  const Json& document_;
  std::string name_;
  std::vector<Node> nodes_;
  std::map<std::string, Index> places_;                // of what is referred to
  std::vector<std::pair<Index, std::string>> wanted_;  // and of it, what is to be compiled
  std::optional<Index> any_;
};

}  // namespace

JsonSchema JsonSchema::parse(std::string_view text, std::string_view name) {
  check(text.size() <= kMostBytes, ErrorKind::kInvalidArgument, "{}: a schema of {} bytes is longer than {}", name,
        text.size(), kMostBytes);
  const Json document = parse_json(text, name, RepeatedKeys::kRefuse);
  return JsonSchema(Compiler(document, name).run());
}

}  // namespace mneme
