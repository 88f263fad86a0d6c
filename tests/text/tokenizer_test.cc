#include "mneme/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "mneme/text/detokenizer.h"
#include "tests/support/default_model.h"
#include "tests/support/files.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

const std::string kFolder = testing::test_data("tokenizers/");

std::string stream(const Tokenizer& tokenizer, const Ids& ids, DecodeOptions options) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const std::int64_t id : ids) text += detokenizer.put(id);
  return text + detokenizer.finish();
}

/// A tokenizer of tests/golden/make_tokenizers.py and what the Python originals answer.
class FixtureTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = kFolder + GetParam();
    golden_ = read_json_file(path.ends_with(".gguf") ? path + ".json" : path);
    tokenizer_.emplace(path.ends_with(".gguf") ? Tokenizer::from_pretrained(path)
                                               : Tokenizer::from_json(golden_["tokenizer"], golden_["config"], path));
  }

  Json golden_;
  std::optional<Tokenizer> tokenizer_;
  Json texts_ = read_json_file(kFolder + "texts.json");
};

TEST_P(FixtureTest, EncodesAsTheOriginal) {
  ASSERT_GT(texts_.size(), 250u);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::string text = texts_[i];
    const Json ids = tokenizer_->encode(text, {.add_special_tokens = false});
    EXPECT_EQ(ids, golden_["ids"][i]) << texts_[i];
    const Json& special = golden_["special_ids"][i];
    EXPECT_EQ(Json(tokenizer_->encode(text)), special.is_null() ? golden_["ids"][i] : special) << texts_[i];
  }
}

TEST_P(FixtureTest, DecodesAsTheOriginal) {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const Json& special = golden_["special_ids"][i];
    const Ids ids = special.is_null() ? golden_["ids"][i] : special;
    const Json& decoded = golden_["decoded"][i].is_null() ? texts_[i] : golden_["decoded"][i];
    EXPECT_EQ(Json(tokenizer_->decode(ids)), decoded);
    const Json& skipped = golden_["skipped"][i].is_null() ? decoded : golden_["skipped"][i];
    EXPECT_EQ(Json(tokenizer_->decode(ids, {.skip_special_tokens = true})), skipped);
  }
  for (std::size_t i = 0; i < golden_["lists"].size(); ++i) {
    EXPECT_EQ(Json(tokenizer_->decode(golden_["lists"][i].get<Ids>())), golden_["list_texts"][i])
        << golden_["lists"][i];
  }
}

TEST_P(FixtureTest, PiecesOfAStreamAreTheWholeText) {
  std::mt19937 random(11);
  std::uniform_int_distribution<std::int64_t> any_id(0, tokenizer_->vocab_size() - 1);
  for (int round = 0; round < 500; ++round) {
    Ids ids(1 + random() % 30);
    for (std::int64_t& id : ids) id = any_id(random);
    for (const bool skip : {false, true}) {
      EXPECT_EQ(stream(*tokenizer_, ids, {skip}), tokenizer_->decode(ids, {skip})) << Json(ids);
    }
  }
}

TEST_P(FixtureTest, FindsEveryTokenByItsText) {
  for (std::int64_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    const auto token = tokenizer_->id_to_token(id);
    ASSERT_TRUE(token) << id;
    EXPECT_EQ(tokenizer_->token_to_id(*token), id) << *token;
  }
  EXPECT_EQ(tokenizer_->token_to_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer_->id_to_token(tokenizer_->vocab_size()), std::nullopt);
  EXPECT_EQ(tokenizer_->id_to_token(-1), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Families, FixtureTest,
                         ::testing::Values("gpt2.json", "llama3.json", "qwen2.json", "smollm2.json", "roberta.json",
                                           "kimi.json", "splits.json", "llama2.json", "mistral.json", "gemma.json",
                                           "phi3.json", "metaspace.json", "bert.json", "words.json", "bare.json",
                                           "llama.gguf", "phi3.gguf", "gemma.gguf", "llama-bpe.gguf", "qwen2.gguf",
                                           "tekken.gguf", "default.gguf", "o200k.json", "cl100k.json", "t5.json",
                                           "xlm.json", "wordpiece.json", "uncased.json"),
                         [](const auto& test) {
                           std::string name = test.param.substr(0, test.param.find(".json"));
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

TEST(TokenizerTest, GivesTheIdsOfTheDefaultModel) {
  const std::string path = testing::default_model_path();
  if (path.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
  const Tokenizer tokenizer = Tokenizer::from_pretrained(path);
  const Json golden = read_json_file(testing::test_data("smollm2.json"));
  for (const Json& test : golden["tokenizer"]) {
    EXPECT_EQ(Json(tokenizer.encode(test["text"].get<std::string>())), test["ids"]) << test["text"];
    EXPECT_EQ(Json(tokenizer.decode(test["ids"].get<Ids>())), test["decoded"]);
  }
  for (const Json& chat : golden["chat"])
    EXPECT_EQ(Json(tokenizer.encode(chat["text"].get<std::string>())), chat["ids"]);
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.bos()->text, "<|im_start|>");
  EXPECT_EQ(tokenizer.eos()->id, 2);
  EXPECT_EQ(tokenizer.unk()->text, "<|endoftext|>");
  EXPECT_TRUE(tokenizer.is_special(2));
  EXPECT_FALSE(tokenizer.is_special(2000));
  ASSERT_NE(tokenizer.chat_template(), nullptr);
  EXPECT_TRUE(tokenizer.chat_template()->starts_with("{% for message in messages %}"));
}

/// A tokenizer of the letters a, b, their merge, and the token <s>.
Json small_tokenizer() {
  return parse_json(R"({"added_tokens": [{"id": 3, "content": "<s>", "special": true}],
                        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})",
                    "small");
}

TEST(TokenizerTest, CountsInvalidUtf8AsReplacementCharacters) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["\uFFFD"] = 4;
  const Tokenizer tokenizer = Tokenizer::from_json(json);
  EXPECT_EQ(tokenizer.encode("a\xff"), (Ids{0, 4}));
  EXPECT_EQ(tokenizer.encode("\xe6\x97"
                             "ab\xf0\x9f"),
            (Ids{4, 2, 4}));
}

TEST(TokenizerTest, ReadsRolesAndTemplatesOfTheConfig) {
  const Json config =
      parse_json(R"({"bos_token": "<s>", "eos_token": {"content": "b"}, "pad_token": "<new>", "unk_token": null,
                                     "chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]})",
                 "config");
  const Tokenizer tokenizer = Tokenizer::from_json(small_tokenizer(), config);
  EXPECT_EQ(tokenizer.bos()->id, 3);
  EXPECT_EQ(tokenizer.eos()->id, 1);
  EXPECT_EQ(tokenizer.pad()->id, 4);  // a new token
  EXPECT_EQ(tokenizer.unk(), nullptr);
  EXPECT_TRUE(tokenizer.is_special(1));
  EXPECT_EQ(tokenizer.vocab_size(), 5);
  EXPECT_EQ(*tokenizer.chat_template(), "A");
  EXPECT_EQ(*tokenizer.chat_template("tool_use"), "B");
  EXPECT_EQ(tokenizer.chat_template("none"), nullptr);
}

TEST(TokenizerTest, ReadsAllFilesOfAFolder) {
  const testing::TempFolder folder;
  std::filesystem::create_directory(folder.path() + "/additional_chat_templates");
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"bos_token": "a", "chat_template": "old"})");
  folder.write("special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": "b"})");
  folder.write("chat_template.jinja", "new");
  folder.write("additional_chat_templates/rag.jinja", "other");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path());
  EXPECT_EQ(tokenizer.bos()->text, "<s>");
  EXPECT_EQ(tokenizer.eos()->text, "b");
  EXPECT_EQ(*tokenizer.chat_template(), "new");
  EXPECT_EQ(*tokenizer.chat_template("rag"), "other");
}

TEST(TokenizerTest, SaysWhichFileIsMissingOrBroken) {
  const testing::TempFolder folder;
  const auto error = [&](ErrorKind kind) {
    return testing::thrown(kind, [&] { Tokenizer::from_pretrained(folder.path()); });
  };
  EXPECT_THAT(testing::thrown(ErrorKind::kIo, [&] { Tokenizer::from_pretrained(folder.path() + "/none"); }),
              HasSubstr("/none: there is no such file"));
  EXPECT_THAT(error(ErrorKind::kIo), HasSubstr("no tokenizer.json"));
  folder.write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(error(ErrorKind::kCorruptData), HasSubstr("not valid JSON"));
  folder.write("tokenizer.json", small_tokenizer().dump());
  folder.write("tokenizer_config.json", "[]");
  EXPECT_THAT(error(ErrorKind::kCorruptData), HasSubstr("tokenizer_config.json: must be an object"));
}

TEST(TokenizerTest, RefusesIdsOutsideTheVocabulary) {
  const Tokenizer tokenizer = Tokenizer::from_json(small_tokenizer());
  for (const std::int64_t id : {std::int64_t{4}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(testing::thrown(ErrorKind::kOutOfRange,
                              [&] {
                                tokenizer.decode(Ids{0, id});
                              }),
              fmt::format("token id {} is outside the vocabulary of 4 tokens", id));
  }
}

TEST(TokenizerTest, SkipsHolesInTheVocabulary) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["z"] = 9;
  const Tokenizer tokenizer = Tokenizer::from_json(json);
  EXPECT_EQ(tokenizer.decode(Ids{0, 7, 9}), "a z");
  EXPECT_EQ(tokenizer.id_to_token(7), std::nullopt);
}

TEST(TokenizerTest, IsSharedByThreads) {
  const Tokenizer tokenizer = Tokenizer::from_json(read_json_file(kFolder + "llama3.json")["tokenizer"]);
  const std::string text = "The quick brown fox, 12345 日本語 😀 it's\n\n";
  const Ids expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::atomic<int> n_wrong = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        n_wrong += tokenizer.encode(text) != expected || tokenizer.decode(expected).empty();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
}

}  // namespace
}  // namespace mneme
