#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/text/tokenizer.h"
#include "tests/support/files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::gguf_string;
using ::testing::HasSubstr;
using testing::raw;
using Ids = std::vector<std::int64_t>;

enum GgufType : std::uint32_t { kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

/// GGUF metadata, key by key.
class Metadata {
 public:
  Metadata& add(const std::string& key, std::uint32_t type, const std::string& value) {
    std::erase_if(writer_.keys, [&](const auto& k) { return k.name == "tokenizer." + key; });
    writer_.keys.push_back({"tokenizer." + key, type, value});
    return *this;
  }
  Metadata& text(const std::string& key, const std::string& value) { return add(key, kString, gguf_string(value)); }
  Metadata& texts(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(kString) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += gguf_string(value);
    return add(key, kArray, bytes);
  }
  template <class T>
  Metadata& numbers(const std::string& key, std::uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw<std::uint32_t>(type) + raw<std::uint64_t>(values.size());
    for (const T value : values) bytes += raw(value);
    return add(key, kArray, bytes);
  }
  Metadata& number(const std::string& key, std::uint32_t value) { return add(key, kUint32, raw(value)); }
  Metadata& flag(const std::string& key, bool value) { return add(key, kBool, raw<std::uint8_t>(value)); }

  Tokenizer tokenizer() const {
    const std::string file = writer_.str();
    return Tokenizer::from_gguf(GgufFile(testing::bytes_of(file), "file"));
  }
  std::string error(ErrorKind kind) const {
    return testing::thrown(kind, [&] { tokenizer(); });
  }

 private:
  testing::GgufWriter writer_;
};

Metadata gpt2() {
  Metadata metadata;
  metadata.text("ggml.model", "gpt2").texts("ggml.tokens", {"a", "b", "ab", "<s>", "<｜end｜>"});
  metadata.texts("ggml.merges", {"a b"}).numbers<std::int32_t>("ggml.token_type", kInt32, {1, 1, 1, 3, 3});
  return metadata;
}

Metadata llama() {
  Metadata metadata;
  metadata.text("ggml.model", "llama").texts("ggml.tokens", {"<unk>", "<s>", "▁", "a", "▁a", "aa", "▁aa"});
  return metadata.numbers<float>("ggml.scores", kFloat32, {0, 0, -1, -2, -3, -4, -5}).number("ggml.bos_token_id", 1);
}

TEST(TokenizerGgufTest, ReadsByteLevelBpe) {
  const Tokenizer tokenizer = gpt2().number("ggml.bos_token_id", 3).flag("ggml.add_bos_token", true).tokenizer();
  EXPECT_EQ(tokenizer.encode("ab<s>a"), (Ids{3, 2, 3, 0}));
  EXPECT_EQ(tokenizer.encode("<｜end｜>", {.add_special_tokens = false}), (Ids{4}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 4}), "ab<｜end｜>");
  EXPECT_EQ(tokenizer.decode(Ids{2, 4}, {.skip_special_tokens = true}), "ab");
  EXPECT_EQ(tokenizer.bos()->id, 3);
  EXPECT_EQ(tokenizer.eos(), nullptr);
}

TEST(TokenizerGgufTest, ReadsSentencePieceByScores) {
  EXPECT_EQ(llama().tokenizer().encode("aa a"), (Ids{1, 6, 4}));
  EXPECT_EQ(llama().flag("ggml.add_space_prefix", false).flag("ggml.add_bos_token", false).tokenizer().encode("aa"),
            (Ids{5}));
  EXPECT_EQ(llama().tokenizer().decode(Ids{4, 4}), "a a");
  EXPECT_EQ(llama().flag("ggml.add_space_prefix", false).tokenizer().decode(Ids{4, 4}), " a a");
}

TEST(TokenizerGgufTest, ReadsChatTemplates) {
  Metadata metadata = gpt2();
  metadata.text("chat_template", "A").texts("chat_templates", {"rag", "missing"}).text("chat_template.rag", "B");
  EXPECT_EQ(*metadata.tokenizer().chat_template(), "A");
  EXPECT_EQ(*metadata.tokenizer().chat_template("rag"), "B");
  EXPECT_EQ(metadata.tokenizer().chat_template("missing"), nullptr);
}

TEST(TokenizerGgufTest, NamesWhatIsWrong) {
  using enum ErrorKind;
  EXPECT_THAT(Metadata().error(kCorruptData), HasSubstr("file: there is no array \"tokenizer.ggml.tokens\""));
  EXPECT_THAT(gpt2().text("ggml.model", "bert").error(kUnsupported), HasSubstr("tokenizer model \"bert\""));
  EXPECT_THAT(gpt2().text("ggml.pre", "poro-chat").error(kUnsupported), HasSubstr("pre-tokenizer \"poro-chat\""));
  EXPECT_THAT(gpt2().texts("ggml.merges", {"a c"}).error(kCorruptData), HasSubstr("needs the token \"c\""));
  EXPECT_THAT(gpt2().texts("ggml.merges", {"a"}).error(kCorruptData), HasSubstr("one space"));
  EXPECT_THAT(gpt2().numbers<std::int32_t>("ggml.merges", kInt32, {1}).error(kCorruptData),
              HasSubstr("merge is not a string"));
  EXPECT_THAT(gpt2().numbers<std::int32_t>("ggml.tokens", kInt32, {1}).error(kCorruptData),
              HasSubstr("token 0 is not a string"));
  EXPECT_THAT(gpt2().numbers<std::int32_t>("ggml.token_type", kInt32, {1}).error(kCorruptData),
              HasSubstr("has 1 entries for 5 tokens"));
  EXPECT_THAT(gpt2().numbers<float>("ggml.token_type", kFloat32, {1, 1, 1, 1, 1e30f}).error(kCorruptData),
              HasSubstr("entry 0"));
  EXPECT_THAT(gpt2().number("ggml.eos_token_id", 5).error(kCorruptData),
              HasSubstr("is 5, which is not one of the 5 tokens"));
  EXPECT_THAT(gpt2().text("ggml.eos_token_id", "\xff").error(kCorruptData),
              HasSubstr("\"tokenizer.ggml.eos_token_id\""));
  EXPECT_THAT(gpt2().number("ggml.add_bos_token", 1).error(kCorruptData), HasSubstr("true or false"));
  EXPECT_THAT(llama().numbers<float>("ggml.scores", kFloat32, {0}).error(kCorruptData),
              HasSubstr("has 1 entries for 7 tokens"));
  EXPECT_THAT(llama().numbers<float>("ggml.scores", kFloat32, std::vector<float>(7, NAN)).error(kCorruptData),
              HasSubstr("not a number"));
}

TEST(TokenizerGgufTest, TakesTokensThatAreNotUtf8) {
  const Tokenizer tokenizer = gpt2().texts("ggml.tokens", {"a", "b", "ab", "<s>", "\xff\xfe"}).tokenizer();
  EXPECT_EQ(tokenizer.decode(Ids{4}), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace mneme
