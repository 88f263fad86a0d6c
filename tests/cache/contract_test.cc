// What every cache kind keeps to, whatever it is made of: retention × dtype × growth, and layers that differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

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

TEST(Contract, AttendsToExactlyWhatTheReferenceShows) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    for (const Counts& counts : {Counts{5, 1}, {1, 1}, {70, 3}, {1, 1}, {1, 130}, {2, 0}, {1, 1}, {64, 64}}) {
      ASSERT_NO_FATAL_FAILURE(c.append(counts));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
  });
}

TEST(Contract, UpdateReturnsExactlyWhatTheReferenceShows) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    for (const std::int64_t n : {3, 1, 64, 1, 70, 130, 1}) {
      ASSERT_NO_FATAL_FAILURE(c.update(n, 2));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
  });
}

TEST(Contract, BothDoorsMix) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({10, 10}));
    ASSERT_NO_FATAL_FAILURE(c.update(60, 2));
    ASSERT_NO_FATAL_FAILURE(c.append({1, 1}));
    ASSERT_NO_FATAL_FAILURE(c.update(1, 2));
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
  });
}

// 50 calls of three tokens, and prompts ten times the window: `append` checks the bound after every call.
TEST(Contract, LimitedLayersStayBounded) {
  for (const CacheKind& kind : testing::limited_kinds()) {
    SCOPED_TRACE(kind.name());
    CheckedCache by_three(kind), long_prompt(kind);
    for (int i = 0; i < 50; ++i) ASSERT_NO_FATAL_FAILURE(by_three.append({3}));
    ASSERT_NO_FATAL_FAILURE(long_prompt.append({690}));
    ASSERT_NO_FATAL_FAILURE(long_prompt.append({1}));
  }
}

TEST(Contract, LimitedLayersShowAtMostTheirPast) {
  for (const std::int64_t window : {1, 2, 8, 64, 65, 100}) {
    Cache cache({.layers = {testing::layer_of(Retention::last(window))}}, {});
    for (std::int64_t length = 1; length <= 3 * window; ++length) {
      const at::Tensor t = at::ones({1, 2, 1, 16});
      EXPECT_EQ(cache.update(t, t, 0).first.size(2), std::min(length, window));
      EXPECT_EQ(cache.layers()[0].keys().size(2), std::min(length, window - 1));
    }
  }
}

// Filled by a prompt, token by token, or both: the same.
TEST(Contract, HowItWasFilledDoesNotShow) {
  for_each_kind([](const CacheKind& kind) {
    for (const Counts& pieces : {Counts{130}, Counts(130, 1), Counts{7, 93, 1, 29}}) {
      CheckedCache c(kind);
      for (const std::int64_t n : pieces) ASSERT_NO_FATAL_FAILURE(c.append({n}));
      ASSERT_NO_FATAL_FAILURE(c.append({1}));
      ASSERT_NO_FATAL_FAILURE(c.expect_same());
    }
  });
}

TEST(Contract, ThroughAtenItHoldsTheSame) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    c.cache().workspace().set_through_aten(true);
    for (const std::int64_t n : {5, 60, 1, 70}) ASSERT_NO_FATAL_FAILURE(c.update(n, 2));
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    if (c.can_crop(3)) {
      c.crop(3);
      ASSERT_NO_FATAL_FAILURE(c.update(2, 2));
    }
    c.cache().workspace().set_through_aten(false);
    ASSERT_NO_FATAL_FAILURE(c.append({3, 3}));
  });
}

TEST(ContractReset, IsAsNew) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({100, 30}));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({5, 5}));
    c.reset();
    EXPECT_EQ(c.cache().seq_length(), 0);
    EXPECT_EQ(c.cache().n_sequences(), 0);
    EXPECT_TRUE(c.blocks().empty());
    if (!kind.fixed) {
      EXPECT_EQ(c.cache().n_bytes(), 0);
    }
    for (const CacheLayer& layer : c.cache().layers()) EXPECT_FALSE(layer.attention().recording());
    ASSERT_NO_FATAL_FAILURE(c.append({40}));  // another number of sequences
    ASSERT_NO_FATAL_FAILURE(c.append({90}));
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
  });
}

// Copies.

/// The bytes of all blocks that a cache holds, sequence by sequence.
std::vector<std::byte> bytes_of(const Cache& cache) {
  std::vector<std::byte> all;
  for (const CacheLayer& layer : cache.layers()) {
    layer.each_block([&](const BlockRef& block) {
      all.insert(all.end(), block.data(), block.data() + block.pool()->block_bytes());
    });
  }
  return all;
}

TEST(ContractCopy, SharesUntilOneSideWrites) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache source(kind);
    ASSERT_NO_FATAL_FAILURE(source.append({130, 65}));
    CheckedCache copy = source.copy(2);
    EXPECT_EQ(copy.blocks(), source.blocks());
    const std::vector<std::byte> before = bytes_of(source.cache());
    ASSERT_NO_FATAL_FAILURE(copy.append({70, 1}));
    ASSERT_NO_FATAL_FAILURE(copy.expect_same());
    ASSERT_NO_FATAL_FAILURE(source.expect_same());
    EXPECT_EQ(bytes_of(source.cache()), before);
    const std::vector<std::byte> of_copy = bytes_of(copy.cache());
    ASSERT_NO_FATAL_FAILURE(source.append({1, 64}));  // the other way round
    ASSERT_NO_FATAL_FAILURE(source.expect_same());
    EXPECT_EQ(bytes_of(copy.cache()), of_copy);
    ASSERT_NO_FATAL_FAILURE(copy.append({1, 1}));
  });
}

TEST(ContractCopy, CropsAndCopiesOfCopies) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache source(kind);
    source.record();
    ASSERT_NO_FATAL_FAILURE(source.append({100, 100}));
    const std::vector<std::byte> before = bytes_of(source.cache());
    CheckedCache first = source.copy(2), second = first.copy(3);
    first.crop(50);
    ASSERT_NO_FATAL_FAILURE(first.append({5, 5}));
    second.crop(3);
    second.poison(9);
    ASSERT_NO_FATAL_FAILURE(second.append({1, 1}));
    EXPECT_EQ(bytes_of(source.cache()), before);
    for (CheckedCache* c : {&source, &first, &second}) {
      ASSERT_NO_FATAL_FAILURE(c->append({2, 2}));
      ASSERT_NO_FATAL_FAILURE(c->expect_same());
    }
  });
}

TEST(ContractCopy, OutlivesItsSource) {
  for_each_kind([](const CacheKind& kind) {
    auto source = std::make_unique<CheckedCache>(kind);
    ASSERT_NO_FATAL_FAILURE(source->append({70}));
    CheckedCache copy = source->copy(2);
    source.reset();
    ASSERT_NO_FATAL_FAILURE(copy.expect_same());
    ASSERT_NO_FATAL_FAILURE(copy.append({3}));
  });
}

// Two threads work on two copies of one cache; the thread sanitizer's job runs this.
TEST(ContractConcurrency, CopiesAreUsedByTwoThreadsAtOnce) {
  for (const CacheKind& kind : {CacheKind{.layers = testing::layer_plans().front()},
                                CacheKind{.layers = testing::layer_plans().back(), .dtype = DType::kBFloat16}}) {
    SCOPED_TRACE(kind.name());
    CheckedCache source(kind);
    source.record();
    ASSERT_NO_FATAL_FAILURE(source.append({150, 20}));
    const std::vector<std::byte> before = bytes_of(source.cache());
    CheckedCache copies[] = {source.copy(2), source.copy(3)};
    std::vector<std::thread> threads;
    for (CheckedCache& copy : copies) {
      threads.emplace_back([&copy] {
        for (std::int64_t step = 0; step < 20; ++step) {
          copy.append({2, 2 + step});
          copy.crop(step % 3);
          CheckedCache another = copy.copy(static_cast<unsigned>(step));
          another.append({1, 1});
          if (step % 5 == 4) copy.select({1, 0});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (CheckedCache& copy : copies) ASSERT_NO_FATAL_FAILURE(copy.expect_same());
    EXPECT_EQ(bytes_of(source.cache()), before);
  }
}

// Memory and inputs.

TEST(ContractMemory, PastTheBudgetNothingChanges) {
  for_each_kind([](const CacheKind& kind) {
    std::int64_t budget = 1;  // three blocks of every layer
    const Cache plain = kind.make();
    for (const CacheLayer& layer : plain.layers()) budget += 3 * layer.attention().layout().block_bytes();
    CacheOptions options = kind.options(128);
    options.config.max_cache_bytes = budget;
    CheckedCache c(kind, Cache(kind.shape(), options));
    const Counts many(64, 128);
    EXPECT_THAT(refused(c, ErrorKind::kOutOfMemory, [&] { c.cache().prepare(many); }),
                HasSubstr("max_cache_bytes = " + std::to_string(budget)));
    EXPECT_EQ(c.cache().n_sequences(), 0);
    ASSERT_NO_FATAL_FAILURE(c.append({60}));
    if (!kind.limited() && !kind.config.offloading) {
      const Counts rest = {1 << 20};
      refused(c, kind.fixed ? ErrorKind::kFailedPrecondition : ErrorKind::kOutOfMemory,
              [&] { c.cache().prepare(rest); });
    }
    ASSERT_NO_FATAL_FAILURE(c.append({8}));
  });
}

TEST(ContractMemory, SharedBlocksCountOnce) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({100}));
    const std::int64_t one = c.cache().n_bytes();
    if (kind.fixed) return;
    c.repeat(4);
    EXPECT_EQ(c.cache().n_bytes(), one);
    CheckedCache copy = c.copy(2);
    EXPECT_EQ(copy.cache().n_bytes(), one);
  });
}

TEST(ContractInput, UpdateRefusesWhatDoesNotFit) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({3, 3}));
    const std::int64_t value_dim = kind.layers[0].value_dim;
    const at::Tensor k = at::ones({2, 2, 1, 16}), v = at::ones({2, 2, 1, value_dim});
    const auto refuse = [&](ErrorKind error, const at::Tensor& keys, const at::Tensor& values, std::int64_t layer = 0) {
      return refused(c, error, [&] { c.cache().update(keys, values, layer); });
    };
    EXPECT_THAT(refuse(ErrorKind::kInvalidArgument, at::ones({2, 2, 1, 15}), v), HasSubstr("[2, 2, 1, 15]"));
    refuse(ErrorKind::kInvalidArgument, at::ones({2, 3, 1, 16}), v);
    refuse(ErrorKind::kInvalidArgument, at::ones({2, 2, 2, 16}), v);
    refuse(ErrorKind::kInvalidArgument, at::ones({2, 2, 16}), v);
    EXPECT_THAT(refuse(ErrorKind::kInvalidArgument, at::ones({3, 2, 1, 16}), at::ones({3, 2, 1, value_dim})),
                ::testing::AllOf(HasSubstr("3 sequences"), HasSubstr("holds 2")));
    EXPECT_THAT(refuse(ErrorKind::kInvalidArgument, k.clone().requires_grad_(), v), HasSubstr("require grad"));
    refuse(ErrorKind::kInvalidArgument, k, v.clone().requires_grad_());
    EXPECT_THAT(refuse(ErrorKind::kOutOfRange, k, v, 99), HasSubstr("layer 99"));
    refuse(ErrorKind::kOutOfRange, k, v, -1);
    ASSERT_NO_FATAL_FAILURE(c.append({1, 2}));
    EXPECT_THAT(refuse(ErrorKind::kFailedPrecondition, k, v), ::testing::AllOf(HasSubstr("4"), HasSubstr("5")));
  });
}

TEST(ContractInput, PrepareRefusesAnotherBatch) {
  for_each_kind([](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({3, 3}));
    const Counts three(3, 1), negative = {1, -1};
    EXPECT_THAT(refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().prepare(three); }),
                ::testing::AllOf(HasSubstr("3 sequences"), HasSubstr("holds 2")));
    refused(c, ErrorKind::kInvalidArgument, [&] { c.cache().prepare(negative); });
  });
}

}  // namespace
}  // namespace mneme
