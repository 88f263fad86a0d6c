#include "mneme/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace mneme {
namespace {

using testing::ElementsAre;

struct Log : testing::Test {
  ~Log() override { set_warning_handler({}); }
};

TEST_F(Log, WithoutAHandlerAWarningIsDropped) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  warn("nobody hears this");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Log, TheLatestHandlerGetsTheMessage) {
  std::vector<std::string> first, second;
  set_warning_handler([&](const std::string& message) { first.push_back(message); });
  warn("one");
  set_warning_handler([&](const std::string& message) { second.push_back(message); });
  warn("two");
  EXPECT_THAT(first, ElementsAre("one"));
  EXPECT_THAT(second, ElementsAre("two"));
}

TEST_F(Log, AHandlerMayWarnAndReplaceItself) {
  std::vector<std::string> heard;
  set_warning_handler([&](const std::string& message) {
    set_warning_handler([&](const std::string& inner) { heard.push_back("inner " + inner); });
    warn(message);
  });
  warn("again");
  EXPECT_THAT(heard, ElementsAre("inner again"));
}

TEST_F(Log, ConcurrentWarningsAllArrive) {
  std::atomic<int> count = 0;
  set_warning_handler([&](const std::string&) { ++count; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) warn("x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 1000);
}

}  // namespace
}  // namespace mneme
