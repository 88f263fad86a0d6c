#include "mneme/text/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

std::string refused(ErrorKind kind, const std::string& schema) {
  return thrown(kind, [&] { JsonSchema::parse(schema, "s"); });
}
std::string unsupported(const std::string& schema) { return refused(ErrorKind::kUnsupported, schema); }
std::string invalid(const std::string& schema) { return refused(ErrorKind::kInvalidArgument, schema); }

TEST(JsonSchemaTest, WhatIsNotReadIsRefusedByNameAndPlace) {
  EXPECT_EQ(unsupported(R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}})"),
            "s: #/properties/a: \"pattern\" is not supported; leave it out or say it otherwise");
  for (const char* keyword : {"oneOf", "not", "if", "format", "uniqueItems", "contains", "minProperties", "multipleOf",
                              "patternProperties", "propertyNames", "dependentRequired", "$dynamicRef", "oops"}) {
    EXPECT_THAT(unsupported(fmt::format(R"({{"type": "string", "{}": 1}})", keyword)), HasSubstr(keyword));
  }
  EXPECT_THAT(unsupported(R"({"type": "array", "minLength": 1})"), HasSubstr("\"minLength\" is not supported beside"));
  EXPECT_THAT(unsupported(R"({"$ref": "#", "type": "string"})"), HasSubstr("beside \"$ref\""));
  EXPECT_THAT(unsupported(R"({"anyOf": [true], "type": "string"})"), HasSubstr("beside \"anyOf\""));
  EXPECT_THAT(unsupported(R"({"allOf": [true, true]})"), HasSubstr("of 2 schemas"));
  EXPECT_THAT(unsupported(R"({"$ref": "https://x.org/y"})"), HasSubstr("https://x.org/y"));
  EXPECT_THAT(unsupported(R"({"type": "number", "minimum": 3})"), HasSubstr("minimum"));
  EXPECT_THAT(unsupported(R"({"minimum": 3})"), HasSubstr("say which type"));
  EXPECT_THAT(unsupported(R"({"items": true, "minLength": 2})"), HasSubstr("say which type"));
}

TEST(JsonSchemaTest, WhatNoTextMatchesIsRefused) {
  EXPECT_THAT(invalid("false"), HasSubstr("no value"));
  EXPECT_THAT(invalid("3"), HasSubstr("an object or true"));
  EXPECT_THAT(invalid(R"({"enum": []})"), HasSubstr("at least one"));
  EXPECT_THAT(invalid(R"({"anyOf": []})"), HasSubstr("at least one"));
  EXPECT_THAT(invalid(R"({"type": "string", "enum": [1, 2]})"), HasSubstr("has the \"type\""));
  EXPECT_THAT(invalid(R"({"type": "strin"})"), HasSubstr("none of object"));
  EXPECT_THAT(invalid(R"({"type": []})"), HasSubstr("empty list"));
  EXPECT_THAT(invalid(R"({"type": "string", "minLength": 4, "maxLength": 3})"), HasSubstr("minLength = 4"));
  EXPECT_THAT(invalid(R"({"type": "string", "minLength": -1})"), HasSubstr("2^31-1"));
  EXPECT_THAT(invalid(R"({"type": "string", "maxLength": 1e30})"), HasSubstr("2^31-1"));
  EXPECT_THAT(invalid(R"({"type": "array", "minItems": 3, "prefixItems": [true], "items": false})"), HasSubstr("3"));
  EXPECT_THAT(invalid(R"({"type": "integer", "minimum": 4, "maximum": 3})"), HasSubstr("from 4 to 3"));
  EXPECT_THAT(invalid(R"({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4})"),
              HasSubstr("from 4 to 3"));
  EXPECT_THAT(invalid(R"({"type": "integer", "minimum": "x"})"), HasSubstr("a number"));
  EXPECT_THAT(invalid(R"({"type": "object", "properties": []})"), HasSubstr("properties"));
  EXPECT_THAT(invalid(R"({"type": "object", "required": {"a": 1}})"), HasSubstr("list of names"));
  EXPECT_THAT(invalid(R"({"type": "object", "required": ["a"], "additionalProperties": false})"),
              HasSubstr("no value"));
}

TEST(JsonSchemaTest, ReferencesThatLeadNowhereOrInCirclesAreRefused) {
  EXPECT_THAT(invalid(R"({"$ref": "#/$defs/x"})"), HasSubstr("#/$defs/x"));
  EXPECT_THAT(invalid(R"({"$ref": "#/a~2b"})"), HasSubstr("leads to nothing"));
  EXPECT_THAT(invalid(R"({"$ref": 4})"), HasSubstr("a text"));
  EXPECT_THAT(invalid(R"({"$ref": "#"})"), HasSubstr("circle"));
  EXPECT_THAT(invalid(R"({"anyOf": [{"type": "null"}, {"$ref": "#"}]})"), HasSubstr("circle"));
  EXPECT_THAT(invalid(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})"),
              HasSubstr("circle"));
  EXPECT_THAT(invalid(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"),
              HasSubstr("contains itself"));
  EXPECT_THAT(invalid(R"({"type": "array", "items": {"$ref": "#"}, "minItems": 1})"), HasSubstr("contains itself"));
}

TEST(JsonSchemaTest, SizeIsBounded) {
  EXPECT_THAT(refused(ErrorKind::kCorruptData, "{"), HasSubstr("s"));
  EXPECT_THAT(refused(ErrorKind::kCorruptData, R"({"type": "null", "type": "string"})"), HasSubstr("type"));
  EXPECT_THAT(invalid(std::string(1 << 19, ' ')), AllOf(HasSubstr("524288"), HasSubstr("262144")));
  std::string many = R"({"enum": [0)";
  for (int i = 1; i <= 20'000; ++i) many += fmt::format(",{}", i);
  EXPECT_THAT(invalid(many + "]}"), HasSubstr("10000 parts"));
  std::string deep = R"({"type": "null"})", deeper;
  for (int i = 0; i < 70; ++i) deep = R"({"type": "array", "minItems": 1, "items": )" + deep + "}";
  EXPECT_THAT(invalid(deep), HasSubstr("deeper than 64"));
  for (int i = 0; i < 600; ++i) deeper += R"({"items": )";
  EXPECT_THAT(refused(ErrorKind::kCorruptData, deeper), HasSubstr("512"));
  // Choices of choices that all lead to the same many.
  std::string doubled = R"({"$ref": "#/$defs/0", "$defs": {)";
  for (int i = 0; i < 400; ++i)
    doubled += fmt::format(R"("{}": {{"anyOf": [{{"const": {}}}, {{"$ref": "#/$defs/{}"}}]}},)", i, i, i + 1);
  EXPECT_THAT(invalid(doubled + R"("400": {"const": 400}}})"), HasSubstr("100000 choices"));
}

TEST(JsonSchemaTest, ChoicesAreFlat) {
  const JsonSchema schema = JsonSchema::parse(
      R"({"anyOf": [{"anyOf": [{"const": 1}, {"$ref": "#/$defs/a"}]}, {"type": ["null", "boolean"]}],
          "$defs": {"a": {"allOf": [{"const": 2}]}}})");
  for (const JsonSchemaNode& node : schema.nodes()) {
    if (node.kind != JsonSchemaNode::Kind::kAnyOf) continue;
    for (const std::uint32_t choice : node.choices)
      EXPECT_NE(schema.nodes()[choice].kind, JsonSchemaNode::Kind::kAnyOf);
  }
  EXPECT_EQ(schema.nodes()[schema.root()].choices.size(), 5u);
}

}  // namespace
}  // namespace mneme
