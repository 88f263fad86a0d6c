#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme {

/// What a value may be, by index into JsonSchema::nodes().
struct JsonSchemaNode {
  enum class Kind : std::uint8_t {
    kAnyOf,
    kLiteral,
    kString,
    kNumber,
    kInteger,
    kIntegerWithin,
    kArray,
    kObject,
    kMap
  };
  struct Property {
    std::uint32_t key = 0;  ///< a literal: the name in quotes
    std::uint32_t value = 0;
    bool required = false;
  };

  Kind kind = Kind::kAnyOf;
  std::string literal = {};  ///< kLiteral: the only text, compact
  std::vector<std::uint32_t> choices =
      {};  ///< kAnyOf, never empty: any of them, none a choice itself; kArray: its first items
  std::int64_t least = 0, most = INT64_MAX;  ///< characters, items, or the values of kIntegerWithin
  bool may_be_negative = true;               ///< kNumber
  std::uint32_t key = 0, value = 0;          ///< kMap: its keys and values; kArray: items behind the first
  std::vector<Property> properties = {};     ///< kObject: in the order in which they are written
  int height = 1;                            ///< levels of the flattest value, itself included
};

/// A JSON schema, compiled: which JSON texts are valid. Read from schemas of draft 2020-12 and 7:
///
///   type (a name or a list), enum, const, anyOf, allOf of one, $ref into the same schema (recursion too), $defs, true
///   object   properties, required, additionalProperties; a declared object has just the declared ones
///   array    items, prefixItems, minItems, maxItems
///   string   minLength, maxLength
///   integer  minimum, maximum, exclusiveMinimum, exclusiveMaximum;  number  minimum 0
///
/// Texts that match are a part of the valid ones: properties come in the schema's order, enum and const as compact
/// JSON, characters are escaped as themselves where they can, a number has at most 20 digits before and after its
/// point, an integer 18, values nest at most 64 deep.
class JsonSchema {
 public:
  static constexpr int kMostDepth = 64;

  /// `name` is what errors call the text. Throws Error(kCorruptData) for what is not JSON, Error(kUnsupported) naming
  /// place and keyword of what is not read, Error(kInvalidArgument) for schemas that no text matches, that refer to
  /// what is not there, or that are too large (256 KiB, 10,000 parts).
  static JsonSchema parse(std::string_view text, std::string_view name = "json schema");

  const std::vector<JsonSchemaNode>& nodes() const noexcept { return nodes_; }
  std::uint32_t root() const noexcept { return 0; }

 private:
  explicit JsonSchema(std::vector<JsonSchemaNode> nodes) : nodes_(std::move(nodes)) {}
  std::vector<JsonSchemaNode> nodes_;
};

}  // namespace mneme
