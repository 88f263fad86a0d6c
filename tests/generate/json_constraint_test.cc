#include "mneme/generate/json_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>

#include "mneme/base/json.h"
#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/default_model.h"
#include "tests/support/thrown.h"
#include "tests/support/tiny_model.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::tensor_of;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

constexpr const char* kPerson = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5},
    "age": {"type": "integer", "minimum": 13, "maximum": 19}, "tags": {"type": "array", "items": {"enum": ["x", "y"]},
    "maxItems": 3}}, "required": ["name", "age"]})";

/// A model whose weights are random writes noise, which is all that a schema has to hold.
class JsonConstraintTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = AutoModelForCausalLM::from_pretrained(files_.path(), {.dtype = at::kFloat});
    options_.max_new_tokens = 250;
    options_.eos_token_id = Ids{kEos};
    options_.json_constraint = std::make_shared<const JsonConstraint>(JsonSchema::parse(kPerson), tokenizer_);
  }

  std::string text_of(const Ids& ids) const { return tokenizer_.decode(ids, {.skip_special_tokens = true}); }

  void expect_person(const std::string& text) const {
    const Json person = parse_json(text, "text");
    ASSERT_TRUE(person.is_object()) << text;
    EXPECT_LE(person.at("name").get<std::string>().size(), 20u);
    EXPECT_GE(person.at("age").get<int>(), 13);
    EXPECT_LE(person.at("age").get<int>(), 19);
    if (person.contains("tags")) {
      EXPECT_LE(person["tags"].size(), 3u);
    }
  }

  static constexpr std::int64_t kEos = 502;  // <|im_end|>
  testing::TinyModel files_;
  Tokenizer tokenizer_ = Tokenizer::from_pretrained(files_.path());
  std::shared_ptr<const CausalLM> model_;
  GenerateOptions options_;
};

TEST_F(JsonConstraintTest, WhatEndsObeysTheSchema) {
  int n_ended = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GenerateOptions options = options_;
    options.do_sample = seed > 0;
    options.top_k = 0;
    options.seed = seed;
    const GenerateOutput output = model_->generate(tensor_of({{5, 6, 7}, {9, 9, 9}}), options);
    for (std::size_t i = 0; i < 2; ++i) {
      if (output.finish_reasons[i] != "stop") continue;
      ++n_ended;
      EXPECT_EQ(output.new_tokens[i].back(), kEos);
      expect_person(text_of(output.new_tokens[i]));
    }
  }
  EXPECT_GT(n_ended, 20);
}

TEST_F(JsonConstraintTest, GoesWithBeamsDraftsAndEveryCache) {
  options_.do_sample = false;
  const at::Tensor prompt = tensor_of({{5, 6, 7}});
  const GenerateOutput plain = model_->generate(prompt, options_);
  std::array<GenerateOptions, 3> ways = {options_, options_, options_};
  ways[0].prompt_lookup_num_tokens = 4;
  ways[1].assistant_model = model_.get(), ways[1].assistant_confidence_threshold = 0;
  ways[2].use_cache = false;
  for (const GenerateOptions& way : ways) EXPECT_EQ(model_->generate(prompt, way).new_tokens, plain.new_tokens);
  GenerateOptions beams = options_;
  beams.num_beams = beams.num_return_sequences = 3;
  beams.repetition_penalty = 1.3;
  const GenerateOutput several = model_->generate(prompt, beams);
  for (std::size_t i = 0; i < 3; ++i) {
    if (several.finish_reasons[i] == "stop") expect_person(text_of(several.new_tokens[i]));
  }
}

TEST_F(JsonConstraintTest, OneGoesWithManyThreadsConcurrently) {
  const GenerateOutput expected = model_->generate(tensor_of({{5, 6}}), options_);
  std::vector<std::thread> threads;
  std::array<Ids, 3> results;
  for (Ids& result : results) {
    threads.emplace_back([&] { result = model_->generate(tensor_of({{5, 6}}), options_).new_tokens[0]; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected.new_tokens[0]);
}

/// What the processor lets through behind some text.
class AllowedTest : public JsonConstraintTest {
 protected:
  std::set<std::string> allowed(const JsonConstraint& constraint, const std::string& text) const {
    Ids ids = {5, 6};
    for (const std::int64_t id : tokenizer_.encode(text, {.add_special_tokens = false})) ids.push_back(id);
    std::vector<float> scores(512, 1.0f);
    constraint.processor({kEos})(scores, {.tokens = ids, .prompt_length = 2});
    std::set<std::string> tokens;
    for (std::int64_t id = 0; id < 512; ++id) {
      if (scores[static_cast<std::size_t>(id)] != 1.0f) continue;
      tokens.insert(id == kEos ? "<eos>" : tokenizer_.decode(Ids{id}));
    }
    return tokens;
  }
};

TEST_F(AllowedTest, TokensLeadToTextsThatMatch) {
  const JsonConstraint constraint(JsonSchema::parse(R"({"enum": ["then", "them", "a"]})"), tokenizer_);
  const std::set<std::string> first = allowed(constraint, "");
  EXPECT_TRUE(first.contains("\""));
  EXPECT_FALSE(first.contains("t"));
  const std::set<std::string> inside = allowed(constraint, "\"");
  EXPECT_TRUE(inside.contains("t"));
  EXPECT_TRUE(inside.contains("a"));
  EXPECT_FALSE(inside.contains(" the"));
  EXPECT_FALSE(inside.contains("to"));
  const std::set<std::string> behind = allowed(constraint, "\"t");
  EXPECT_TRUE(behind.contains("h"));
  EXPECT_TRUE(behind.contains("he"));
  EXPECT_EQ(allowed(constraint, "\"the"), (std::set<std::string>{"m", "n"}));
  EXPECT_EQ(allowed(constraint, "\"a\""), std::set<std::string>{"<eos>"});
}

TEST_F(AllowedTest, AnEndIsAllowedWhereATextMayAlsoGoOn) {
  const JsonConstraint constraint(JsonSchema::parse(R"({"type": "integer", "maximum": 120, "minimum": 3})"),
                                  tokenizer_);
  EXPECT_TRUE(allowed(constraint, "12").contains("<eos>"));
  EXPECT_TRUE(allowed(constraint, "12").contains("0"));
  EXPECT_FALSE(allowed(constraint, "12").contains("1"));
  EXPECT_FALSE(allowed(constraint, "1").contains("<eos>"));
}

TEST_F(JsonConstraintTest, WhatCannotBeIsRefused) {
  const at::Tensor prompt = tensor_of({{5}});
  GenerateOptions endless = options_;
  endless.eos_token_id = Ids{};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { model_->generate(prompt, endless); }), HasSubstr("eos"));
  GenerateOptions forced = options_;
  forced.forced_bos_token_id = 7;  // no JSON begins with it
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { model_->generate(prompt, forced); }),
              HasSubstr("does not fit the JSON schema"));
}

TEST(JsonConstraintOfSmolLM2Test, WritesJson) {
  const std::string path = testing::default_model_path();
  if (path.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
#ifndef NDEBUG
  GTEST_SKIP() << "takes minutes without optimization";
#endif
  const auto model = AutoModelForCausalLM::from_pretrained(path);
  const TextTokenizer tokenizer = AutoTokenizer::from_pretrained(path);
  const std::string text = tokenizer.apply_chat_template({{.role = "user", .content = "Describe Paris as JSON."}},
                                                         {.add_generation_prompt = true});
  const auto constraint = std::make_shared<const JsonConstraint>(
      JsonSchema::parse(R"({"type": "object", "properties": {"city": {"type": "string", "maxLength": 30},
          "inhabitants": {"type": "integer", "minimum": 0}, "is_capital": {"type": "boolean"}},
          "required": ["city", "inhabitants", "is_capital"]})"),
      tokenizer.tokenizer());
  const GenerateOutput output = model->generate(tokenizer.encode(text, {.add_special_tokens = false}),
                                                {.max_new_tokens = 120, .json_constraint = constraint});
  EXPECT_EQ(output.finish_reasons[0], "stop");
  const Json city = parse_json(tokenizer.decode(output.new_tokens[0], {.skip_special_tokens = true}), "text");
  EXPECT_TRUE(city.at("city").is_string());
  EXPECT_TRUE(city.at("is_capital").is_boolean());
}

}  // namespace
}  // namespace mneme
