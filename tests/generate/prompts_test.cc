#include "mneme/generate/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/generate/golden.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::HasSubstr;
using testing::Rows;
using testing::tensor_of;
using testing::thrown;

TEST(Prompts, PaddingOnAnySideIsLeftOut) {
  EXPECT_EQ(real_ids(tensor_of({{0, 5, 6}, {7, 8, 0}, {9, 0, 3}}), tensor_of({{0, 1, 1}, {1, 1, 0}, {1, 0, 7}})),
            (Rows{{5, 6}, {7, 8}, {9, 3}}));
  EXPECT_EQ(real_ids(tensor_of({{0, 5}}), {}), (Rows{{0, 5}}));
  EXPECT_EQ(real_ids(tensor_of({{4, 5}}).to(at::kInt), {}), (Rows{{4, 5}}));
}

TEST(Prompts, ShapesThatDoNotFitAreRefused) {
  for (const at::Tensor& ids : {at::Tensor(), at::zeros({3}, at::kLong), at::zeros({1, 3})}) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { real_ids(ids, {}); }), HasSubstr("[batch, tokens]"));
  }
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument,
                     [&] {
                       real_ids(tensor_of({{1, 2}}), tensor_of({{1, 1, 1}}));
                     }),
              HasSubstr("3 entries, input_ids 2"));
}

TEST(Prompts, AreCheckedAgainstTheModel) {
  ModelConfig config;
  config.vocab_size = 10;
  config.max_position_embeddings = 3;
  check_prompt({0, 9, 1}, config);
  const auto refused = [&](const std::vector<std::int64_t>& prompt) {
    return thrown(ErrorKind::kInvalidArgument, [&] { check_prompt(prompt, config); });
  };
  EXPECT_THAT(refused({}), HasSubstr("empty prompt"));
  EXPECT_THAT(refused({10}), HasSubstr("id 10 is outside the vocabulary of 10"));
  EXPECT_THAT(refused({-1}), HasSubstr("-1"));
  EXPECT_THAT(refused({1, 1, 1, 1}), HasSubstr("4 tokens is longer than the model's max_position_embeddings = 3"));
}

TEST(Prompts, JoinedRowsEndInPadding) {
  EXPECT_EQ(longest({{1}, {1, 2, 3}, {}}), 3);
  EXPECT_EQ(longest(Rows{}), 0);
  EXPECT_EQ(testing::rows_of(joined(tensor_of({{1, 2}, {3, 4}}), {{5}, {6, 7, 8}}, 9)),
            (Rows{{1, 2, 5, 9, 9}, {3, 4, 6, 7, 8}}));
  EXPECT_EQ(joined(tensor_of({{1, 2}}), {{}}, 0).sizes(), at::IntArrayRef({1, 2}));
}

}  // namespace
}  // namespace mneme
