#include "mneme/text/json_matcher.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/json.h"

namespace mneme {
namespace {

enum class Match { kNo, kBeginning, kWhole };

class Matching {
 public:
  explicit Matching(std::string_view schema) : schema_(JsonSchema::parse(schema)), matcher_(schema_) {}

  Match match(std::string_view text) {
    JsonMatcher::State state = matcher_.start();
    for (const char c : text) {
      state = matcher_.next(state, static_cast<std::uint8_t>(c));
      if (state == JsonMatcher::kDead) return Match::kNo;
    }
    return matcher_.complete(state) ? Match::kWhole : Match::kBeginning;
  }
  JsonMatcher& matcher() { return matcher_; }

 private:
  JsonSchema schema_;
  JsonMatcher matcher_;
};

void expect(std::string_view schema, const std::vector<std::string>& whole, const std::vector<std::string>& none) {
  Matching matching(schema);
  for (const std::string& text : whole) {
    EXPECT_EQ(matching.match(text), Match::kWhole) << schema << " " << text;
    for (std::size_t n = 0; n < text.size(); ++n)
      EXPECT_NE(matching.match(text.substr(0, n)), Match::kNo) << schema << " " << text.substr(0, n);
  }
  for (const std::string& text : none) EXPECT_NE(matching.match(text), Match::kWhole) << schema << " " << text;
}

TEST(JsonMatcherTest, Literals) {
  expect(R"({"type": "boolean"})", {"true", "false", " true", "\n\tfalse"}, {"", "tru", "truee", "null", "1", "true "});
  expect(R"({"type": "null"})", {"null"}, {"nul", "nulll", "0"});
  expect(R"({"enum": ["a", "ab", 1, 12, null, {"k": [1, "\u00e9"]}]})",
         {R"("a")", R"("ab")", "1", "12", "null", R"({"k":[1,"é"]})"}, {R"("abc")", "13", "2", R"({"k":[]})"});
  expect(R"({"const": "x\"y\n"})", {R"("x\"y\n")"}, {R"("x")"});
  expect(R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"});
}

TEST(JsonMatcherTest, Strings) {
  expect(
      R"({"type": "string"})",
      {R"("")", R"("abc")", R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\uFFFF\ud7ff")", "\"é漢😀\"", "\" \""},
      {"\"", "\"\n\"", "\"\x1f\"", R"("\x")", R"("\u12g4")", R"("\ud800")", R"("\uDFFF")", "\"\xff\"", "\"\xc0\x80\"",
       "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe0\x80\x80\"", "\"\xf0\x80\x80\x80\"", "\"\xc3\"", "abc"});
  expect(R"({"type": "string", "minLength": 2, "maxLength": 3})", {R"("ab")", R"("abc")", "\"é漢😀\"", R"("\n\u0041")"},
         {R"("")", R"("a")", R"("abcd")", "\"é漢😀b\"", R"("abc\n")"});
  expect(R"({"type": "string", "maxLength": 0})", {R"("")"}, {R"("a")"});
  expect(R"({"minLength": 1})", {R"("a")"}, {R"("")"});
}

TEST(JsonMatcherTest, Numbers) {
  expect(R"({"type": "number"})", {"0", "-0", "12", "-3.25", "1e5", "1E+05", "0.5e-7", "12345678901234567890"},
         {"", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1e999", "123456789012345678901"});
  expect(R"({"type": "integer"})", {"0", "-7", "123456789012345678"}, {"1.0", "1e2", "01", "1234567890123456789"});
  expect(R"({"type": "number", "minimum": 0})", {"0", "1.5"}, {"-1", "-0"});
}

TEST(JsonMatcherTest, IntegersWithinBoundsAreJustThose) {
  for (const auto& [least, most] : std::vector<std::pair<int, int>>{
           {0, 0}, {3, 3}, {-5, 5}, {0, 9}, {7, 112}, {95, 1034}, {-120, -13}, {-1, 0}, {1, 2000}, {100, 199}}) {
    Matching matching(fmt::format(R"({{"type": "integer", "minimum": {}, "maximum": {}}})", least, most));
    for (int i = -2100; i <= 2100; ++i) {
      const Match match = matching.match(std::to_string(i));
      EXPECT_EQ(match == Match::kWhole, i >= least && i <= most) << i << " in " << least << ".." << most;
      // A beginning has an end: some number within begins so.
      bool begins = false;
      for (int j = least; j <= most && !begins; ++j) begins = std::to_string(j).starts_with(std::to_string(i));
      EXPECT_EQ(match != Match::kNo, begins) << i << " in " << least << ".." << most;
    }
    EXPECT_NE(matching.match("-0"), Match::kWhole);
    EXPECT_NE(matching.match("00"), Match::kWhole);
  }
  expect(R"({"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 5.5})", {"3", "5"}, {"2", "6"});
  expect(R"({"type": "integer", "minimum": 1})", {"1", "999999999999999999"}, {"0", "-1", "1000000000000000000"});
  expect(R"({"type": "integer", "minimum": 9007199254740993})", {"9007199254740993"}, {"9007199254740992"});
}

TEST(JsonMatcherTest, Arrays) {
  expect(R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[ 1 , 2,3 ]", "[\n]"},
         {"[", "[1,]", "[,1]", "[1 2]", "[\"a\"]", "[]]"});
  expect(R"({"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3})", {"[1,1]", "[1,1,1]"},
         {"[]", "[1]", "[1,1,1,1]"});
  expect(R"({"type": "array", "maxItems": 0})", {"[]", "[ ]"}, {"[1]"});
  expect(R"({"prefixItems": [{"type": "string"}, {"type": "null"}], "items": false, "minItems": 1})",
         {R"(["a"])", R"(["a",null])"}, {"[]", "[null]", R"(["a",null,1])"});
  expect(R"({"prefixItems": [{"const": 0}], "items": {"const": 1}})", {"[]", "[0]", "[0,1,1,1]"}, {"[1]", "[0,0]"});
}

TEST(JsonMatcherTest, ObjectsHaveTheirPropertiesInOrder) {
  constexpr const char* kSchema = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"const": "x"},
      "c": {"type": "null"}}, "required": ["b"]})";
  expect(
      kSchema,
      {R"({"b":"x"})", R"({"a":1,"b":"x"})", R"({"b":"x","c":null})", "{ \"a\" : 1 ,\n \"b\" : \"x\" , \"c\":null }"},
      {"{}", R"({"a":1})", R"({"c":null})", R"({"b":"x","a":1})", R"({"b":"x",})", R"({"b":"x","b":"x"})",
       R"({"b":"y"})", R"({"d":1,"b":"x"})", R"({b:"x"})", R"({"b" "x"})"});
  expect(R"({"type": "object", "properties": {"a": {"type": "null"}}})", {"{}", R"({"a":null})"}, {R"({"b":1})"});
  expect(R"({"type": "object", "properties": {}, "additionalProperties": false})", {"{}"}, {R"({"a":1})"});
  expect(R"({"type": "object", "properties": {"é\"": {"type": "null"}}})", {"{\"é\\\"\":null}"}, {});
}

TEST(JsonMatcherTest, MapsHaveAnyKeys) {
  expect(R"({"type": "object", "additionalProperties": {"type": "integer"}})", {"{}", R"({"a":1})", R"({"a":1, "":2})"},
         {R"({"a":"b"})", R"({"a":1,})", R"({1:1})"});
  expect(R"({"type": "object"})", {"{}", R"({"a":[1,{"b":null}]})"}, {"[]"});
  expect(R"({"type": "object", "required": ["k"]})", {R"({"k":[true]})"}, {"{}"});
}

TEST(JsonMatcherTest, ChoicesStayOpenUntilTheyAreMade) {
  expect(R"({"anyOf": [{"type": "string", "maxLength": 2}, {"const": "abcd"}, {"type": "integer"}]})",
         {R"("ab")", R"("abcd")", "5"}, {R"("abc")", R"("abcde")", "null"});
  expect(R"({"type": ["integer", "string", "null"], "maxLength": 1})", {"12", R"("a")", "null"}, {R"("ab")", "true"});
  expect(R"({"anyOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
                       {"type": "object", "properties": {"k": {"const": 12}, "l": {"const": 2}}, "required": ["l"]}]})",
         {R"({"k":1})", R"({"k":12,"l":2})", R"({"l":2})"}, {R"({"k":12})", "{}", R"({"k":1,"l":2})"});
}

TEST(JsonMatcherTest, SchemasMayContainThemselves) {
  expect(R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"v": {"type": "integer"},
             "c": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["v"]}}})",
         {R"({"v":1})", R"({"v":1,"c":[{"v":2},{"v":3,"c":[]}]})"}, {R"({"v":1,"c":[{}]})"});
  expect(R"({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 1}]})",
         {"null", "[]", "[[[null]]]"}, {"[null,null]"});
  expect(R"({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}})",
         {R"({"next":{"next":null}})"}, {});
}

TEST(JsonMatcherTest, AnyValueIsJsonToADepth) {
  for (const char* schema : {"{}", "true", R"({"title": "t", "default": 3})"}) {
    expect(schema, {"1", R"("x")", R"([{"a":[null,true]}])"}, {"", "x", "[1,"});
  }
  Matching matching("{}");
  EXPECT_EQ(matching.match(std::string(63, '[') + "1"), Match::kBeginning);
  EXPECT_EQ(matching.match(std::string(63, '[') + "[]" + std::string(63, ']')), Match::kWhole);
  EXPECT_EQ(matching.match(std::string(65, '[')), Match::kNo);
}

TEST(JsonMatcherTest, BlanksEnd) {
  Matching matching(R"({"type": "array", "items": {"const": 1}})");
  EXPECT_EQ(matching.match("[" + std::string(32, ' ') + "1" + std::string(32, '\n') + "]"), Match::kWhole);
  EXPECT_EQ(matching.match("[" + std::string(33, ' ')), Match::kNo);
  EXPECT_EQ(matching.match(std::string(33, ' ')), Match::kNo);
}

constexpr const char* kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 9},
        "age": {"type": "integer", "minimum": 13, "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["x", "yy"]},
        "minItems": 1, "maxItems": 4}, "more": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["age", "tags"]})",
    "true",
    R"({"type": "array", "items": {"type": ["number", "null", "boolean"]}, "minItems": 3, "prefixItems": [{"const": "a"}]})",
    R"({"anyOf": [{"type": "integer", "minimum": -37, "maximum": 1024}, {"type": "string", "maxLength": 3}]})"};

// From every state that is reached some byte goes on, or the text may end; a few hundred steps later it has, by
// whatever leads to the end; and what ends is JSON.
TEST(JsonMatcherTest, RandomWalksNeverEndWithoutAnEnd) {
  for (const char* schema : kSchemas) {
    Matching matching(schema);
    JsonMatcher& matcher = matching.matcher();
    for (unsigned seed = 0; seed < 300; ++seed) {
      std::mt19937 random(seed);
      std::string text;
      JsonMatcher::State state = matcher.start();
      for (int n = 0; !(matcher.complete(state) && (random() % 4 == 0 || n > 200)); ++n) {
        std::vector<std::uint8_t> open;
        for (int byte = 0; byte < 256; ++byte) {
          if (matcher.next(state, static_cast<std::uint8_t>(byte)) != JsonMatcher::kDead)
            open.push_back(static_cast<std::uint8_t>(byte));
        }
        if (open.empty() && matcher.complete(state)) break;
        ASSERT_FALSE(open.empty()) << schema << " is stuck behind " << text;
        ASSERT_LT(n, 100'000) << schema << " " << text.substr(0, 300);
        // Long texts are led out: closing comes before all that opens.
        std::uint8_t byte = open[random() % open.size()];
        for (const char closing : {'}', ']', '"'}) {
          if (n > 60 && std::ranges::find(open, static_cast<std::uint8_t>(closing)) != open.end())
            byte = static_cast<std::uint8_t>(closing);
        }
        state = matcher.next(state, byte);
        text += static_cast<char>(byte);
      }
      EXPECT_NO_THROW(parse_json(text, "text")) << schema << " " << text;
    }
  }
}

TEST(JsonMatcherTest, ForgettingChangesNothing) {
  Matching matching(kSchemas[0]);
  const std::string text = R"({"name": "Ann", "age": 44, "tags": ["x", "yy"], "more": null})";
  EXPECT_EQ(matching.match(text), Match::kWhole);
  EXPECT_FALSE(matching.matcher().is_full());
  matching.matcher().forget();
  EXPECT_EQ(matching.match(text), Match::kWhole);
}

// States that are known at once are few, whatever a text counts.
TEST(JsonMatcherTest, LongTextsNeedFewStates) {
  Matching matching(R"({"type": "array", "items": {"type": "string", "minLength": 2}, "minItems": 1})");
  std::string text = "[\"ab\"";
  for (int i = 0; i < 20'000; ++i) text += ", \"abcdefgh\"";
  EXPECT_EQ(matching.match(text + "]"), Match::kWhole);
  EXPECT_FALSE(matching.matcher().is_full());
}

TEST(JsonMatcherTest, TooManyOpenWaysAreRefused) {
  std::string schema = R"({"anyOf": [)";
  for (int i = 0; i < 3000; ++i)
    schema += fmt::format(R"({}{{"type": "string", "minLength": {}}})", i ? "," : "", 100'000 + i);
  Matching matching(schema + "]}");
  EXPECT_THROW(matching.match("\"" + std::string(20'000, 'a')), Error);
}

}  // namespace
}  // namespace mneme
