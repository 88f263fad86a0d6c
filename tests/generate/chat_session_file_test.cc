#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "mneme/base/log.h"
#include "tests/generate/chatting.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::thrown;

class ChatSessionFileTest : public testing::Chatting {};

TEST_F(ChatSessionFileTest, IsSavedWithItsCacheAndGoesOn) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/chat.json";
  ChatSession session = chat();
  session.set_system_prompt("Be brief.");
  session.say("one");
  session.say("two");
  EXPECT_TRUE(session.save(path));
  ChatSession loaded = chat();
  EXPECT_FALSE(loaded.save(folder.path() + "/empty.json"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/empty.json.safetensors"));
  loaded.load(folder.path() + "/empty.json");
  loaded.load(path);
  EXPECT_EQ(loaded.ids(), session.ids());
  const ChatReply reply = loaded.say("three"), expected = session.say("three");
  EXPECT_EQ(reply.text, expected.text);
  EXPECT_EQ(reply.cached_tokens, expected.cached_tokens);
  folder.write("chat.json", R"({"messages": 3})");
  thrown(ErrorKind::kCorruptData, [&] { loaded.load(path); });
  thrown(ErrorKind::kIo, [&] { loaded.load(folder.path() + "/none.json"); });
  EXPECT_EQ(loaded.messages().size(), 7u);
}

TEST_F(ChatSessionFileTest, TurnsThatWereSavedCanBeTakenBack) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/chat.json";
  ChatSession session = chat(), loaded = chat();
  session.set_system_prompt("Be brief.");
  session.say("one");
  const ChatReply second = session.say("two");
  session.save(path);
  loaded.load(path);
  EXPECT_TRUE(loaded.undo());
  EXPECT_EQ(loaded.messages().size(), 3u);
  const ChatReply again = loaded.say("two");
  EXPECT_EQ(again.text, second.text);
  EXPECT_EQ(again.cached_tokens, second.prompt_tokens - 1);
  EXPECT_TRUE(loaded.undo() && loaded.undo());
  EXPECT_FALSE(loaded.undo());
  EXPECT_EQ(loaded.messages().size(), 1u);
  Json json = read_json_file(path);
  json["turns"] = {{0, 0}, {1'000'000, 0}};
  folder.write("chat.json", json.dump());
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { loaded.load(path); }), HasSubstr("chat.json: a turn begins with"));
  json["turns"] = {{1e300, 0.5}};  // whole numbers only
  folder.write("chat.json", json.dump());
  EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { loaded.load(path); }), HasSubstr("no saved conversation"));
  json.erase("turns");  // then they are what their messages say
  folder.write("chat.json", json.dump());
  loaded.load(path);
  EXPECT_TRUE(loaded.undo() && loaded.undo());
}

/// Beams leave a cache of what they answered to; the answer is read with the next turn, after a load() too.
TEST_F(ChatSessionFileTest, AnAnswerOfBeamsIsSavedWithTheCacheOfItsPrompt) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/chat.json";
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  ChatSession session = chat({.num_beams = 3}), loaded = chat({.num_beams = 3});
  session.say("one");
  session.save(path);
  loaded.load(path);
  const ChatReply reply = loaded.say("two"), expected = session.say("two");
  set_warning_handler({});
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  EXPECT_EQ(reply.text, expected.text);
  EXPECT_EQ(reply.cached_tokens, expected.cached_tokens);
  EXPECT_GT(reply.cached_tokens, 0);
}

/// Whatever came between a conversation and its cache, the text is there and what it gives is what a cold run gives.
TEST_F(ChatSessionFileTest, ACacheThatIsNotItsOwnIsComputedAgain) {
  const testing::TempFolder folder;
  const std::string path = folder.path() + "/chat.json", cache = path + ".safetensors";
  ChatSession session = chat(), other = chat();
  session.say("one");
  other.say("two");
  session.save(path);
  const std::string own = testing::read_file(cache);
  other.save(folder.path() + "/other.json");
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& text) { warnings.push_back(text); });
  const auto goes_on = [&](ChatSession loaded, const char* why) {
    warnings.clear();
    loaded.load(path);
    ASSERT_EQ(warnings.size(), 1u) << why;
    EXPECT_THAT(warnings[0], HasSubstr(why));
    EXPECT_THAT(warnings[0], HasSubstr("computed again"));
    EXPECT_EQ(loaded.ids(), session.ids());
    EXPECT_EQ(loaded.cache(), nullptr);
    const ChatReply reply = loaded.say("three");
    EXPECT_EQ(reply.cached_tokens, 0) << why;
    expect_cold(loaded, reply);
  };
  std::filesystem::copy_file(folder.path() + "/other.json.safetensors", cache,
                             std::filesystem::copy_options::overwrite_existing);
  goes_on(chat(), "another text");
  std::filesystem::remove(cache);
  goes_on(chat(), "cannot open");
  folder.write("chat.json.safetensors", own.substr(0, own.size() / 2));
  goes_on(chat(), "chat.json.safetensors");
  folder.write("chat.json.safetensors", own);
  goes_on(chat({.cache_config = {.backend = "int8"}}), "dynamic cache of other options");
  // The same weights in another arithmetic, and others under the same name.
  const auto exact = model_;
  model_ = AutoModelForCausalLM::from_pretrained(tiny_.path(), {.dtype = at::kBFloat16});
  goes_on(chat(), "saved for model");
  std::string bytes = testing::read_file(tiny_.path("model.safetensors"));
  for (std::size_t i = bytes.size() / 2; i < bytes.size(); i += 2) bytes[i] ^= 1;
  tiny_.write("model.safetensors", bytes);
  model_ = AutoModelForCausalLM::from_pretrained(tiny_.path(), {.dtype = at::kFloat});
  goes_on(chat(), "saved for model");
  model_ = exact;
  warnings.clear();
  ChatSession same = chat();
  same.load(path);
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  EXPECT_EQ(same.say("three").cached_tokens, std::ssize(session.ids()) - 1);
  set_warning_handler({});
}

}  // namespace
}  // namespace mneme
