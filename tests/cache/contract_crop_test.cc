// The crop table of every cache kind, row by row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/cache.h"
#include "tests/support/checked_cache.h"

namespace mneme {
namespace {

using testing::CacheKind;
using testing::CheckedCache;
using testing::Counts;
using testing::for_each_kind;
using ::testing::HasSubstr;
using testing::refused;

TEST(ContractCrop, FullAttentionRemoves) {
  for (const std::int64_t n : {0, 1, 63, 64, 65, 130, 200}) {
    CheckedCache c({.layers = {testing::layer_of(Retention::all())}});
    ASSERT_NO_FATAL_FAILURE(c.append({200}));
    c.crop(n);
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({10}));
  }
}

TEST(ContractCrop, LimitedLayersThatAreNotFullRemove) {
  for (const CacheKind& kind : testing::limited_kinds()) {
    SCOPED_TRACE(kind.name());
    std::int64_t shortest = 1000;
    for (const LayerShape& layer : kind.layers) {
      const kernels::Visibility& v = layer.retention.visibility();
      if (v.limited()) shortest = std::min(shortest, std::max(v.window, v.chunk));
    }
    for (std::int64_t n = 0; n < shortest; n += std::max<std::int64_t>(1, shortest / 7)) {
      CheckedCache c(kind);
      if (shortest == 1) break;  // a window of one keeps nothing to remove
      ASSERT_NO_FATAL_FAILURE(c.append({shortest - 1}));
      c.crop(n);
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
      ASSERT_NO_FATAL_FAILURE(c.append({shortest + 3}));
    }
  }
}

TEST(ContractCrop, FullLimitedLayersRefuse) {
  for (const CacheKind& kind : testing::limited_kinds()) {
    SCOPED_TRACE(kind.name());
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({kind.full_length()}));
    EXPECT_THAT(refused(c, ErrorKind::kFailedPrecondition, [&] { c.cache().crop(-1); }),
                HasSubstr("call activate_past_recording() before the forward pass"));
    c.crop(0);  // never an error
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({1}));
  }
}

TEST(ContractCrop, RecordingRemovesAndThenHoldsTheWindow) {
  for_each_kind([](const CacheKind& kind) {
    for (const std::int64_t n : {0, 1, 3, 64, 150}) {
      CheckedCache c(kind);
      c.record();
      ASSERT_NO_FATAL_FAILURE(c.append({100}));
      ASSERT_NO_FATAL_FAILURE(c.append({50}));
      c.crop(n);
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
      for (std::size_t l = 0; l < kind.layers.size(); ++l) {
        if (!kind.layers[l].retention.limited()) continue;
        const std::int64_t most = kind.layers[l].retention.most_past();
        EXPECT_LE(std::ssize(c.blocks(l)), (most + 63) / 64 + 2);
      }
      ASSERT_NO_FATAL_FAILURE(c.append({70}));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
  });
}

TEST(ContractCrop, RecordingFromTheMiddleRemovesWhatWasRecorded) {
  for (const CacheKind& kind : testing::limited_kinds()) {
    SCOPED_TRACE(kind.name());
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({kind.full_length()}));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({4}));
    // Further back is gone, unless nothing of it would be seen (a window of one).
    if (!c.can_crop(kind.full_length()))
      refused(c, ErrorKind::kFailedPrecondition, [&] { c.cache().crop(-kind.full_length()); });
    c.crop(4);
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({3}));
  }
}

// Back to the start nothing is needed, whatever has been let go: as new.
TEST(ContractCrop, RecordingRewindsToTheStartAgainAndAgain) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    c.record();
    for (int round = 0; round < 3; ++round) {
      ASSERT_NO_FATAL_FAILURE(c.append({150}));
      c.crop(10);
      ASSERT_NO_FATAL_FAILURE(c.append({5}));
      c.crop(145);
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
      EXPECT_TRUE(c.blocks().empty());
    }
  });
}

// A chunk's start needs nothing either, in a block that was let go.
TEST(ContractCrop, BackToAChunksStartInABlockThatIsGone) {
  CheckedCache c({.layers = {testing::layer_of(Retention::chunk(8))}});
  ASSERT_NO_FATAL_FAILURE(c.append({70}));
  c.record();
  EXPECT_TRUE(c.can_crop(14));
  c.crop(14);
  ASSERT_NO_FATAL_FAILURE(c.append({3}));
  ASSERT_NO_FATAL_FAILURE(c.append({20}));
  ASSERT_NO_FATAL_FAILURE(c.expect_same());
}

// Drafts of four come and three of them go, one by one and in one call, for thirty rounds.
TEST(ContractCrop, DraftsComeAndGo) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({20}));
    c.record();
    for (int round = 0; round < 30; ++round) {
      if (round % 2) {
        ASSERT_NO_FATAL_FAILURE(c.append({4}));
      } else {
        for (int i = 0; i < 4; ++i) ASSERT_NO_FATAL_FAILURE(c.append({1}));
      }
      c.crop(3);
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
      for (std::size_t l = 0; l < kind.layers.size(); ++l) {
        const Retention& retention = kind.layers[l].retention;
        if (retention.limited()) {
          EXPECT_LE(std::ssize(c.blocks(l)), (retention.most_past() + 63) / 64 + 2);
        }
      }
    }
  });
}

TEST(ContractCrop, SixTokensWindowTwoCropThree) {
  Cache cache({.layers = {testing::layer_of(Retention::all()), testing::layer_of(Retention::last(2))}}, {});
  cache.activate_past_recording();
  const at::Tensor tokens = at::arange(6, at::kFloat).view({1, 1, 6, 1}).expand({1, 2, 6, 16});
  for (const std::int64_t layer : {0, 1}) cache.update(tokens, tokens, layer);
  cache.crop(-3);
  EXPECT_TRUE(at::equal(cache.layers()[0].keys(), tokens.narrow(2, 0, 3)));
  EXPECT_TRUE(at::equal(cache.layers()[1].keys(), tokens.narrow(2, 2, 1)));
  EXPECT_EQ(cache.seq_length(), 3);
  for (const std::int64_t layer : {0, 1}) EXPECT_EQ(cache.layer(layer).length(0), 3);
}

TEST(ContractCrop, WrongCountsAreErrorsWithBothNumbers) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    c.record();
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(-1); }), HasSubstr("crop(-1)"));
    ASSERT_NO_FATAL_FAILURE(c.append({6, 9}));
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(2); }),
                ::testing::AllOf(HasSubstr("crop(2)"), HasSubstr("9 tokens")));
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(-10); }),
                ::testing::AllOf(HasSubstr("10"), HasSubstr("9")));
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(-7); }),
                ::testing::AllOf(HasSubstr("7 tokens"), HasSubstr("holds 6")));
    refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(INT64_MIN); });
    refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().crop(INT64_MAX); });
    c.crop(6);  // all of the shorter
    ASSERT_NO_FATAL_FAILURE(c.append({3, 2}));
  });
}

TEST(ContractCrop, WhatWasCroppedNeverShows) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({10, 60}));
    for (const std::int64_t n : {1, 5, 64, 130}) {
      c.poison(n);
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
      ASSERT_NO_FATAL_FAILURE(c.append({1, 1}));
      ASSERT_NO_FATAL_FAILURE(c.append({17, 2}));
    }
  });
}

}  // namespace
}  // namespace mneme
