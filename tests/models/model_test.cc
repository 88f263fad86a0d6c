#include "mneme/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RandomModel;
using testing::thrown;

TEST(CheckFits, ACacheOfTheModelsShapeInAnyDtypeFits) {
  const RandomModel model("qwen3", testing::kAlternatingWindow);
  check_fits(*model, DynamicCache(model->cache_shape()));
  check_fits(*model, DynamicCache(model->cache_shape(), {.dtype = DType::kBFloat16}));
  check_fits(*model, StaticCache(model->cache_shape(), {.max_cache_len = 8}));
}

TEST(CheckFits, ACacheOfAnotherModelIsAnErrorWithBothNumbers) {
  const RandomModel model("qwen3", testing::kAlternatingWindow);
  const auto refusal = [&](const auto& change) {
    CacheShape shape = model->cache_shape();
    change(shape);
    return thrown(ErrorKind::kInvalidArgument, [&] { check_fits(*model, DynamicCache(shape)); });
  };
  EXPECT_THAT(refusal([](CacheShape& s) { s.layers.pop_back(); }), AllOf(HasSubstr("3 layers"), HasSubstr("of 4")));
  EXPECT_THAT(refusal([](CacheShape& s) { s.layers[2].n_heads = 1; }),
              AllOf(HasSubstr("layer 2"), HasSubstr("1 heads of 16 and 16"), HasSubstr("2 of 16 and 16")));
  EXPECT_THAT(refusal([](CacheShape& s) { s.layers[0].key_dim = 32; }), HasSubstr("2 heads of 32 and 16"));
  EXPECT_THAT(refusal([](CacheShape& s) { s.layers[3].value_dim = 8; }), HasSubstr("layer 3"));
  EXPECT_THAT(refusal([](CacheShape& s) { s.layers[0].retention = Retention::last(9); }),
              AllOf(HasSubstr("keeps last 9"), HasSubstr("keeps last 8")));
}

TEST(CheckFits, LayersMustHoldTheSameTokens) {
  const RandomModel model("qwen3", testing::kAlternatingWindow);
  DynamicCache cache(model->cache_shape());
  cache.update(at::ones({1, 2, 9, 16}), at::ones({1, 2, 9, 16}), 0);
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { check_fits(*model, cache); }),
              AllOf(HasSubstr("layer 1 of the cache holds 0"), HasSubstr("layer 0 holds 9")));
  for (int i = 1; i < 4; ++i) cache.update(at::ones({1, 2, 9, 16}), at::ones({1, 2, 9, 16}), i);
  check_fits(*model, cache);
}

}  // namespace
}  // namespace mneme
