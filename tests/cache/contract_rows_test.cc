// Sequences of every cache kind come, go and change places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/cache.h"
#include "tests/support/checked_cache.h"
#include "tests/support/files.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using testing::CacheKind;
using testing::CheckedCache;
using testing::Counts;
using testing::for_each_kind;
using ::testing::HasSubstr;
using testing::layer_of;
using testing::refused;

TEST(ContractRows, ReorderSelectAndRepeat) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({70, 70, 70}));
    c.select({2, 0, 0});
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({1, 2, 3}));
    c.select({1});
    c.repeat(3);
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({64, 1, 1}));
    const Counts back = {2, 1, 0};
    c.select(back);
    ASSERT_NO_FATAL_FAILURE(c.append({1, 1, 1}));
    EXPECT_THAT(refused(c, ErrorKind::kOutOfRange,
                        [&] {
                          c.cache().reorder({0, 3, 1});
                        }),
                ::testing::AllOf(HasSubstr("sequence 3"), HasSubstr("holds 3")));
    refused(c, ErrorKind::kOutOfRange, [&] { c.cache().select({-1}); });
    refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().repeat_interleave(0); });
    c.select({});
    EXPECT_EQ(c.cache().n_sequences(), 0);
  });
}

TEST(ContractRows, ReorderByTensor) {
  CheckedCache a({.layers = {testing::layer_of(Retention::all())}});
  ASSERT_NO_FATAL_FAILURE(a.append({3, 5}));
  a.cache().reorder(at::tensor({1, 0}, at::kInt));
  EXPECT_EQ(a.cache().lengths(), (Counts{5, 3}));
}

// Keys of ones and values of twos keep their own numbers and rows through everything.
TEST(ContractRows, KeysAndValuesKeepTheirOwn) {
  for_each_kind([](const CacheKind& kind) {
    Cache cache = kind.make();
    for (std::size_t l = 0; l < kind.layers.size(); ++l) {
      const at::Tensor rows = at::arange(1, 4, at::kFloat).view({3, 1, 1, 1});
      cache.update(rows.expand({3, 2, 2, kind.layers[l].key_dim}),
                   (10 * rows).expand({3, 2, 2, kind.layers[l].value_dim}), static_cast<std::int64_t>(l));
    }
    cache.repeat_interleave(2);
    cache.reorder({5, 0, 2});
    for (const CacheLayer& layer : cache.layers()) {
      const at::Tensor expected = at::tensor({3.0f, 1.0f, 2.0f}).view({3, 1, 1, 1});
      EXPECT_TRUE((layer.keys().to(at::kFloat) == expected).all().item<bool>());
      // Rotating there and back rounds twice.
      EXPECT_TRUE(at::allclose(layer.values().to(at::kFloat), 10 * expected.expand_as(layer.values()),
                               layer.attention().storage().rotate_values ? 1e-2 : 0, 0));
      EXPECT_EQ(layer.keys().sizes().slice(0, 2), at::IntArrayRef({3, 2}));
    }
  });
}

// Continuous batching: one sequence ends, another that was read apart joins, and neither shows in the other.
TEST(ContractAdd, SequencesThatWereReadApartJoinTheBatch) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache batch(kind, 1);
    ASSERT_NO_FATAL_FAILURE(batch.append({130, 3}));
    CheckedCache guest = batch.copy(2);  // of the same pools
    guest.reset();
    ASSERT_NO_FATAL_FAILURE(guest.append({100}));
    batch.select({0});
    batch.add(guest);
    ASSERT_NO_FATAL_FAILURE(batch.append({1, 1}));
    ASSERT_NO_FATAL_FAILURE(guest.append({30}));
    ASSERT_NO_FATAL_FAILURE(batch.append({64, 30}));
    CheckedCache stranger(kind, 3);  // of its own
    ASSERT_NO_FATAL_FAILURE(stranger.append({5, 195}));
    batch.add(stranger);
    ASSERT_NO_FATAL_FAILURE(stranger.append({70, 1}));
    stranger.reset();
    ASSERT_NO_FATAL_FAILURE(batch.append({1, 1, 1, 1}));
    batch.select({3, 0});
    ASSERT_NO_FATAL_FAILURE(batch.append({1, 1}));
    ASSERT_NO_FATAL_FAILURE(batch.expect_same());
    ASSERT_NO_FATAL_FAILURE(guest.expect_same());
  });
}

TEST(ContractAdd, ACacheAddsItselfOrNothing) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind, 1), nothing(kind, 2);
    ASSERT_NO_FATAL_FAILURE(c.append({70, 70}));
    const std::size_t n_blocks = c.blocks().size();
    c.add(c);
    EXPECT_EQ(c.blocks().size(), n_blocks);
    c.add(nothing);
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    EXPECT_EQ(c.cache().n_sequences(), 4);
    nothing.add(c);
    ASSERT_NO_FATAL_FAILURE(nothing.append({1, 2, 3, 4}));
    ASSERT_NO_FATAL_FAILURE(c.append({4, 3, 2, 1}));
  });
}

TEST(ContractAdd, RecordedPastsJoinAndAreCropped) {
  const testing::TempFolder folder;
  for_each_kind([&](const CacheKind& kind) {
    CheckedCache c(kind, 1), other(kind, 2);
    ASSERT_NO_FATAL_FAILURE(c.append({150}));
    ASSERT_NO_FATAL_FAILURE(other.append({30}));
    other.record();
    EXPECT_THAT(refused(c, ErrorKind::kFailedPrecondition, [&] { c.add(other); }),
                AllOf(HasSubstr("does not record"), HasSubstr("activate_past_recording() on this one")));
    EXPECT_THAT(refused(other, ErrorKind::kFailedPrecondition, [&] { other.add(c); }),
                HasSubstr("activate_past_recording() on the other"));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({70}));
    ASSERT_NO_FATAL_FAILURE(other.append({100}));
    other.reload(folder.path() + "/x");
    c.add(other);
    c.crop(66);
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    ASSERT_NO_FATAL_FAILURE(c.append({64, 2}));
  });
}

// Blocks that several sequences share are one afterwards too.
TEST(ContractAdd, BlocksOfAnotherCacheAreCopiedOnce) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind, 1), other(kind, 2);
    ASSERT_NO_FATAL_FAILURE(other.append({200}));
    other.repeat(5);
    c.add(other);
    EXPECT_EQ(c.blocks().size(), other.blocks().size());
    std::set<const std::byte*> both = c.blocks();
    both.merge(other.blocks());
    EXPECT_EQ(both.size(), 2 * c.blocks().size());
    EXPECT_EQ(c.cache().n_bytes() + c.cache().n_bytes_offloaded() > 0, true);
  });
}

TEST(ContractAdd, RefusesWhatDoesNotFit) {
  const CacheKind kind{.layers = {layer_of(Retention::all()), layer_of(Retention::last(8))}};
  CheckedCache c(kind);
  ASSERT_NO_FATAL_FAILURE(c.append({3, 100}));
  const auto refuse = [&](const CacheShape& shape, const CacheOptions& options) {
    return refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().add_sequences(Cache(shape, options)); });
  };
  EXPECT_THAT(refuse({.layers = {layer_of(Retention::all())}}, {}), AllOf(HasSubstr("2 layers"), HasSubstr("of 1")));
  EXPECT_THAT(refuse({.layers = {layer_of(Retention::all()), layer_of(Retention::last(9))}}, {}),
              AllOf(HasSubstr("layer 1"), HasSubstr("last 8"), HasSubstr("last 9")));
  EXPECT_THAT(refuse({.layers = {layer_of(Retention::all(), 24), layer_of(Retention::last(8))}}, {}),
              HasSubstr("layer 0"));
  EXPECT_THAT(refuse(kind.shape(), {.dtype = DType::kBFloat16}), AllOf(HasSubstr("float32"), HasSubstr("bfloat16")));
  EXPECT_THAT(refuse(kind.shape(), {.config = {.offloading = true}}), HasSubstr("(offloaded, float32"));
  const auto hqq = [](std::int64_t group) {
    return CacheOptions{.quantized = true, .config = {.backend = "hqq", .q_group_size = group}};
  };
  EXPECT_THAT(refuse(kind.shape(), hqq(64)), HasSubstr("hqq4"));
  testing::thrown(ErrorKind::kInvalidArgument,
                  [&] { Cache(kind.shape(), hqq(64)).add_sequences(Cache(kind.shape(), hqq(32))); });

  Cache fixed(kind.shape(), {.max_cache_len = 99, .max_batch_size = 3});
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument, [&] { fixed.add_sequences(c.cache()); }),
              AllOf(HasSubstr("100 tokens"), HasSubstr("capacity of 99")));
  c.cache().select({0, 0});
  fixed.add_sequences(c.cache());
  EXPECT_THAT(testing::thrown(ErrorKind::kInvalidArgument, [&] { fixed.add_sequences(c.cache()); }),
              AllOf(HasSubstr("4 sequences"), HasSubstr("max_batch_size of 3")));
  EXPECT_EQ(fixed.lengths(), (Counts{3, 3}));
}

TEST(ContractAdd, PastTheBudgetNothingChanges) {
  const CacheKind kind{.layers = {layer_of(Retention::all()), layer_of(Retention::all(), 24)}};
  CacheOptions options;
  for (const LayerShape& layer : kind.layers) {
    options.config.max_cache_bytes =
        options.config.max_cache_bytes.value_or(0) + 3 * 64 * layer.n_heads * (layer.key_dim + 32) * 4;
  }
  CheckedCache c(kind, Cache(kind.shape(), options)), other(kind, 2);
  ASSERT_NO_FATAL_FAILURE(c.append({60}));
  ASSERT_NO_FATAL_FAILURE(other.append({300}));
  EXPECT_THAT(refused(c, ErrorKind::kOutOfMemory, [&] { c.cache().add_sequences(other.cache()); }),
              HasSubstr("max_cache_bytes"));
  ASSERT_NO_FATAL_FAILURE(c.append({4}));
}

}  // namespace
}  // namespace mneme
