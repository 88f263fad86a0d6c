// Every rendering of tests/golden/templates.json, made by transformers (make_templates.py), and the front door's own
// rules.
#include "mneme/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "mneme/base/error.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;

// Another folder's templates, made with make_templates.py DIR OUT.json, are tested with these two set.
std::string golden_file() {
  const char* other = std::getenv("MNEME_TEMPLATE_GOLDEN");
  return other ? other : testing::test_data("templates.json");
}
std::string template_folder() {
  const char* other = std::getenv("MNEME_TEMPLATE_FOLDER");
  return other ? other : testing::test_data("templates");
}

const Json& golden() {
  static const Json kGolden = read_json_file(golden_file());
  return kGolden;
}

std::string read_template(const std::string& name) {
  std::ifstream file(template_folder() + "/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// The keyword arguments of apply_chat_template as options.
ChatTemplateOptions options_from(const Json& keywords) {
  ChatTemplateOptions options;
  options.extra = Json::object();
  for (const auto& [key, value] : keywords.items()) {
    if (key == "add_generation_prompt")
      options.add_generation_prompt = value.get<bool>();
    else if (key == "continue_final_message")
      options.continue_final_message = value.get<bool>();
    else if (key == "tools")
      options.tools = value;
    else if (key == "documents")
      options.documents = value;
    else if (key == "bos_token")
      options.bos_token = value.get<std::string>();
    else if (key == "eos_token")
      options.eos_token = value.get<std::string>();
    else if (key == "unk_token")
      options.unk_token = value.get<std::string>();
    else if (key == "pad_token")
      options.pad_token = value.get<std::string>();
    else
      options.extra[key] = value;
  }
  options.now = std::tm{.tm_sec = 56,
                        .tm_min = 34,
                        .tm_hour = 12,
                        .tm_mday = 26,
                        .tm_mon = 6,
                        .tm_year = 124,
                        .tm_wday = 5,
                        .tm_yday = 207,
                        .tm_isdst = -1,
                        .tm_gmtoff = 0,
                        .tm_zone = nullptr};
  return options;
}

struct Outcome {
  std::string text;
  std::string error;
  bool raised = false;
  ErrorKind kind = ErrorKind::kIo;
};

Outcome render(const std::string& source, const Json& messages, const Json& keywords) {
  try {
    return {.text = ChatTemplate(source, "the template").render(messages, options_from(keywords)), .error = ""};
  } catch (const Error& error) {
    return {.text = "", .error = error.what(), .raised = true, .kind = error.kind()};
  }
}

void expect_as_python(const Json& expected, const Outcome& outcome, const std::string& what) {
  if (expected.contains("text")) {
    EXPECT_FALSE(outcome.raised) << what << "\n" << outcome.error;
    EXPECT_EQ(outcome.text, expected["text"].get<std::string>()) << what;
    return;
  }
  EXPECT_TRUE(outcome.raised) << what << "\nPython: " << expected["message"] << "\nrendered: " << outcome.text;
  if (expected["error"] == "TemplateError") {
    EXPECT_THAT(outcome.error, HasSubstr(expected["message"].get<std::string>())) << what;
  }
}

TEST(ChatTemplate, RendersTemplatesAsTransformersDoes) {
  for (const Json& expected : golden()["templates"]) {
    const Json& messages = golden()["conversations"][expected["conversation"].get<std::string>()];
    const Json& keywords = golden()["options"][expected["options"].get<std::string>()];
    const std::string file = expected["file"].get<std::string>();
    const std::string what =
        file + ", " + expected["conversation"].get<std::string>() + ", " + expected["options"].get<std::string>();
    expect_as_python(expected, render(read_template(file), messages, keywords), what);
  }
}

TEST(ChatTemplate, RendersSnippetsAsJinjaDoes) {
  for (const Json& expected : golden()["snippets"]) {
    const std::string source = expected["template"].get<std::string>();
    expect_as_python(expected, render(source, golden()["snippet_messages"], golden()["snippet_variables"]), source);
  }
}

using ::mneme::testing::thrown;

const Json kHello = Json::array({{{"role", "user"}, {"content", "Hello"}}});

std::string render_hello(const std::string& source, const ChatTemplateOptions& options = {}) {
  return ChatTemplate(source, "the template").render(kHello, options);
}

TEST(ChatTemplate, RefusalsCarryTheTemplatesOwnWordsAndTheNextRenderingWorks) {
  const ChatTemplate strict(
      "{% if messages[0].role == 'system' %}{{ raise_exception('No system role, please') }}{% endif %}ok", "strict");
  const Json system = Json::array({{{"role", "system"}, {"content", "x"}}});
  EXPECT_EQ(thrown(ErrorKind::kInvalidArgument, [&] { strict.render(system); }),
            "strict refuses the messages: No system role, please");
  EXPECT_EQ(strict.render(kHello), "ok");
}

TEST(ChatTemplate, ErrorsNameTheTemplateAndTheLine) {
  EXPECT_EQ(thrown(ErrorKind::kCorruptData, [] { ChatTemplate("a\n{% if x %}\n{{ 1 + }}", "m"); }),
            "m, line 3: unexpected '}}'");
  EXPECT_EQ(thrown(ErrorKind::kCorruptData, [] { ChatTemplate("a\n{% if x %}", "m"); }),
            "m, line 2: unexpected end of the template, which still needs 'endif'");
  EXPECT_EQ(thrown(ErrorKind::kInvalidArgument, [] { render_hello("a\n\n{{ nothing.at.all }}"); }),
            "the template, line 3: 'nothing' is undefined");
  EXPECT_EQ(thrown(ErrorKind::kInvalidArgument, [] { render_hello("{{ messages.append(1) }}"); }),
            "the template, line 1: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(ChatTemplate, TagsThatReachForOtherTemplatesAreUnsupported) {
  for (const char* source :
       {"{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}",
        "{% for x in y recursive %}{% endfor %}", "{% autoescape true %}{% endautoescape %}"}) {
    EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { ChatTemplate(source, "m"); }), HasSubstr("not supported"))
        << source;
  }
  for (const char* source : {"{{ [1]|random }}", "{{ lipsum() }}", "{{ 'a'|wordwrap }}"}) {
    EXPECT_THAT(thrown(ErrorKind::kUnsupported, [&] { render_hello(source); }), HasSubstr("not supported")) << source;
  }
}

TEST(ChatTemplate, ContinuesTheFinalMessageExactly) {
  const Json messages =
      Json::array({{{"role", "user"}, {"content", "Write."}}, {{"role", "assistant"}, {"content", "Hi John, "}}});
  const ChatTemplate keeps("{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}", "keeps");
  const ChatTemplate trims("{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}", "trims");
  EXPECT_EQ(keeps.render(messages, {.continue_final_message = true}), "<user>Write.</><assistant>Hi John, ");
  EXPECT_EQ(trims.render(messages, {.continue_final_message = true}), "<user>Write.</><assistant>Hi John,");
  EXPECT_EQ(keeps.render(messages), "<user>Write.</><assistant>Hi John, </>");
}

TEST(ChatTemplate, ContinuingNeedsSomethingToContinue) {
  const ChatTemplate reads("{% for m in messages %}{{ m.content }}{% endfor %}", "reads");
  const ChatTemplateOptions going_on{.continue_final_message = true};
  const auto refused = [&](const ChatTemplate& chat_template, const Json& messages,
                           const ChatTemplateOptions& options) {
    return thrown(ErrorKind::kInvalidArgument, [&] { chat_template.render(messages, options); });
  };
  EXPECT_THAT(refused(reads, kHello, {.add_generation_prompt = true, .continue_final_message = true}),
              HasSubstr("only one"));
  EXPECT_THAT(refused(reads, Json::array(), going_on), HasSubstr("no message to continue"));
  EXPECT_THAT(refused(reads, Json::array({{{"role", "assistant"}}}), going_on), HasSubstr("needs text"));
  EXPECT_THAT(refused(reads, Json::parse(R"([{"role": "assistant", "content": [{"type": "image"}]}])"), going_on),
              HasSubstr("needs text"));
  EXPECT_THAT(refused(ChatTemplate("{{ messages|length }}", "blind"), kHello, going_on), HasSubstr("never reads"));
  EXPECT_THAT(refused(ChatTemplate("{{ messages[0].content[:2] }}", "cuts"), kHello, going_on),
              HasSubstr("does not show"));
}

TEST(ChatTemplate, RefusesOptionsAndMessagesOfTheWrongType) {
  const ChatTemplate any("x", "any");
  const auto refused = [&](const Json& messages, const ChatTemplateOptions& options) {
    return thrown(ErrorKind::kInvalidArgument, [&] { any.render(messages, options); });
  };
  EXPECT_THAT(refused("hello", {}), HasSubstr("messages must be a list"));
  EXPECT_THAT(refused(Json::array({"hello"}), {}), HasSubstr("each of the messages must be an object"));
  EXPECT_THAT(refused(kHello, {.tools = Json::object()}), HasSubstr("tools must be a list"));
  EXPECT_THAT(refused(kHello, {.documents = Json::array({1})}), HasSubstr("documents must be an object"));
  EXPECT_THAT(refused(kHello, {.extra = Json::array()}), HasSubstr("must be an object"));
  EXPECT_THAT(refused(kHello, {.extra = {{"messages", 1}}}), HasSubstr("option of its own"));
  EXPECT_THAT(refused(Json::array({{{"content", "\xff"}}}), {}), HasSubstr("UTF-8"));
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [] { ChatTemplate("a\xff", "m"); }), HasSubstr("UTF-8"));
}

TEST(ChatTemplate, DeepMessagesAreRefusedNotFollowed) {
  Json deep = "x";
  for (int i = 0; i < 2000; ++i) deep = Json::array({std::move(deep)});
  const Json messages = Json::array({{{"content", deep}}});
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { ChatTemplate("x", "m").render(messages); }),
              HasSubstr("deeper"));
}

TEST(ChatTemplate, VariablesAndTokens) {
  EXPECT_EQ(
      render_hello("{{ bos_token is defined }}{{ tools is none }}{{ documents is none }}{{ extra_one|default('-') }}"),
      "FalseTrueTrue-");
  EXPECT_EQ(render_hello("{{ bos_token }}{{ extra_one }}", {.bos_token = "<s>", .extra = {{"extra_one", 1}}}), "<s>1");
  EXPECT_EQ(render_hello("{{ bos_token }}", {.bos_token = "<s>", .extra = {{"bos_token", "<b>"}}}), "<b>");
}

TEST(ChatTemplate, RendersFromSeveralThreadsAtOnce) {
  const ChatTemplate shared(
      "{% set ns = namespace(n=0) %}{% for i in range(2000) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "m");
  std::vector<std::string> results(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& result : results) threads.emplace_back([&] { result = shared.render(kHello); });
  }
  EXPECT_THAT(results, ::testing::Each("1999000"));
}

// A hundred messages are a long chat; the template is the largest kind in use.
TEST(ChatTemplate, RendersAHundredMessagesInMilliseconds) {
  if (std::getenv("MNEME_TEMPLATE_FOLDER")) GTEST_SKIP() << "another folder's templates";
  Json messages = Json::array();
  for (int i = 0; i < 100; ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'x')}});
  }
  const ChatTemplate chat_template(read_template("chatml_thinking.jinja"), "m");
  double best_ms = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const std::string text = chat_template.render(messages);
    best_ms =
        std::min(best_ms, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    ASSERT_GT(text.size(), 50'000u);
  }
  RecordProperty("best_ms", std::to_string(best_ms));
#ifdef NDEBUG
  EXPECT_LT(best_ms, 5.0);
#endif
}

}  // namespace
}  // namespace mneme
