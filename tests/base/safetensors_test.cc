#include "mneme/base/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "mneme/base/error.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::read_file;
using testing::safetensors;
using testing::thrown;

const std::string kEight(8, '\x01');

SafetensorsFile parse(const std::string& content) { return SafetensorsFile(bytes_of(content), "x.safetensors"); }

std::string refusal(const std::string& content) {
  const std::string message = thrown(ErrorKind::kCorruptData, [&] { parse(content); });
  EXPECT_THAT(message, HasSubstr("x.safetensors")) << content;
  return message;
}

/// One tensor "a" of the given fields.
std::string one(std::string_view fields, std::string_view data = kEight) {
  return safetensors(fmt::format(R"({{"a":{{{}}}}})", fields), data);
}
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets,
                std::string_view data = kEight) {
  return one(fmt::format(R"("dtype":{},"shape":{},"data_offsets":{})", dtype, shape, offsets), data);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string content = safetensors(
      R"({"b":{"dtype":"F32","shape":[2,1],"data_offsets":[8,16]},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("__metadata__":{"format":"pt","n":"é"},"empty":{"dtype":"BF16","shape":[0,7],"data_offsets":[8,8]}}   )",
      kEight + kEight);
  const SafetensorsFile file = parse(content);
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].dtype, "I64");
  EXPECT_TRUE(file.tensors()[0].shape.empty());
  EXPECT_EQ(file.tensors()[1].name, "empty");
  EXPECT_TRUE(file.tensors()[1].data.empty());
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_THAT(file.tensors()[2].shape, ElementsAre(2, 1));
  EXPECT_EQ(file.tensors()[2].data.data(), bytes_of(content).data() + content.size() - 8);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("n"), "é");
}

TEST(Safetensors, ReadsWhatThePythonLibraryWrites) {
  const SafetensorsFile file(testing::test_data("files/formats.safetensors"));
  EXPECT_EQ(file.tensors().size(), 10u);
  EXPECT_EQ(file.metadata().at("note"), "é");
}

TEST(Safetensors, AcceptsWhatPythonAccepts) {
  EXPECT_TRUE(parse(safetensors("{}")).tensors().empty());
  for (const std::string& content : {safetensors("  {}"), safetensors("{}\n"), safetensors(R"({"__metadata__":null})"),
                                     one(R"("F32")", "[2]", "[0,8]"), one(R"("F4")", "[4,4]", "[0,8]"),
                                     one(R"("F32")", "[0,4611686018427387904]", "[0,0]", ""),
                                     one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"more":{"x":[1,[2,{}]]})"),
                                     safetensors(R"({"":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", kEight)}) {
    EXPECT_NO_THROW(parse(content)) << content;
  }
}

TEST(Safetensors, RefusesHeadersThatAreNoHeaders) {
  refusal("");
  refusal("1234567");
  for (const std::uint64_t n : {std::uint64_t{3}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63,
                                ~std::uint64_t{0} - 7, ~std::uint64_t{0}}) {
    EXPECT_THAT(refusal(safetensors("{}", "", n)), HasSubstr(fmt::format("{} bytes", n)));
  }
  for (const std::string_view header :
       {"", "[]", "null", "7", "{", "{}x", "{\"\xff\":1}", "{'a':1}", "\xef\xbb\xbf{}"}) {
    refusal(safetensors(header));
  }
  refusal(safetensors(std::string_view("{}\0", 3)));
  refusal(safetensors(R"({"a":)" + std::string(100000, '[')));
}

TEST(Safetensors, RefusesNamesAndFieldsGivenTwice) {
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(refusal(safetensors("{" + a + "," + a + "}", kEight)), HasSubstr("the key a occurs twice"));
  refusal(one(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"));
  refusal(safetensors(R"({"__metadata__":{},"__metadata__":{}})"));
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  for (const char* value : {"[]", "\"\"", "{\"k\":1}", "{\"k\":null}"}) {
    EXPECT_THAT(refusal(safetensors(fmt::format(R"({{"__metadata__":{}}})", value))), HasSubstr("__metadata__"));
  }
}

TEST(Safetensors, RefusesFieldsOfOtherTypes) {
  EXPECT_THAT(refusal(one(R"("shape":[2],"data_offsets":[0,8])")), HasSubstr("tensor a has no \"dtype\""));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","data_offsets":[0,8])")), HasSubstr("tensor a has no \"shape\""));
  EXPECT_THAT(refusal(one(R"("dtype":"F32","shape":[2])")), HasSubstr("tensor a has no \"data_offsets\""));
  // A name that owns memory, and a number that is none after it: once freed twice.
  const std::string name(40, 'n');
  for (const char* offsets : {"[-1,8]", "[0,-8]", R"([0,"x"])", "[0,1.5]"}) {
    EXPECT_THAT(refusal(safetensors(
                    fmt::format(R"({{"{}":{{"dtype":"F32","shape":[2],"data_offsets":{}}}}})", name, offsets), kEight)),
                HasSubstr(name));
  }
  for (const char* tensor : {"null", "7", "[\"F32\",[2],[0,8]]", "\"F32\""}) {
    refusal(safetensors(fmt::format(R"({{"a":{}}})", tensor), kEight));
  }
  for (const char* dtype : {"\"FOO\"", "\"f32\"", "5", "null"}) {
    EXPECT_THAT(refusal(one(dtype, "[2]", "[0,8]")), HasSubstr("a has an unknown \"dtype\""));
  }
  for (const char* shape : {"2", "null", "[-2]", "[2.0]", "[\"2\"]", "[[2]]", "[9223372036854775808]", "[1e400]"}) {
    refusal(one("\"F32\"", shape, "[0,8]"));
  }
  for (const char* offsets : {"8", "[8]", "[0,8,8]", "[0,-8]", "[0,8.0]", "[null,8]", "{}"}) {
    refusal(one("\"F32\"", "[2]", offsets));
  }
}

TEST(Safetensors, RefusesOffsetsThatLeaveHolesOrTheFile) {
  const auto two = [](const char* first, const char* second, std::size_t n_bytes) {
    return safetensors(fmt::format(R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":{}}},)"
                                   R"("b":{{"dtype":"F32","shape":[2],"data_offsets":{}}}}})",
                                   first, second),
                       std::string(n_bytes, 'x'));
  };
  EXPECT_NO_THROW(parse(two("[0,8]", "[8,16]", 16)));
  EXPECT_THAT(refusal(two("[0,8]", "[0,8]", 8)), HasSubstr("tensor b"));          // overlap
  EXPECT_THAT(refusal(two("[0,8]", "[16,24]", 24)), HasSubstr("start at 8"));     // hole
  EXPECT_THAT(refusal(two("[8,16]", "[16,24]", 24)), HasSubstr("start at 0"));    // hole at the start
  EXPECT_THAT(refusal(two("[0,8]", "[8,16]", 15)), HasSubstr("end by 15"));       // truncated
  EXPECT_THAT(refusal(two("[0,8]", "[8,16]", 24)), HasSubstr("end at byte 16"));  // trailing bytes
  EXPECT_THAT(refusal(two("[8,0]", "[8,16]", 16)), HasSubstr("tensor a"));        // backwards
  refusal(two("[0,8]", "[8,9223372036854775807]", 16));
  refusal(two("[0,8]", "[8,18446744073709551600]", 16));
  refusal(safetensors("{}", kEight));
}

TEST(Safetensors, RefusesShapesThatDisagreeWithTheirBytes) {
  EXPECT_THAT(refusal(one("\"F32\"", "[3]", "[0,8]")), HasSubstr("takes 12 bytes, its offsets give it 8"));
  EXPECT_THAT(refusal(one("\"F16\"", "[3]", "[0,8]")), HasSubstr("takes 6 bytes"));
  EXPECT_THAT(refusal(one("\"F4\"", "[3]", "[0,8]")), HasSubstr("ends within a byte"));
  for (const char* shape : {"[4611686018427387904,4]", "[4611686018427387904,4611686018427387904,0]",
                            "[2305843009213693952]", "[4294967296,4294967296]"}) {
    EXPECT_THAT(refusal(one("\"F32\"", shape, "[0,0]", "")), HasSubstr("tensor a"));
  }
}

TEST(Safetensors, RefusesTruncationAtEveryLength) {
  const std::string content = read_file(testing::test_data("files/formats.safetensors"));
  for (std::size_t n = 0; n < content.size(); ++n) {
    thrown(ErrorKind::kCorruptData, [&] { SafetensorsFile(bytes_of(content).first(n), "x.safetensors"); });
  }
}

TEST(Safetensors, SurvivesRandomByteFlips) {
  const std::string original = read_file(testing::test_data("files/formats.safetensors"));
  std::mt19937 random(1);
  int n_refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string content = original;
    for (std::uint32_t flips = random() % 4 + 1; flips > 0; --flips) {
      content[random() % 900] ^= static_cast<char>(1 + random() % 255);
    }
    try {
      const SafetensorsFile file = parse(content);
      for (const auto& tensor : file.tensors()) {
        ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes_of(content).data() + content.size());
      }
    } catch (const Error&) {
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, 1000);
}

TEST(Safetensors, SaysWhatIsWrongWithThePath) {
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { SafetensorsFile("/no/such.safetensors"); }), HasSubstr("/no/such"));
}

}  // namespace
}  // namespace mneme
