#include "mneme/cache/encoder_decoder_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/support/cache_kinds.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::layer_of;
using testing::thrown;

const CacheShape kShape{.layers = {layer_of(Retention::all()), layer_of(Retention::all())}};

/// n tokens of B sequences; sequence i holds numbers of its own.
at::Tensor tokens(std::int64_t n_sequences, std::int64_t n, float first = 0) {
  const at::Tensor values = at::arange(n_sequences * n, at::kFloat) + first;
  return values.view({n_sequences, 1, n, 1}).expand({n_sequences, 2, n, 16}).contiguous();
}

void write_cross(EncoderDecoderCache& cache, std::int64_t n_sequences, std::int64_t n) {
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    cache.update_cross(tokens(n_sequences, n, 1000), tokens(n_sequences, n, 2000), layer);
  }
}
void append(EncoderDecoderCache& cache, std::int64_t n_sequences, std::int64_t n) {
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    cache.update(tokens(n_sequences, n), tokens(n_sequences, n), layer);
  }
}

/// Every kind beside every kind.
template <class Test>
void for_each_pair(const Test& test) {
  const std::pair<const char*, CacheOptions> kinds[] = {
      {"dynamic", {}},
      {"static", {.max_cache_len = 200}},
      {"int8", {.quantized = true, .config = {.backend = "int8"}}},
      {"offloaded", {.config = {.offloading = true}}},
      {"offloaded static kivi",
       {.max_cache_len = 200,
        .quantized = true,
        .config = {.backend = "kivi", .residual_length = 0, .offloading = true}}}};
  for (const auto& [self_name, self_options] : kinds) {
    for (const auto& [cross_name, cross_options] : kinds) {
      for (const Retention& retention : {Retention::all(), Retention::last(8)}) {
        SCOPED_TRACE(std::string(self_name) + " " + retention.name() + " beside " + cross_name);
        const CacheShape self{.layers = {layer_of(retention), layer_of(Retention::all())}};
        test(EncoderDecoderCache(Cache(self, self_options), Cache(kShape, cross_options)));
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(EncoderDecoderCache, PartsHaveTheirOwnLengths) {
  for_each_pair([](EncoderDecoderCache cache) {
    EXPECT_FALSE(cache.is_written());
    EXPECT_EQ(cache.n_sequences(), 0);
    write_cross(cache, 2, 100);
    EXPECT_TRUE(cache.is_written());
    EXPECT_EQ(cache.n_sequences(), 2);
    EXPECT_EQ(cache.seq_length(), 0);
    append(cache, 2, 3);
    append(cache, 2, 1);
    EXPECT_THAT(cache.lengths(), ElementsAre(4, 4));
    EXPECT_THAT(cache.cross_lengths(), ElementsAre(100, 100));
    const Cache &self = cache.self_attention_cache(), &cross = cache.cross_attention_cache();
    EXPECT_EQ(cache.n_bytes(), self.n_bytes() + cross.n_bytes());
    EXPECT_EQ(cache.n_bytes_offloaded(), self.n_bytes_offloaded() + cross.n_bytes_offloaded());
    EXPECT_GT(cross.n_bytes() + cross.n_bytes_offloaded(), 0);
  });
}

TEST(EncoderDecoderCache, TheCrossPartIsWrittenOnce) {
  for_each_pair([](EncoderDecoderCache cache) {
    write_cross(cache, 2, 70);
    const at::Tensor keys = cache.cross_attention_cache().layers()[1].keys();
    EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.update_cross(tokens(2, 1), tokens(2, 1), 1); }),
                AllOf(HasSubstr("written once"), HasSubstr("70"), HasSubstr("reset()")));
    const std::int64_t counts[] = {5, 5};
    EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.prepare_cross(counts); }), HasSubstr("70"));
    EXPECT_TRUE(at::equal(cache.cross_attention_cache().layers()[1].keys(), keys));
    cache.reset();
    write_cross(cache, 2, 5);  // another source
    EXPECT_THAT(cache.cross_lengths(), ElementsAre(5, 5));
  });
}

TEST(EncoderDecoderCache, CropAndRecordingAreTheDecoders) {
  for_each_pair([](EncoderDecoderCache cache) {
    write_cross(cache, 1, 70);
    cache.activate_past_recording();
    append(cache, 1, 30);
    cache.crop(-20);
    EXPECT_THAT(cache.lengths(), ElementsAre(10));
    EXPECT_THAT(cache.cross_lengths(), ElementsAre(70));
    EXPECT_FALSE(cache.cross_attention_cache().layers()[0].recording());
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { cache.crop(-11); }), HasSubstr("11"));
  });
}

TEST(EncoderDecoderCache, SequencesMoveInBothParts) {
  for_each_pair([](EncoderDecoderCache cache) {
    write_cross(cache, 3, 70);
    append(cache, 3, 5);
    const at::Tensor self = cache.self_attention_cache().layers()[1].keys().clone(),
                     cross = cache.cross_attention_cache().layers()[1].values().clone();
    const auto expect_rows = [&](std::vector<std::int64_t> rows) {
      const at::Tensor index = at::tensor(rows, at::kLong);
      EXPECT_TRUE(at::equal(cache.self_attention_cache().layers()[1].keys(), self.index_select(0, index)));
      EXPECT_TRUE(at::equal(cache.cross_attention_cache().layers()[1].values(), cross.index_select(0, index)));
    };
    cache.reorder({2, 0, 1});
    expect_rows({2, 0, 1});
    cache.reorder(at::tensor({1, 1, 2}, at::kLong));
    expect_rows({0, 0, 1});
    cache.select({2, 0});
    expect_rows({1, 0});
    cache.repeat_interleave(2);
    expect_rows({1, 1, 0, 0});
    append(cache, 4, 1);
    EXPECT_THAT(cache.lengths(), ElementsAre(6, 6, 6, 6));
  });
}

// Beams of one source are made before the decoder's first token.
TEST(EncoderDecoderCache, APartThatIsEmptyStaysSo) {
  for_each_pair([](EncoderDecoderCache cache) {
    write_cross(cache, 2, 7);
    cache.repeat_interleave(3);
    EXPECT_EQ(cache.cross_lengths().size(), 6u);
    EXPECT_EQ(cache.self_attention_cache().n_sequences(), 0);
    append(cache, 6, 2);
    EXPECT_EQ(cache.lengths().size(), 6u);
  });
}

TEST(EncoderDecoderCache, CopiesDivergeAndShareBlocks) {
  for_each_pair([](EncoderDecoderCache cache) {
    write_cross(cache, 1, 70);
    append(cache, 1, 5);
    EncoderDecoderCache fork = cache.copy();
    append(fork, 1, 4);
    EXPECT_THAT(cache.lengths(), ElementsAre(5));
    EXPECT_THAT(fork.lengths(), ElementsAre(9));
    fork.reset();
    EXPECT_THAT(cache.cross_lengths(), ElementsAre(70));
    EXPECT_TRUE(cache.is_written());
  });
}

// Of another source each, in the middle of a text and before its first token.
TEST(EncoderDecoderCache, SequencesJoinInBothParts) {
  for_each_pair([](EncoderDecoderCache cache) {
    EncoderDecoderCache fork = cache.copy();
    write_cross(cache, 2, 70);
    append(cache, 2, 5);
    write_cross(fork, 1, 100);
    EncoderDecoderCache unread = fork.copy();
    append(fork, 1, 3);
    const at::Tensor cross = fork.cross_attention_cache().layers()[1].values().clone();
    cache.add_sequences(fork);
    cache.add_sequences(unread);
    EXPECT_THAT(cache.lengths(), ElementsAre(5, 5, 3, 0));
    EXPECT_THAT(cache.cross_lengths(), ElementsAre(70, 70, 100, 100));
    cache.select({3});
    append(cache, 1, 2);
    EXPECT_THAT(cache.lengths(), ElementsAre(2));
    EXPECT_TRUE(at::equal(cache.cross_attention_cache().layers()[1].values(), cross));
    unread.add_sequences(cache);
    EXPECT_THAT(unread.lengths(), ElementsAre(0, 2));
    EXPECT_THAT(fork.lengths(), ElementsAre(3));
  });
}

TEST(EncoderDecoderCache, WhatOnePartRefusesChangesNeither) {
  EncoderDecoderCache cache(StaticCache(kShape, {.max_cache_len = 10, .max_batch_size = 2}), DynamicCache(kShape));
  write_cross(cache, 2, 70);
  append(cache, 2, 5);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { cache.repeat_interleave(2); }), HasSubstr("max_batch_size"));
  EXPECT_EQ(cache.cross_lengths().size(), 2u);
  thrown(ErrorKind::kOutOfRange, [&] { cache.select({0, 2}); });
  EXPECT_EQ(cache.cross_lengths().size(), 2u);
  EXPECT_EQ(cache.lengths().size(), 2u);
  thrown(ErrorKind::kInvalidArgument, [&] { cache.repeat_interleave(0); });
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { cache.add_sequences(cache); }), HasSubstr("max_batch_size"));
  EXPECT_EQ(cache.cross_lengths().size(), 2u);
  EXPECT_EQ(cache.lengths().size(), 2u);
}

TEST(EncoderDecoderCache, AnEmptyOneRefusesSequencesThatAreNotThere) {
  EncoderDecoderCache cache{DynamicCache(kShape), DynamicCache(kShape)};
  thrown(ErrorKind::kOutOfRange, [&] { cache.select({0}); });
  cache.repeat_interleave(2);
  EXPECT_EQ(cache.n_sequences(), 0);
}

TEST(EncoderDecoderCache, RefusesPartsThatDoNotGoTogether) {
  const auto with = [](std::int64_t n_sequences) {
    DynamicCache cache(kShape);
    cache.update(tokens(n_sequences, 1), tokens(n_sequences, 1), 0);
    return cache;
  };
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { EncoderDecoderCache(with(2), with(3)); }),
              AllOf(HasSubstr("2 sequences"), HasSubstr("of 3")));
  EXPECT_EQ(EncoderDecoderCache(with(2), with(2)).n_sequences(), 2);
  EXPECT_EQ(EncoderDecoderCache(DynamicCache(kShape), with(3)).n_sequences(), 3);

  EncoderDecoderCache cache(with(2), DynamicCache(kShape));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { cache.update_cross(tokens(3, 1), tokens(3, 1), 0); }),
              AllOf(HasSubstr("3"), HasSubstr("2")));
  const std::int64_t counts[] = {1, 1, 1};
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { cache.prepare_cross(counts); }),
              AllOf(HasSubstr("3 encoder sequences"), HasSubstr("holds 2")));
  thrown(ErrorKind::kInvalidArgument, [&] { cache.update_cross(at::zeros({2}), at::zeros({2}), 0); });
  thrown(ErrorKind::kOutOfRange, [&] { cache.update_cross(tokens(2, 1), tokens(2, 1), 2); });
  EXPECT_FALSE(cache.is_written());
}

// From public reports: a cross-attention cache took the decoder's window and cut the encoder's output.
TEST(EncoderDecoderCache, ACrossPartMayNotForget) {
  const CacheShape window{.layers = {layer_of(Retention::all()), layer_of(Retention::last(8))}};
  EXPECT_EQ(EncoderDecoderCache(DynamicCache(window), DynamicCache(kShape)).n_sequences(), 0);
  EXPECT_THAT(
      thrown(ErrorKind::kInvalidArgument, [&] { EncoderDecoderCache(DynamicCache(kShape), DynamicCache(window)); }),
      AllOf(HasSubstr("layer 1"), HasSubstr("last 8")));
}

TEST(EncoderDecoderCache, ASourcePastAStaticPartsCapacityIsRefusedWithBothNumbers) {
  EncoderDecoderCache cache(DynamicCache(kShape), StaticCache(kShape, {.max_cache_len = 50}));
  const std::int64_t long_source[] = {20, 51};
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.prepare_cross(long_source); }),
              AllOf(HasSubstr("51"), HasSubstr("50")));
  EXPECT_FALSE(cache.is_written());
  const std::int64_t other_batch[] = {50};
  cache.prepare_cross(other_batch);
  EXPECT_EQ(cache.n_sequences(), 1);
}

}  // namespace
}  // namespace mneme
