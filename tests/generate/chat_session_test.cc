#include "mneme/generate/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/generate/chatting.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::thrown;

/// A template that drops what the assistant thought from all turns but the last.
constexpr const char* kForgetsThoughts =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}"
    "{{ m.content[3:] }}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

class ChatSessionTest : public testing::Chatting {};

TEST_F(ChatSessionTest, TenTurnsComputeOnlyWhatIsNewAndEqualAColdRun) {
  for (const GenerateOptions& options :
       {GenerateOptions{}, GenerateOptions{.cache_config = {.backend = "int8", .residual_length = 0}},
        GenerateOptions{.cache_implementation = "offloaded"}}) {
    ChatSession session = chat(options);
    session.set_system_prompt("Be brief.");
    std::int64_t held = 0;
    for (int turn = 0; turn < 10; ++turn) {
      std::string streamed;
      const ChatReply reply =
          session.say("hi " + std::to_string(turn), [&](std::string_view piece) { streamed += piece; });
      EXPECT_EQ(streamed, reply.text);
      EXPECT_EQ(reply.cached_tokens, held) << turn;
      held = std::ssize(session.ids()) - 1;  // the last token was never read
      EXPECT_EQ(session.cache()->seq_length(), held);
      EXPECT_EQ(reply.prompt_tokens + reply.new_tokens, std::ssize(session.ids()));
      expect_cold(session, reply, options);
    }
    EXPECT_EQ(session.messages().size(), 21u);
  }
}

TEST_F(ChatSessionTest, WhatIsTakenBackWasNeverSaid) {
  ChatSession session = chat(), never = chat();
  session.say("one");
  never.say("one");
  session.say("something that is taken back");
  EXPECT_TRUE(session.undo());
  EXPECT_EQ(session.ids(), never.ids());
  const ChatReply reply = session.say("two"), expected = never.say("two");
  EXPECT_EQ(reply.text, expected.text);
  EXPECT_GE(reply.cached_tokens, expected.cached_tokens);  // a header may be known from what was taken back
  EXPECT_EQ(session.ids(), never.ids());
  EXPECT_TRUE(session.undo() && session.undo());
  EXPECT_FALSE(session.undo());
  EXPECT_TRUE(session.messages().empty());
}

TEST_F(ChatSessionTest, ForksShareWhatTheyHaveInCommonAndPartWays) {
  ChatSession session = chat();
  session.say("one");
  ChatSession fork = session.fork();
  const ChatReply a = session.say("left"), b = fork.say("right");
  EXPECT_GT(a.cached_tokens, 0);
  EXPECT_GE(b.cached_tokens, a.cached_tokens);
  EXPECT_EQ(session.messages()[2].content, "left");
  EXPECT_EQ(fork.messages()[2].content, "right");
  expect_cold(session, a);
  expect_cold(fork, b);
}

// From public reports (J7): a template that drops part of earlier answers.
TEST_F(ChatSessionTest, ATemplateThatRewritesEarlierAnswersReusesWhatIsBeforeThem) {
  load(kForgetsThoughts);
  ChatSession session = chat();
  Ids first_prompt;
  for (int turn = 0; turn < 5; ++turn) {
    const auto before = std::ssize(session.ids());
    const auto written = turn == 0 ? 0 : 7;
    const ChatReply reply = session.say("hi " + std::to_string(turn));
    // All of the last prompt but its last token, and no more: behind it the answer was rewritten.
    if (turn > 0) {
      EXPECT_GE(reply.cached_tokens, before - written - 1) << turn;
      EXPECT_LT(reply.cached_tokens, before) << turn;
    }
    expect_cold(session, reply);
  }
}

TEST_F(ChatSessionTest, AFullContextIsRefusedOrDropsTheOldestTurns) {
  ChatSession refuses = chat({}, {.max_context = 80});
  std::string message;
  for (int turn = 0; turn < 20 && message.empty(); ++turn) {
    const Ids before = refuses.ids();
    try {
      refuses.say("hello " + std::to_string(turn));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFailedPrecondition);
      message = error.what();
      EXPECT_EQ(refuses.ids(), before);
    }
  }
  EXPECT_THAT(message, HasSubstr("holds 80"));

  // From public reports (C7): thirty turns in a small context, never an empty answer without a reason.
  ChatSession drops = chat({}, {.max_context = 80, .full_context = FullContext::kDropOldest});
  drops.set_system_prompt("Be brief.");
  std::int64_t n_dropped = 0;
  for (int turn = 0; turn < 30; ++turn) {
    const ChatReply reply = drops.say("hello " + std::to_string(turn));
    n_dropped += reply.n_turns_dropped;
    EXPECT_GT(reply.new_tokens, 0);
    EXPECT_FALSE(reply.finish_reason.empty());
    EXPECT_LE(std::ssize(drops.ids()), 80);
    EXPECT_EQ(drops.messages().front().role, "system");
    expect_cold(drops, reply);
  }
  EXPECT_GT(n_dropped, 10);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { drops.say(std::string(600, 'x')); }), HasSubstr("holds 80"));
}

/// Sinks and a window whose positions are counted anew: each part of an answer is what a cold run over what stays
/// gives.
TEST_F(ChatSessionTest, AContextThatSlidesGoesOnInTheMiddleOfAnAnswer) {
  ChatSession session = chat({.max_new_tokens = 150}, {.max_context = 80, .full_context = FullContext::kSlide});
  session.set_system_prompt("Be brief.");
  const ChatReply first = session.say("hello");
  EXPECT_EQ(first.new_tokens, 150);
  EXPECT_EQ(first.finish_reason, "length");
  EXPECT_EQ(session.cache()->seq_length(), std::ssize(session.ids()) - 1);

  // The same by hand.
  const std::vector<ChatMessage> messages = {{.role = "system", .content = "Be brief."},
                                             {.role = "user", .content = "hello"}};
  Ids ids = tokenizer_->tokenizer().encode(tokenizer_->apply_chat_template(messages, {.add_generation_prompt = true}),
                                           {.add_special_tokens = false});
  const std::int64_t newest = (80 - 4) / 2;
  Ids written;
  std::int64_t n_gone = 0;
  while (std::ssize(written) < 150) {
    const Ids part = cold(ids, std::min<std::int64_t>(150 - std::ssize(written), 80 - std::ssize(ids)));
    ids.insert(ids.end(), part.begin(), part.end());
    written.insert(written.end(), part.begin(), part.end());
    if (std::ssize(written) == 150) break;
    n_gone += std::ssize(ids) - 4 - newest;
    ids.erase(ids.begin() + 4, ids.end() - newest);
  }
  EXPECT_EQ(session.ids(), ids);
  EXPECT_EQ(first.text, tokenizer_->decode(written));
  EXPECT_EQ(first.n_tokens_dropped, n_gone);
  EXPECT_GT(n_gone, 80);

  // Thirty turns more never stop, and what was undone was never said.
  for (int turn = 0; turn < 30; ++turn) {
    const ChatReply reply = session.say("and " + std::to_string(turn));
    EXPECT_EQ(reply.new_tokens, 150);
    EXPECT_LE(std::ssize(session.ids()), 80);
  }
  const Ids before = session.ids();
  session.say("no");
  session.undo();
  EXPECT_EQ(session.ids(), before);
  ChatSession many =
      chat({.max_new_tokens = 200}, {.max_context = 60, .full_context = FullContext::kSlide, .sink_tokens = 1000});
  EXPECT_EQ(many.say("half of the context stays").new_tokens, 200);
}

/// From one part of an answer to the next: a stop string over the border, and time.
TEST_F(ChatSessionTest, WhatEndsAnAnswerSpansTheParts) {
  const ChatOptions slides{.max_context = 80, .full_context = FullContext::kSlide};
  const ChatReply free = chat({.max_new_tokens = 150}, slides).say("hello");
  ChatSession first = chat({.max_new_tokens = 150}, slides);
  const std::int64_t n_first = 80 - first.say("hello").prompt_tokens;  // tokens of the first part
  ChatSession whole = chat({.max_new_tokens = n_first}, slides);
  const std::string before = whole.say("hello").text;
  ASSERT_TRUE(free.text.starts_with(before));
  const std::string across = free.text.substr(before.size() - 2, 4);
  const std::size_t earliest = free.text.find(across);
  const ChatReply stopped = chat({.max_new_tokens = 150, .stop_strings = {across}}, slides).say("hello");
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.text.find(across), earliest);
  EXPECT_LT(stopped.new_tokens, n_first + 8);

  ChatSession hurried = chat({.max_new_tokens = 1'000'000, .max_time = 0.2}, slides);
  const ChatReply late = hurried.say("hello");
  EXPECT_EQ(late.finish_reason, "time");
  EXPECT_LT(late.decode_ms + late.prefill_ms, 5000);
  for (const GenerateOptions& counts :
       {GenerateOptions{.forced_eos_token_id = Ids{2}}, GenerateOptions{.guidance_scale = 2}})
    thrown(ErrorKind::kInvalidArgument, [&, &o = counts] { chat(o, slides).say("hi"); });
}

TEST_F(ChatSessionTest, AStaticCacheHoldsTheWholeContext) {
  ChatSession session = chat({.cache_implementation = "static"}, {.max_context = 200}), grows = chat();
  for (const char* text : {"one", "two", "three"}) EXPECT_EQ(session.say(text).text, grows.say(text).text);
  EXPECT_EQ(session.cache()->max_length(), 200);
}

TEST_F(ChatSessionTest, OptionsThatNoChatCanHaveAreRefused) {
  thrown(ErrorKind::kInvalidArgument, [&] { chat({.use_cache = false}).say("hi"); });
  for (const std::int64_t n : {-100, -5, 0})
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { chat({}, {.max_context = n}); }), HasSubstr("max_context"));
  EXPECT_THAT(
      thrown(ErrorKind::kInvalidArgument, [&] { chat({.do_sample = true, .num_return_sequences = 2}).say("hi"); }),
      HasSubstr("num_return_sequences = 2"));
  const auto slides = [&](std::int64_t n) {
    return ChatOptions{.max_context = n, .full_context = FullContext::kSlide};
  };
  thrown(ErrorKind::kInvalidArgument, [&] { chat({}, slides(1)); });
  for (const std::int64_t n : {2, 3, 10, 20, 36}) {
    ChatSession tiny = chat({.max_new_tokens = 40}, slides(n));
    for (int turn = 0; turn < 2; ++turn) EXPECT_EQ(tiny.say("hello").new_tokens, 40) << n;
    EXPECT_LE(std::ssize(tiny.ids()), n);
  }
}

TEST_F(ChatSessionTest, TheSystemPromptIsNoPartOfATurn) {
  ChatSession session = chat();
  session.set_system_prompt("S");
  session.say("one");
  session.set_system_prompt("Be brief.");
  session.undo();
  EXPECT_EQ(session.messages().at(0).content, "Be brief.");
  EXPECT_EQ(session.messages().size(), 1u);
}

TEST_F(ChatSessionTest, AnAnswerThatIsCancelledWhileTheContextSlidesIsKept) {
  ChatSession session = chat({.max_new_tokens = 500}, {.max_context = 80, .full_context = FullContext::kSlide});
  for (int most = 1; most < 130; most += 7) {
    int n = 0;
    const ChatReply reply = session.say("go on", {}, [&] { return ++n > most + 2; });
    EXPECT_EQ(reply.finish_reason, "cancelled");
    EXPECT_EQ(session.cache()->seq_length(), std::ssize(session.ids()) - 1);
    EXPECT_LE(std::ssize(session.ids()), 80);
  }
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { chat({}, {.sink_tokens = -1}); }), HasSubstr("-1"));
}

TEST_F(ChatSessionTest, WhatTheTemplateRefusesChangesNothing) {
  load("{{ raise_exception('no chat today') }}");
  ChatSession session = chat();
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { session.say("hi"); }), HasSubstr("no chat today"));
  EXPECT_TRUE(session.messages().empty());
}

TEST_F(ChatSessionTest, AnAnswerThatIsCancelledIsKept) {
  ChatSession session = chat({.max_new_tokens = 50});
  int n = 0;
  const ChatReply reply = session.say("hi", {}, [&] { return ++n > 4; });
  EXPECT_EQ(reply.finish_reason, "cancelled");
  EXPECT_GT(reply.new_tokens, 0);
  expect_cold(session, session.say("go on"));
}

}  // namespace
}  // namespace mneme
