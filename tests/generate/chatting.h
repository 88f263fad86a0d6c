#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "mneme/generate/chat_session.h"
#include "tests/generate/golden.h"
#include "tests/support/tiny_model.h"

namespace mneme::testing {

/// Conversations with a tiny random model.
class Chatting : public ::testing::Test {
 protected:
  using Ids = std::vector<std::int64_t>;

  Chatting() { load(); }
  void load(const char* chat_template = kTinyTemplate) {
    Json config = read_json_file(tiny_.path("tokenizer_config.json"));
    config["chat_template"] = chat_template;
    tiny_.write("tokenizer_config.json", config.dump());
    model_ = AutoModelForCausalLM::from_pretrained(tiny_.path(), {.dtype = at::kFloat});
    tokenizer_ = std::make_shared<const TextTokenizer>(AutoTokenizer::from_pretrained(tiny_.path()));
  }
  ChatSession chat(GenerateOptions options = {}, ChatOptions more = {}) const {
    if (!options.max_new_tokens) options.max_new_tokens = 7;
    options.suppress_tokens = specials();
    more.generate = std::move(options);
    return {model_, tokenizer_, more};
  }
  /// Special tokens, which a random model says anywhere, and ids without a token.
  static Ids specials() {
    Ids ids;
    for (std::int64_t id = 500; id < 512; ++id) ids.push_back(id);
    return ids;
  }
  /// What the model answers to these ids without any past.
  Ids cold(const Ids& ids, std::int64_t n, GenerateOptions options = {}) const {
    options.max_new_tokens = n;
    options.suppress_tokens = specials();
    return model_->generate(tensor_of({ids}), options).new_tokens[0];
  }
  /// The answer at the end of a session's ids is what a cold run gives.
  void expect_cold(const ChatSession& session, const ChatReply& reply, const GenerateOptions& options = {}) const {
    const auto n = static_cast<std::ptrdiff_t>(reply.new_tokens);
    const Ids prompt(session.ids().begin(), session.ids().end() - n);
    EXPECT_EQ(cold(prompt, reply.new_tokens, options), Ids(session.ids().end() - n, session.ids().end()));
  }

  TinyModel tiny_;
  std::shared_ptr<const CausalLM> model_;
  std::shared_ptr<const TextTokenizer> tokenizer_;
};

}  // namespace mneme::testing
