#include "mneme/models/ragged.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "tests/support/matrix.h"
#include "tests/support/random_model.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::random_ids;
using testing::RandomModel;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

at::Tensor row(const Ids& ids) { return at::tensor(ids, at::kLong).unsqueeze(0); }
at::Tensor matrix(const std::vector<Ids>& rows) {
  std::vector<at::Tensor> tensors;
  for (const Ids& r : rows) tensors.push_back(at::tensor(r, at::kLong));
  return at::stack(tensors);
}

class Ragged : public ::testing::Test {
 protected:
  DynamicCache cache() const { return DynamicCache(model_->cache_shape()); }

  /// A cache that holds n random tokens of one sequence.
  DynamicCache filled(std::int64_t n) const {
    DynamicCache c = cache();
    forward(*model_, {.input_ids = row(random_ids(n, 1))}, c);
    return c;
  }

  /// The error of an input, which leaves the cache as it was.
  std::string refusal(const ForwardInput& input, Cache& c) const {
    const Ids before = c.lengths();
    const std::string message = thrown(ErrorKind::kInvalidArgument, [&] { forward(*model_, input, c); });
    EXPECT_EQ(c.lengths(), before);
    return message;
  }
  std::string refusal(const ForwardInput& input) const {
    DynamicCache c = cache();
    return refusal(input, c);
  }

  at::Tensor embeddings_of(const Ids& ids) const {
    const StoredTensor& table = model_.weights().get("model.embed_tokens.weight", {512, 64});
    testing::Matrix rows(std::ssize(ids), 64);
    for (std::int64_t i = 0; i < rows.n; ++i) read_rows(table, ids[static_cast<std::size_t>(i)], 1, rows.row(i));
    return rows.tensor().clone().unsqueeze(0);
  }

  RandomModel model_{"qwen3", testing::kAlternatingWindow};
};

TEST_F(Ragged, FlattensRealTokensOnly) {
  DynamicCache c = cache();
  const RaggedInput r = flatten({.input_ids = matrix({{9, 9, 1, 2}, {3, 4, 5, 9}, {9, 6, 9, 7}}),
                                 .attention_mask = matrix({{0, 0, 1, 1}, {1, 1, 1, 0}, {0, 1, 0, 1}})},
                                *model_, c);
  EXPECT_THAT(r.ids, ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(r.positions, ElementsAre(0, 1, 0, 1, 2, 0, 1));
  EXPECT_THAT(r.row_starts, ElementsAre(0, 2, 5, 7));
  EXPECT_THAT(r.columns, ElementsAre(2, 3, 0, 1, 2, 1, 3));
  EXPECT_THAT(r.counts(), ElementsAre(2, 3, 2));
  EXPECT_EQ(r.batch().n_tokens(), 7);
}

TEST_F(Ragged, PositionsCountOnFromTheCache) {
  DynamicCache c = filled(10);
  EXPECT_THAT(flatten({.input_ids = row({1, 2, 3})}, *model_, c).positions, ElementsAre(10, 11, 12));
}

TEST_F(Ragged, TakesAnyIntegersAndBooleans) {
  DynamicCache c = cache();
  const RaggedInput r = flatten({.input_ids = matrix({{1, 2}}).to(at::kInt),
                                 .attention_mask = at::tensor({{1}}, at::kLong).expand({1, 2}).to(at::kBool)},
                                *model_, c);
  EXPECT_THAT(r.ids, ElementsAre(1, 2));
}

// Padding on either side or within, whatever ids it has: a real token's logits have the bits it has alone.
TEST_F(Ragged, PaddingOnAnySideChangesNothing) {
  const Ids prompt = random_ids(9, 2);
  DynamicCache alone = cache();
  const at::Tensor expected = forward(*model_, {.input_ids = row(prompt)}, alone)[0];
  for (const std::int64_t left : {0, 7, 3}) {
    at::Tensor ids = at::full({2, 16}, 2, at::kLong), mask = at::zeros({2, 16}, at::kLong);
    ids[0].narrow(0, left, 9).copy_(at::tensor(prompt, at::kLong));
    mask[0].narrow(0, left, 9).fill_(1);
    ids[1].copy_(at::tensor(random_ids(16, 3), at::kLong));
    mask[1].fill_(1);
    DynamicCache c = cache();
    const at::Tensor logits = forward(*model_, {.input_ids = ids, .attention_mask = mask}, c);
    ASSERT_EQ(logits.sizes(), at::IntArrayRef({2, 16, 512}));
    EXPECT_TRUE(at::equal(logits[0].narrow(0, left, 9), expected)) << left;
    EXPECT_TRUE(logits[0].index_select(0, mask[0].eq(0).nonzero().flatten()).eq(0).all().item<bool>());
    EXPECT_THAT(c.lengths(), ElementsAre(9, 16));
  }
}

// The mask is given at the prefill only: the cache knows which tokens are real.
TEST_F(Ragged, TheMaskMayBeLeftOutAfterThePrefill) {
  const Ids prompt = random_ids(5, 4);
  DynamicCache alone = cache(), with_mask = cache(), without = cache();
  const at::Tensor ids = matrix({{0, 0, 0, prompt[0], prompt[1], prompt[2], prompt[3], prompt[4]}, random_ids(8, 5)});
  at::Tensor mask = at::ones({2, 8}, at::kLong);
  mask[0].narrow(0, 0, 3).fill_(0);
  forward(*model_, {.input_ids = row(prompt)}, alone);
  for (Cache* c : {static_cast<Cache*>(&with_mask), static_cast<Cache*>(&without)})
    forward(*model_, {.input_ids = ids, .attention_mask = mask}, *c);
  for (std::int64_t step = 0; step < 5; ++step) {
    const at::Tensor next = matrix({{step}, {step}});
    mask = at::cat({mask, at::ones({2, 1}, at::kLong)}, 1);
    const at::Tensor expected = forward(*model_, {.input_ids = row({step})}, alone)[0];
    const at::Tensor a = forward(*model_, {.input_ids = next, .attention_mask = mask}, with_mask);
    const at::Tensor b = forward(*model_, {.input_ids = next}, without);
    EXPECT_TRUE(at::equal(a[0], expected));
    EXPECT_TRUE(at::equal(a, b));
  }
}

TEST_F(Ragged, AMaskThatCountsAnotherPastIsAnError) {
  DynamicCache c = filled(12);
  EXPECT_THAT(refusal({.input_ids = row({5}), .attention_mask = at::ones({1, 30}, at::kLong)}, c),
              AllOf(HasSubstr("29 past tokens"), HasSubstr("holds 12")));
  EXPECT_THAT(refusal({.input_ids = row({5}), .attention_mask = at::ones({1, 12}, at::kLong)}, c),
              AllOf(HasSubstr("11 past tokens"), HasSubstr("holds 12")));
}

// With positions of its own the past of the mask says nothing that is needed: they are used as given.
TEST_F(Ragged, ExplicitPositionsAreUsedAsGiven) {
  DynamicCache c = filled(12), d = filled(12), e = filled(12);
  const at::Tensor expected = forward(*model_, {.input_ids = row({5}), .position_ids = row({30})}, c);
  const at::Tensor masked = forward(
      *model_, {.input_ids = row({5}), .attention_mask = at::ones({1, 30}, at::kLong), .position_ids = row({30})}, d);
  EXPECT_TRUE(at::equal(masked, expected));
  EXPECT_FALSE(at::equal(forward(*model_, {.input_ids = row({5})}, e), expected));
}

// Attention sees differences of positions only, so from 100 on all is as from 0 but for the rounding of angles.
TEST_F(Ragged, PositionsMayStartAnywhere) {
  const Ids ids = random_ids(20, 6);
  Ids from_100, from_0;
  for (std::int64_t i = 0; i < 20; ++i) from_100.push_back(100 + i), from_0.push_back(i);
  DynamicCache plain = cache(), zero = cache(), hundred = cache();
  const at::Tensor expected = forward(*model_, {.input_ids = row(ids)}, plain);
  EXPECT_TRUE(at::equal(forward(*model_, {.input_ids = row(ids), .position_ids = row(from_0)}, zero), expected));
  const at::Tensor shifted = forward(*model_, {.input_ids = row(ids), .position_ids = row(from_100)}, hundred);
  EXPECT_FALSE(at::equal(shifted, expected));
  EXPECT_TRUE(at::allclose(shifted, expected, 1e-3, 1e-3));
  const RaggedInput r = flatten({.input_ids = row({1, 2}), .position_ids = row({120, 7})}, *model_, hundred);
  EXPECT_THAT(r.positions, ElementsAre(120, 7));
}

TEST_F(Ragged, PoisonedPaddingStaysOutside) {
  for (const DType dtype : testing::kDTypes) {
    const RandomModel model("qwen3", testing::kAlternatingWindow, dtype);
    at::Tensor embeddings = at::full({2, 30, 64}, testing::kNan);
    embeddings[0][29] = embeddings_of({7})[0][0];
    embeddings[1].copy_(embeddings_of(random_ids(30, 7))[0]);
    at::Tensor mask = at::ones({2, 30}, at::kLong);
    mask[0].narrow(0, 0, 29).fill_(0);
    DynamicCache c(model->cache_shape());
    const at::Tensor logits = forward(*model, {.attention_mask = mask, .inputs_embeds = embeddings}, c);
    EXPECT_TRUE(logits.isfinite().all().item<bool>()) << name_of(dtype);
  }
}

TEST_F(Ragged, EmbeddingsAreAsGoodAsIds) {
  const Ids ids = random_ids(15, 8), tail(ids.begin() + 10, ids.end());
  DynamicCache by_ids = cache(), at_once = cache(), one_by_one = cache();
  const at::Tensor expected = forward(*model_, {.input_ids = row(ids)}, by_ids)[0].narrow(0, 10, 5);
  for (Cache* c : {static_cast<Cache*>(&at_once), static_cast<Cache*>(&one_by_one)})
    forward(*model_, {.input_ids = row({ids.begin(), ids.begin() + 10})}, *c);
  EXPECT_TRUE(at::equal(forward(*model_, {.inputs_embeds = embeddings_of(tail)}, at_once)[0], expected));
  for (std::int64_t i = 0; i < 5; ++i) {
    const at::Tensor one = embeddings_of({tail[static_cast<std::size_t>(i)]});
    EXPECT_THAT(flatten({.inputs_embeds = one}, *model_, one_by_one).positions, ElementsAre(10 + i));
    EXPECT_TRUE(at::equal(forward(*model_, {.inputs_embeds = one}, one_by_one)[0][0], expected[i]));
  }
}

TEST_F(Ragged, LogitsOfTheLastColumnsOnly) {
  const at::Tensor ids = matrix({random_ids(6, 9), random_ids(6, 10)});
  const at::Tensor mask = matrix({{1, 1, 1, 1, 1, 0}, {0, 0, 0, 1, 1, 1}});
  DynamicCache whole = cache();
  const at::Tensor all = forward(*model_, {.input_ids = ids, .attention_mask = mask}, whole);
  for (const std::int64_t kept : {1, 3, 6, 100}) {
    DynamicCache c = cache();
    const at::Tensor last = forward(*model_, {.input_ids = ids, .attention_mask = mask, .logits_to_keep = kept}, c);
    const std::int64_t n = std::min<std::int64_t>(kept, 6);
    EXPECT_TRUE(at::equal(last, all.narrow(1, 6 - n, n))) << kept;
  }
}

TEST_F(Ragged, NothingThatRequiresGradAndNothingThatKeepsIt) {
  EXPECT_THAT(refusal({.inputs_embeds = at::ones({1, 2, 64}).requires_grad_()}), HasSubstr("require grad"));
  DynamicCache c = cache();
  EXPECT_FALSE(forward(*model_, {.input_ids = row({1})}, c).requires_grad());
}

TEST_F(Ragged, RefusesInputsThatCannotBe) {
  const auto ids = row({1, 2, 3});
  EXPECT_THAT(refusal({}), HasSubstr("neither"));
  EXPECT_THAT(refusal({.input_ids = ids, .inputs_embeds = at::ones({1, 3, 64})}), HasSubstr("both"));
  EXPECT_THAT(refusal({.input_ids = ids.to(at::kFloat)}), HasSubstr("integers"));
  EXPECT_THAT(refusal({.input_ids = ids[0]}), HasSubstr("1 dimensions"));
  EXPECT_THAT(refusal({.input_ids = at::zeros({1, 0}, at::kLong)}), HasSubstr("1 sequences of 0 tokens"));
  EXPECT_THAT(refusal({.input_ids = at::zeros({0, 3}, at::kLong)}), HasSubstr("empty input"));
  EXPECT_THAT(refusal({.input_ids = row({1, 512})}), AllOf(HasSubstr("512"), HasSubstr("vocabulary of 512")));
  EXPECT_THAT(refusal({.input_ids = row({-1})}), HasSubstr("-1"));
  EXPECT_THAT(refusal({.input_ids = ids, .attention_mask = at::ones({1, 2}, at::kLong)}), HasSubstr("[1, 2]"));
  EXPECT_THAT(refusal({.input_ids = ids, .attention_mask = at::ones({2, 3}, at::kLong)}), HasSubstr("[2, 3]"));
  EXPECT_THAT(refusal({.input_ids = ids, .attention_mask = at::ones({1, 3})}), HasSubstr("attention_mask"));
  EXPECT_THAT(refusal({.input_ids = ids, .attention_mask = at::zeros({1, 3}, at::kLong)}), HasSubstr("all zeros"));
  EXPECT_THAT(refusal({.input_ids = ids, .position_ids = row({1, 2})}), HasSubstr("position_ids"));
  EXPECT_THAT(refusal({.input_ids = row({1}), .position_ids = row({-3})}), HasSubstr("-3"));
  EXPECT_THAT(refusal({.inputs_embeds = at::ones({1, 3, 63})}), HasSubstr("64"));
  EXPECT_THAT(refusal({.inputs_embeds = at::ones({3, 64})}), HasSubstr("inputs_embeds"));
  EXPECT_THAT(refusal({.input_ids = ids, .logits_to_keep = -1}), HasSubstr("-1"));
}

// An id that is padding may be anything: -100 is common.
TEST_F(Ragged, PaddedIdsAreNotLookedAt) {
  DynamicCache c = cache();
  forward(*model_, {.input_ids = row({-100, 5}), .attention_mask = row({0, 1})}, c);
  EXPECT_EQ(c.seq_length(), 1);
}

TEST_F(Ragged, RefusesACacheThatDoesNotFit) {
  DynamicCache two = cache();
  forward(*model_, {.input_ids = matrix({{1}, {2}})}, two);
  EXPECT_THAT(refusal({.input_ids = row({1})}, two), HasSubstr("holds 2"));
  const RandomModel other("llama", {{"num_hidden_layers", 2}});
  DynamicCache of_other(other->cache_shape());
  EXPECT_THAT(refusal({.input_ids = row({1})}, of_other), HasSubstr("2 layers"));
}

TEST_F(Ragged, AFullStaticCacheThrowsAndChangesNothing) {
  StaticCache c(model_->cache_shape(), {.max_cache_len = 16});
  forward(*model_, {.input_ids = row(random_ids(10, 11))}, c);
  EXPECT_THAT(
      thrown(ErrorKind::kFailedPrecondition, [&] { forward(*model_, {.input_ids = row(random_ids(7, 12))}, c); }),
      HasSubstr("10 cached + 7 new tokens exceed its capacity of 16"));
  EXPECT_EQ(c.seq_length(), 10);
  forward(*model_, {.input_ids = row(random_ids(6, 12))}, c);
}

TEST_F(Ragged, ACacheInUseIsRefused) {
  DynamicCache c = cache();
  const Cache::Use use(c);
  thrown(ErrorKind::kFailedPrecondition, [&] { forward(*model_, {.input_ids = row({1})}, c); });
}

}  // namespace
}  // namespace mneme
