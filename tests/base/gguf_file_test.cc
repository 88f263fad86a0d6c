#include "mneme/base/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "mneme/base/error.h"
#include "tests/support/files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::gguf_string;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::raw;
using testing::read_file;
using testing::thrown;

enum : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

std::string array(std::uint32_t type, std::uint64_t n, const std::string& items) { return raw(type) + raw(n) + items; }

/// Two tensors, 96 bytes of data.
GgufWriter small() {
  GgufWriter file;
  file.keys = {{"general.architecture", kString, gguf_string("llama")}, {"general.alignment", kU32, raw(32u)}};
  file.tensors = {{"a", {4, 2}, 0, 0}, {"b", {32}, 2, 32}};
  file.data.assign(96, '\x11');
  return file;
}

GgufFile parse(const std::string& content) { return GgufFile(bytes_of(content), "x.gguf"); }

std::string refusal(const GgufWriter& file, ErrorKind kind = ErrorKind::kCorruptData) {
  const std::string content = file.str();
  const std::string message = thrown(kind, [&] { parse(content); });
  EXPECT_THAT(message, HasSubstr("x.gguf"));
  return message;
}

TEST(GgufFile, AFileWithHolesCannotAskForMoreMemoryThanAnyModelNeeds) {
  const testing::TempFolder folder;
  const std::string head = raw<std::uint32_t>(0x46554747) + raw(3u) + raw<std::uint64_t>(0) + raw<std::uint64_t>(1);
  const std::pair<std::uint32_t, std::string> values[] = {{kArray, raw(kU8) + raw<std::uint64_t>(1 << 30)},
                                                          {kArray, raw(kString) + raw<std::uint64_t>(100 << 20)},
                                                          {kString, raw<std::uint64_t>(1 << 30)}};
  for (const auto& [type, value] : values) {
    const std::string path = folder.write("x.gguf", head + gguf_string("a") + raw(type) + value);
    std::filesystem::resize_file(path, std::uintmax_t{2} << 30);
    thrown(ErrorKind::kCorruptData, [&] { GgufFile{path}; });
  }
}

TEST(GgufFile, ReadsEveryKindOfValue) {
  GgufWriter file;
  file.keys = {{"u8", kU8, raw<std::uint8_t>(255)},
               {"i8", kI8, raw<std::int8_t>(-128)},
               {"u16", kU16, raw<std::uint16_t>(65535)},
               {"i16", kI16, raw<std::int16_t>(-32768)},
               {"u32", kU32, raw(4294967295u)},
               {"i32", kI32, raw(-5)},
               {"f32", kF32, raw(0.5f)},
               {"yes", kBool, raw<std::uint8_t>(1)},
               {"no", kBool, raw<std::uint8_t>(0)},
               {"text", kString, gguf_string("h\u00e9")},
               {"bytes", kString, gguf_string("\xff\xfe")},
               {"u64", kU64, raw(~std::uint64_t{0})},
               {"i64", kI64, raw(INT64_MIN)},
               {"f64", kF64, raw(0.1)},
               {"list", kArray, array(kI32, 3, raw(1) + raw(-2) + raw(3))},
               {"words", kArray, array(kString, 2, gguf_string("a") + gguf_string(""))},
               {"nested", kArray, array(kArray, 2, array(kU8, 1, "\x07") + array(kBool, 0, ""))}};
  const Json json = parse(file.str()).metadata();
  EXPECT_EQ(json["u8"], 255);
  EXPECT_EQ(json["i8"], -128);
  EXPECT_EQ(json["u16"], 65535);
  EXPECT_EQ(json["i16"], -32768);
  EXPECT_EQ(json["u32"], 4294967295u);
  EXPECT_EQ(json["i32"], -5);
  EXPECT_EQ(json["f32"], 0.5);
  EXPECT_EQ(json["yes"], true);
  EXPECT_EQ(json["no"], false);
  EXPECT_EQ(json["text"], "h\u00e9");
  EXPECT_EQ(json["bytes"].get<std::string>(), "\xff\xfe");
  EXPECT_EQ(json["u64"], ~std::uint64_t{0});
  EXPECT_EQ(json["i64"], INT64_MIN);
  EXPECT_EQ(json["f64"], 0.1);
  EXPECT_EQ(json["list"].dump(), "[1,-2,3]");
  EXPECT_EQ(json["words"].dump(), "[\"a\",\"\"]");
  EXPECT_EQ(json["nested"].dump(), "[[7],[]]");
}

TEST(GgufFile, ReadsTheTableOfTensors) {
  const std::string content = small().str();
  const GgufFile file = parse(content);
  ASSERT_EQ(file.tensors().size(), 2u);
  const auto& [a, b] = std::pair(file.tensors()[0], file.tensors()[1]);
  EXPECT_EQ(a.name, "a");
  EXPECT_THAT(a.shape, ElementsAre(2, 4));
  EXPECT_EQ(a.data.size(), 32u);
  EXPECT_EQ(a.data.data(), bytes_of(content).data() + content.size() - 96);
  EXPECT_THAT(b.shape, ElementsAre(32));
  EXPECT_EQ(b.type, 2u);
  EXPECT_EQ(b.data.size(), 18u);
  EXPECT_EQ(b.data.data(), a.data.data() + 32);
}

TEST(GgufFile, ReadsWhatThePythonLibraryWrites) {
  const GgufFile file(testing::test_data("files/llama.gguf"));
  EXPECT_EQ(file.metadata()["general.architecture"], "llama");
  EXPECT_EQ(file.metadata()["tokenizer.ggml.tokens"].size(), 32u);
  EXPECT_EQ(file.tensors().size(), 15u);
}

TEST(GgufFile, AcceptsVersion2AndOverlapsAndUnknownTypesAndScalars) {
  GgufWriter file = small();
  file.version = 2;
  file.tensors[1].offset = 0;
  file.tensors.push_back({"scalar", {}, 0, 64});
  file.tensors.push_back({"odd", {7}, 4000, 96});
  const std::string content = file.str();
  const GgufFile parsed = parse(content);
  EXPECT_EQ(parsed.tensors()[1].data.data(), parsed.tensors()[0].data.data());
  EXPECT_TRUE(parsed.tensors()[2].shape.empty());
  EXPECT_EQ(parsed.tensors()[2].data.size(), 4u);
  EXPECT_TRUE(parsed.tensors()[3].data.empty());
}

TEST(GgufFile, RefusesOtherFilesAndVersions) {
  GgufWriter file = small();
  file.magic = "GGML";
  EXPECT_THAT(refusal(file), HasSubstr("does not start with \"GGUF\""));
  file = small();
  for (const std::uint32_t version : {0u, 1u, 4u, 99u}) {
    file.version = version;
    EXPECT_THAT(refusal(file, ErrorKind::kUnsupported), HasSubstr(fmt::format("version {}", version)));
  }
  file.version = 0x03000000;
  EXPECT_THAT(refusal(file, ErrorKind::kUnsupported), HasSubstr("big-endian"));
}

TEST(GgufFile, RefusesCountsThatTheFileCannotHold) {
  for (const std::uint64_t count :
       {std::uint64_t{5}, std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0} - 2}) {
    GgufWriter file = small();
    file.extra_tensors = count;
    refusal(file);
    file = small();
    file.extra_keys = count;
    refusal(file);
    file = small();
    file.keys.push_back({"list", kArray, array(kU8, count + 200, "")});
    EXPECT_THAT(refusal(file), HasSubstr("list"));
    file.keys.back() = {"text", kString, raw(count + 200)};
    EXPECT_THAT(refusal(file), HasSubstr("text"));
  }
}

TEST(GgufFile, RefusesMetadataThatIsNoMetadata) {
  GgufWriter file = small();
  file.keys.push_back({"general.architecture", kU8, "\x01"});
  EXPECT_THAT(refusal(file), HasSubstr("general.architecture occurs twice"));
  file.keys.back() = {"k", 13, "1234"};
  EXPECT_THAT(refusal(file), HasSubstr("unknown value type 13"));
  file.keys.back() = {"k", kArray, array(77, 1, "1234")};
  EXPECT_THAT(refusal(file), HasSubstr("unknown value type 77"));
  file.keys.back() = {"k", kBool, "\x02"};
  EXPECT_THAT(refusal(file), HasSubstr("truth value of 2"));
  file.keys.back() = {"", kU8, "\x02"};
  EXPECT_THAT(refusal(file), HasSubstr("0 bytes long"));
  file.keys.back() = {"k", kArray,
                      array(kArray, 1, array(kArray, 1, array(kArray, 1, array(kArray, 1, array(kU8, 0, "")))))};
  EXPECT_THAT(refusal(file), HasSubstr("deeper than 4"));
}

TEST(GgufFile, RefusesAlignmentsThatAreNoPowerOfTwo) {
  for (const std::uint64_t alignment : {0ull, 3ull, 48ull, 1ull << 21, 1ull << 63, ~0ull}) {
    GgufWriter file = small();
    file.keys[1] = {"general.alignment", kU64, raw<std::uint64_t>(alignment)};
    EXPECT_THAT(refusal(file), HasSubstr("general.alignment"));
  }
  GgufWriter file = small();
  file.keys[1] = {"general.alignment", kString, gguf_string("32")};
  EXPECT_THAT(refusal(file), HasSubstr("general.alignment"));
  file.keys[1] = {"general.alignment", kU32, raw(8u)};
  file.alignment = 8;
  file.tensors[1].offset = 40;
  const std::string content = file.str();
  EXPECT_EQ(parse(content).tensors()[1].data.data(), bytes_of(content).data() + content.size() - 96 + 40);
}

TEST(GgufFile, RefusesOffsetsOutsideTheData) {
  for (const std::uint64_t offset :
       {std::uint64_t{96}, std::uint64_t{128}, std::uint64_t{1} << 40, ~std::uint64_t{31}}) {
    GgufWriter file = small();
    file.tensors[1].offset = offset;
    EXPECT_THAT(refusal(file), HasSubstr("tensor b"));
  }
  GgufWriter file = small();
  file.tensors[1].offset = 33;
  EXPECT_THAT(refusal(file), HasSubstr("not a multiple of the alignment 32"));
}

TEST(GgufFile, RefusesShapesThatDoNotFit) {
  const auto with_dims = [](std::vector<std::uint64_t> dims, std::uint32_t type = 0) {
    GgufWriter file = small();
    file.tensors[0].dims = std::move(dims);
    file.tensors[0].type = type;
    return file;
  };
  EXPECT_THAT(refusal(with_dims({1, 1, 1, 1, 1, 1, 1, 1, 1})), HasSubstr("9 dimensions"));
  EXPECT_THAT(refusal(with_dims({4, 0})), HasSubstr("dimension of 0"));
  EXPECT_THAT(refusal(with_dims({std::uint64_t{1} << 63})), HasSubstr("dimension of 9223372036854775808"));
  EXPECT_THAT(refusal(with_dims({25})), HasSubstr("tensor a"));
  EXPECT_THAT(refusal(with_dims({31}, 8)), HasSubstr("not a multiple of the 32 of a Q8_0 block"));
  // Products that wrap to a small number.
  const std::uint64_t half = std::uint64_t{1} << 32;
  EXPECT_THAT(refusal(with_dims({half, half})), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(with_dims({half / 2, half / 2, 4, 1})), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(with_dims({std::uint64_t{1} << 62})), HasSubstr("does not fit"));
}

TEST(GgufFile, RefusesATensorNamedTwice) {
  GgufWriter file = small();
  file.tensors[1].name = "a";
  EXPECT_THAT(refusal(file), HasSubstr("tensor a occurs twice"));
}

TEST(GgufFile, MessagesArePrintableWhateverTheNames) {
  GgufWriter file = small();
  file.tensors[1] = {"\x1b[2J\xff" + std::string(1000, 'n'), {32}, 0, 1 << 20};
  const std::string message = refusal(file);
  EXPECT_LT(message.size(), 300u);
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(GgufFile, RefusesTruncationAtEveryLength) {
  const std::string content = small().str();
  for (std::size_t n = 0; n + 46 < content.size(); ++n) {  // the last 46 bytes are padding that no tensor needs
    const std::string message =
        thrown(ErrorKind::kCorruptData, [&] { GgufFile(bytes_of(content).first(n), "x.gguf"); });
    EXPECT_THAT(message, HasSubstr("x.gguf")) << n;
  }
  EXPECT_NO_THROW(GgufFile(bytes_of(content).first(content.size() - 46), "x.gguf"));
}

TEST(GgufFile, SurvivesRandomByteFlips) {
  const std::string original = read_file(testing::test_data("files/llama.gguf")).substr(0, 4096);
  std::mt19937 random(1);
  int n_refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string content = original + std::string(16384, '\0');
    for (std::uint32_t flips = random() % 4 + 1; flips > 0; --flips) {
      content[random() % 1800] ^= static_cast<char>(1 + random() % 255);
    }
    try {
      const GgufFile file = parse(content);
      for (const auto& tensor : file.tensors()) {
        const std::byte* end = bytes_of(content).data() + content.size();
        ASSERT_TRUE(tensor.data.empty() || tensor.data.data() + tensor.data.size() <= end);
      }
    } catch (const Error&) {
      ++n_refused;
    }
  }
  EXPECT_GT(n_refused, 1000);
}

TEST(GgufFile, SaysWhatIsWrongWithThePath) {
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { GgufFile("/no/such.gguf"); }), HasSubstr("/no/such.gguf"));
  const testing::TempFolder folder;
  const std::string empty = folder.write("empty.gguf", "");
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { GgufFile file(empty); }), HasSubstr("empty.gguf"));
}

TEST(GgufFile, KnowsTheBlocksOfEveryType) {
  EXPECT_STREQ(ggml_type_info(3).name, "Q4_1");
  EXPECT_EQ(ggml_type_info(3).block_bytes, 20);
  EXPECT_STREQ(ggml_type_info(14).name, "Q6_K");
  EXPECT_EQ(ggml_type_info(14).block_elements, 256);
  EXPECT_EQ(ggml_type_info(30).block_bytes, 2);
  for (const std::uint32_t gap : {4u, 5u, 31u, 36u, 1000u, ~0u}) EXPECT_EQ(ggml_type_info(gap).block_bytes, 0);
}

}  // namespace
}  // namespace mneme
