#include "mneme/cache/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/dense_attention.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::thrown;

std::vector<Retention> all_retentions() {
  std::vector<Retention> all = {Retention::all()};
  for (const std::int64_t n : {1, 2, 8, 64, 65, 100}) {
    all.push_back(Retention::last(n));
    all.push_back(Retention::chunk(n));
    for (const std::int64_t sinks : {0, 1, 4, 70}) all.push_back(Retention::sinks_and_last(sinks, n));
  }
  return all;
}

// Kept is what some later query sees, no more and no less.
TEST(Retention, KeepsWhatLaterQueriesSee) {
  for (const Retention& retention : all_retentions()) {
    for (std::int64_t length = 0; length < 250; ++length) {
      const std::int64_t first = retention.first_needed(length);
      std::int64_t past = 0;
      for (std::int64_t j = 0; j < length; ++j) {
        bool needed = false;
        for (std::int64_t i = length; i < length + 3; ++i) {
          needed = needed || testing::sees(retention.visibility(), i, j);
        }
        ASSERT_EQ(needed, j >= first || j < retention.sinks()) << retention.name() << ' ' << length << ' ' << j;
        past += testing::sees(retention.visibility(), length, j);
      }
      ASSERT_LE(past, retention.most_past()) << retention.name();
    }
  }
}

TEST(Retention, MostPastIsReached) {
  EXPECT_EQ(Retention::last(8).most_past(), 7);
  EXPECT_EQ(Retention::chunk(8).most_past(), 7);
  EXPECT_EQ(Retention::sinks_and_last(4, 8).most_past(), 11);
  EXPECT_EQ(Retention::all().most_past(), INT64_MAX);
}

TEST(Retention, FullIsWhenSomethingWasLetGo) {
  for (const Retention& retention : all_retentions()) {
    for (std::int64_t length = 0; length < 250; ++length) {
      bool let_go = false;
      for (std::int64_t l = 0; l <= length; ++l) let_go = let_go || retention.first_needed(l) > 0;
      EXPECT_EQ(retention.is_full(length), let_go) << retention.name() << ' ' << length;
    }
  }
}

TEST(Retention, Names) {
  EXPECT_EQ(Retention::all().name(), "all");
  EXPECT_EQ(Retention::last(8).name(), "last 8");
  EXPECT_EQ(Retention::chunk(64).name(), "chunk 64");
  EXPECT_EQ(Retention::sinks_and_last(4, 8).name(), "first 4 + last 8");
  EXPECT_EQ(Retention::sinks_and_last(0, 8), Retention::last(8));
}

TEST(Retention, RefusesWhatCannotBe) {
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { Retention::last(0); }), ::testing::HasSubstr("0"));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [] { Retention::chunk(-3); }), ::testing::HasSubstr("-3"));
  thrown(ErrorKind::kInvalidArgument, [] { Retention::sinks_and_last(-1, 8); });
  thrown(ErrorKind::kInvalidArgument, [] { Retention::sinks_and_last(4, 0); });
}

}  // namespace
}  // namespace mneme
