#include "mneme/models/seq2seq_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/models/registry.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

at::Tensor ids(std::int64_t n_sequences, std::int64_t n, std::int64_t first = 2) {
  return (at::arange(n_sequences * n, at::kLong) * 7 % 40 + first).view({n_sequences, n});
}

class Seq2SeqForward : public ::testing::Test {
 protected:
  EncoderDecoderCache cache() const {
    return {DynamicCache(model_->cache_shape()), DynamicCache(model_->cross_cache_shape())};
  }
  std::string refusal(const Seq2SeqInput& input, EncoderDecoderCache& cache) const {
    return thrown(ErrorKind::kInvalidArgument, [&] { forward(*model_, input, cache); });
  }
  std::unique_ptr<Seq2SeqModel> model_ = load_seq2seq_model(testing::test_data("t5/first"), DType::kFloat32, at::kCPU);
};

TEST_F(Seq2SeqForward, LogitsAreTheDecodersRectangle) {
  EncoderDecoderCache c = cache();
  const at::Tensor mask = at::tensor({0, 1, 1, 1, 1, 1}, at::kLong).view({2, 3});
  const at::Tensor logits =
      forward(*model_, {.input_ids = ids(2, 9), .decoder_input_ids = ids(2, 3), .decoder_attention_mask = mask}, c);
  EXPECT_EQ(logits.sizes(), at::IntArrayRef({2, 3, 48}));
  EXPECT_EQ(logits[0][0].abs().max().item<float>(), 0.0f);
  EXPECT_THAT(c.lengths(), ::testing::ElementsAre(2, 3));
  const at::Tensor last = forward(*model_, {.decoder_input_ids = ids(2, 2), .logits_to_keep = 1}, c);
  EXPECT_EQ(last.sizes(), at::IntArrayRef({2, 1, 48}));
  EXPECT_TRUE(last.is_inference());
}

// From public reports: the same cache object with a new source went on with the old one.
TEST_F(Seq2SeqForward, ANewSourceIsRefusedUntilTheCacheIsReset) {
  EncoderDecoderCache c = cache();
  const at::Tensor first = forward(*model_, {.input_ids = ids(1, 9), .decoder_input_ids = ids(1, 3)}, c);
  EXPECT_THAT(refusal({.input_ids = ids(1, 5, 3), .decoder_input_ids = ids(1, 1)}, c),
              AllOf(HasSubstr("9 encoder states"), HasSubstr("reset()")));
  EXPECT_EQ(c.seq_length(), 3);
  c.reset();
  const at::Tensor other = forward(*model_, {.input_ids = ids(1, 5, 3), .decoder_input_ids = ids(1, 3)}, c);
  EXPECT_FALSE(at::equal(first, other));
  c.reset();
  EXPECT_TRUE(at::equal(forward(*model_, {.input_ids = ids(1, 9), .decoder_input_ids = ids(1, 3)}, c), first));
}

TEST_F(Seq2SeqForward, WrongInputLeavesTheCacheAsItWas) {
  EncoderDecoderCache c = cache();
  const at::Tensor source = ids(2, 4), target = ids(2, 1), none = at::zeros({2, 0}, at::kLong);
  EXPECT_THAT(refusal({.decoder_input_ids = target}, c), HasSubstr("nothing to decode from"));
  EXPECT_THAT(refusal({.input_ids = source}, c), HasSubstr("decoder_start_token_id"));
  EXPECT_THAT(refusal({.input_ids = none, .decoder_input_ids = target}, c), HasSubstr("2 sequences of 0 tokens"));
  EXPECT_THAT(refusal({.input_ids = source, .decoder_input_ids = none}, c), HasSubstr("2 sequences of 0 tokens"));
  EXPECT_THAT(
      refusal({.input_ids = source, .attention_mask = at::zeros({2, 4}, at::kLong), .decoder_input_ids = target}, c),
      HasSubstr("all zeros"));
  EXPECT_THAT(
      refusal({.input_ids = source, .attention_mask = at::ones({2, 3}, at::kLong), .decoder_input_ids = target}, c),
      HasSubstr("attention_mask"));
  EXPECT_THAT(refusal({.input_ids = source + 40, .decoder_input_ids = target}, c), HasSubstr("vocabulary of 48"));
  EXPECT_THAT(refusal({.input_ids = source, .decoder_input_ids = target - 3}, c), HasSubstr("-1"));
  EXPECT_THAT(refusal({.input_ids = source.to(at::kFloat), .decoder_input_ids = target}, c), HasSubstr("integers"));
  EXPECT_THAT(refusal({.input_ids = source, .decoder_input_ids = ids(3, 1)}, c),
              AllOf(HasSubstr("3 sequences of decoder_input_ids"), HasSubstr("2 of the encoder")));
  EXPECT_FALSE(c.is_written());
  EXPECT_EQ(c.n_sequences(), 0);
  forward(*model_, {.input_ids = source, .decoder_input_ids = target}, c);
  EXPECT_THAT(refusal({.decoder_input_ids = ids(3, 1)}, c), HasSubstr("3"));
  EXPECT_EQ(c.seq_length(), 1);
}

TEST_F(Seq2SeqForward, ACrossPartOfAnotherBatchSizeIsRefused) {
  EncoderDecoderCache two = cache(), fresh = cache();
  forward(*model_, {.input_ids = ids(2, 4), .decoder_input_ids = ids(2, 1)}, two);
  EncoderDecoderCache mixed(fresh.self_attention_cache().copy(), two.cross_attention_cache().copy());
  EXPECT_THAT(refusal({.decoder_input_ids = ids(3, 1)}, mixed), AllOf(HasSubstr("3"), HasSubstr("2 of the encoder")));
  EXPECT_EQ(mixed.self_attention_cache().n_sequences(), 0);
  forward(*model_, {.decoder_input_ids = ids(2, 1)}, mixed);
}

TEST_F(Seq2SeqForward, ASourcePastAStaticCacheIsRefusedWithBothNumbers) {
  EncoderDecoderCache c(DynamicCache(model_->cache_shape()),
                        StaticCache(model_->cross_cache_shape(), {.max_cache_len = 8}));
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition,
                     [&] { forward(*model_, {.input_ids = ids(1, 9), .decoder_input_ids = ids(1, 1)}, c); }),
              AllOf(HasSubstr("9"), HasSubstr("8")));
  EXPECT_FALSE(c.is_written());
}

TEST_F(Seq2SeqForward, ACacheIsUsedByOneCallAtATime) {
  EncoderDecoderCache c = cache();
  const Cache::Use use(c.cross_attention_cache());
  thrown(ErrorKind::kFailedPrecondition,
         [&] { forward(*model_, {.input_ids = ids(1, 2), .decoder_input_ids = ids(1, 1)}, c); });
}

}  // namespace
}  // namespace mneme
