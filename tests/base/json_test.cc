#include "mneme/base/json.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <string>

#include "mneme/base/error.h"

namespace mneme {
namespace {

ErrorKind kind_of(const std::string& text) {
  try {
    parse_json(text, "text");
  } catch (const Error& e) {
    return e.kind();
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 80);
  return ErrorKind::kIo;
}

TEST(Json, KeepsEveryKindOfValueInOrder) {
  const std::string text = R"({"z":1,"a":[-2,3.5,true,null,"\u00e9",{"y":{},"b":[]}],"m":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "text").dump(),
            R"({"z":1,"a":[-2,3.5,true,null,"é",{"y":{},"b":[]}],"m":18446744073709551615})");
  EXPECT_EQ(parse_json("7", "text"), 7);
}

TEST(Json, ARepeatedKeyTakesItsLastValueAtItsFirstPlace) {
  EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3,"c":4,"b":[5]})", "text").dump(), R"({"a":3,"b":[5],"c":4})");
}

TEST(Json, ARepeatedKeyIsRefusedOnDemand) {
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":2,"b":{"a":3}}])", "text", RepeatedKeys::kRefuse));
  try {
    parse_json(R"({"b":{"a":1,"c":2,"a":3}})", "text", RepeatedKeys::kRefuse);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "text: the key a occurs twice in one object");
  }
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text :
       {"", "{", "[1,]", "{\"a\" 1}", "{\"a\":1}x", "\"\xff\"", "nul", "'a'", "1e999", "\"\\ud800\""}) {
    EXPECT_EQ(kind_of(text), ErrorKind::kCorruptData);
  }
}

TEST(Json, AZeroByteIsNotTheEnd) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"\0"sv, "{}\0"sv, "{}\0x"sv, "[\0]"sv, "\"\0\""sv}) {
    EXPECT_EQ(kind_of(std::string(text)), ErrorKind::kCorruptData);
  }
  EXPECT_EQ(parse_json(R"("\u0000")", "text").get<std::string>().size(), 1u);
}

TEST(Json, RefusesDeepNestingOnly) {
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(parse_json(nested(512), "text").size(), 1u);
  EXPECT_EQ(kind_of(nested(513)), ErrorKind::kCorruptData);
  EXPECT_EQ(kind_of(std::string(1 << 20, '[')), ErrorKind::kCorruptData);
}

TEST(Json, AnObjectOfManyKeysTakesLinearTime) {
  std::string text = "{\"first\":0";
  for (int i = 0; i < 200000; ++i) text += ",\"key" + std::to_string(i) + "\":1";
  const std::clock_t start = std::clock();  // of this process, so that a busy machine does not count
  EXPECT_EQ(parse_json(text + "}", "text").size(), 200001u);
  // Quadratic time is a minute and a half in a release build; linear time under sanitizers is two seconds.
  EXPECT_LT(std::clock() - start, 20 * CLOCKS_PER_SEC);
}

TEST(Json, TypedAccessNamesTheFileAndTheKey) {
  const Json json = parse_json(R"({"n":3,"x":2.5,"s":"t","b":true,"none":null,"big":18446744073709551615})", "text");
  EXPECT_EQ(json_int(json, "n", 7, "f.json"), 3);
  EXPECT_EQ(json_int(json, "none", 7, "f.json"), 7);
  EXPECT_EQ(json_int(json, "absent", 7, "f.json"), 7);
  EXPECT_EQ(json_double(json, "n", 0, "f.json"), 3.0);
  EXPECT_EQ(json_double(json, "x", 0, "f.json"), 2.5);
  EXPECT_TRUE(json_bool(json, "b", false, "f.json"));
  EXPECT_EQ(json_string(json, "s", "", "f.json"), "t");
  EXPECT_THROW(json_int(json, "big", 0, "f.json"), Error);
  EXPECT_THROW(json_int(json, "x", 0, "f.json"), Error);
  EXPECT_THROW(json_bool(json, "n", false, "f.json"), Error);
  try {
    json_string(json, "n", "", "f.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "f.json: \"n\" must be a string, it is number");
  }
}

TEST(Json, ReadsAFile) {
  const std::string path = testing::TempDir() + "json_test.json";
  std::ofstream(path) << "[1, 2]";
  EXPECT_EQ(read_json_file(path).size(), 2u);
  try {
    read_json_file(path + ".absent");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kIo);
  }
}

}  // namespace
}  // namespace mneme
