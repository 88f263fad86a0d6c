// Cache against no cache, positions, and continuing from a cache: cases from public reports of other libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::some_ids;
using testing::tensor_of;

class PositionsTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<const CausalLM> model_ = golden_model(GetParam());
};

TEST_P(PositionsTest, EveryStepHasTheLogitsOfARunWithoutACache) {
  for (const std::int64_t length : {1, 2, 7, 64}) {
    const at::Tensor ids = tensor_of({some_ids(length + 40)});
    auto cache = DynamicCache(model_->config());
    at::Tensor cached = model_->forward({.input_ids = ids.narrow(1, 0, length)}, &cache).logits.select(1, -1);
    for (std::int64_t n = length; n < length + 40; ++n) {
      const at::Tensor whole =
          model_->forward({.input_ids = ids.narrow(1, 0, n), .logits_to_keep = 1}).logits.select(1, 0);
      ASSERT_TRUE(at::equal(cached, whole)) << length << " + " << n - length;
      cached = model_->forward({.input_ids = ids.narrow(1, n, 1)}, &cache).logits.select(1, 0);
    }
  }
}

TEST_P(PositionsTest, EmbeddingsContinueAFilledCacheAsTheirIdsDo) {
  const at::Tensor ids = tensor_of({some_ids(15)});
  const at::Tensor whole = model_->forward({.input_ids = ids}).logits.narrow(1, 10, 5);
  // The embedding of each id, found as what the model does with it: rows of the stored matrix.
  const at::Tensor table = testing::embedding_table(GetParam());
  const at::Tensor embeds = table.index_select(0, ids[0].narrow(0, 10, 5)).unsqueeze(0);
  for (const std::int64_t chunk : {5, 1}) {
    auto cache = DynamicCache(model_->config());
    model_->forward({.input_ids = ids.narrow(1, 0, 10)}, &cache);
    for (std::int64_t i = 0; i < 5; i += chunk) {
      const at::Tensor logits = model_->forward({.inputs_embeds = embeds.narrow(1, i, chunk)}, &cache).logits;
      EXPECT_TRUE(at::equal(logits, whole.narrow(1, i, chunk))) << chunk << " at a time, at " << i;
    }
  }
}

TEST_P(PositionsTest, GivenPositionsAreUsed) {
  const at::Tensor ids = tensor_of({some_ids(20)});
  const at::Tensor positions = at::arange(100, 120, at::kLong).unsqueeze(0);
  const at::Tensor at_zero = model_->forward({.input_ids = ids}).logits;
  const at::Tensor counted =
      model_->forward({.input_ids = ids, .position_ids = at::arange(20, at::kLong).unsqueeze(0)}).logits;
  EXPECT_TRUE(at::equal(counted, at_zero));
  // RoPE sees differences of positions only, so a shift changes rounding alone; unequal steps change everything.
  const at::Tensor shifted = model_->forward({.input_ids = ids, .position_ids = positions}).logits;
  EXPECT_LT((shifted - at_zero).abs().max().item<float>(), 1e-3 * at_zero.abs().max().item<float>());
  EXPECT_FALSE(at::equal(shifted, at_zero));
  const at::Tensor spread = model_->forward({.input_ids = ids, .position_ids = positions * 3}).logits;
  EXPECT_GT((spread - at_zero).abs().max().item<float>(), 1e-2);
  // In two parts through a cache, each with its own positions.
  auto cache = DynamicCache(model_->config());
  model_->forward({.input_ids = ids.narrow(1, 0, 12), .position_ids = positions.narrow(1, 0, 12)}, &cache);
  const at::Tensor rest =
      model_->forward({.input_ids = ids.narrow(1, 12, 8), .position_ids = positions.narrow(1, 12, 8)}, &cache).logits;
  EXPECT_TRUE(at::equal(rest, shifted.narrow(1, 12, 8)));
}

TEST_P(PositionsTest, APrefillInChunksOnAWarmCacheSeesThePrefixAndTheWindow) {
  const at::Tensor ids = tensor_of({some_ids(33 + 10)});
  const at::Tensor whole = model_->forward({.input_ids = ids}).logits;
  for (const std::int64_t chunk : {1, 2, 5, 8, 16, 33}) {
    auto cache = DynamicCache(model_->config());
    model_->forward({.input_ids = ids.narrow(1, 0, 10)}, &cache);
    for (std::int64_t i = 10; i < 43; i += chunk) {
      const std::int64_t n = std::min<std::int64_t>(chunk, 43 - i);
      const at::Tensor logits = model_->forward({.input_ids = ids.narrow(1, i, n)}, &cache).logits;
      EXPECT_TRUE(at::equal(logits, whole.narrow(1, i, n))) << "chunks of " << chunk << ", at " << i;
    }
  }
}

TEST_P(PositionsTest, AMaskThatCountsAnotherPastIsRefusedWithBothNumbers) {
  auto cache = DynamicCache(model_->config());
  model_->forward({.input_ids = tensor_of({some_ids(12)})}, &cache);
  const std::string message = testing::thrown(ErrorKind::kInvalidArgument, [&] {
    model_->forward({.input_ids = tensor_of({{5}}), .attention_mask = at::ones({1, 30}, at::kLong)}, &cache);
  });
  EXPECT_THAT(message, ::testing::HasSubstr("29"));
  EXPECT_THAT(message, ::testing::HasSubstr("12"));
  EXPECT_EQ(cache.seq_length(), 12);
}

TEST_P(PositionsTest, RowsWithoutPaddingKeepFiniteLogitsBesideLongOnes) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const auto model = golden_model(GetParam(), dtype);
    const EncodedInputs inputs = testing::left_padded({some_ids(1), some_ids(30, 2)});
    const at::Tensor logits =
        model->forward({.input_ids = inputs.input_ids, .attention_mask = inputs.attention_mask}).logits;
    EXPECT_TRUE(at::isfinite(logits).all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PositionsTest, ::testing::ValuesIn(testing::kGoldenModels),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mneme
