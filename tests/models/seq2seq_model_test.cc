#include "mneme/models/seq2seq_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/cache/presets.h"
#include "mneme/models/ragged.h"
#include "mneme/models/registry.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

class Seq2SeqModelTest : public ::testing::Test {
 protected:
  std::unique_ptr<Seq2SeqModel> model_ =
      load_seq2seq_model(testing::test_data("t5/gated_silu"), DType::kFloat32, at::kCPU);
  const Ids ids_ = {3, 4, 5, 6, 7}, row_starts_ = {0, 2, 5};

  TokenBatch source() const { return {.ids = ids_, .row_starts = row_starts_}; }
};

// The decoder of a model with windows still sees all of the encoder's states.
TEST_F(Seq2SeqModelTest, CrossLayersKeepEverything) {
  ModelConfig config = model_->config();
  config.sliding_window = 8;
  for (LayerType& type : config.layer_types) type = LayerType::kSlidingAttention;
  const CacheShape self = cache_shape_of(config, DType::kFloat32, at::kCPU),
                   cross = cross_cache_shape_of(config, DType::kFloat32, at::kCPU);
  ASSERT_EQ(cross.layers.size(), 3u);
  EXPECT_EQ(self.layers[0].retention, Retention::last(8));
  for (const LayerShape& layer : cross.layers) EXPECT_EQ(layer.retention, Retention::all());
  EXPECT_EQ(model_->cross_cache_shape().layers[0].n_heads, 2);
}

TEST_F(Seq2SeqModelTest, EncodesIntoACacheOnce) {
  EncoderDecoderCache cache(DynamicCache(model_->cache_shape()), DynamicCache(model_->cross_cache_shape()));
  encode_into(*model_, source(), cache);
  EXPECT_THAT(cache.cross_lengths(), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(cache.seq_length(), 0);
  thrown(ErrorKind::kFailedPrecondition, [&] { encode_into(*model_, source(), cache); });
}

TEST_F(Seq2SeqModelTest, EncodingTakesEmbeddingsToo) {
  ops::Workspace workspace(at::kCPU);
  at::Tensor by_ids = at::empty({5, 32}), embedded = at::empty({5, 32}), by_rows = at::empty({5, 32});
  const auto rows = [](const at::Tensor& t) { return ops::Rows{t.mutable_data_ptr<float>(), t.size(0), t.size(1)}; };
  model_->encode(source(), workspace, rows(by_ids));
  const Weights weights = Weights::open(testing::test_data("t5/gated_silu"));
  const StoredTensor& table = weights.get("encoder.embed_tokens.weight", {48, 32});
  for (std::int64_t i = 0; i < 5; ++i) {
    read_rows(table, ids_[static_cast<std::size_t>(i)], 1, embedded.mutable_data_ptr<float>() + 32 * i);
  }
  model_->encode({.embeddings = rows(embedded), .row_starts = row_starts_}, workspace, rows(by_rows));
  EXPECT_TRUE(at::equal(by_ids, by_rows));
}

TEST_F(Seq2SeqModelTest, RefusesTheCacheOfAnotherModel) {
  CacheShape shape = model_->cross_cache_shape();
  shape.layers.pop_back();
  EncoderDecoderCache cache(DynamicCache(model_->cache_shape()), DynamicCache(shape));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { encode_into(*model_, source(), cache); }),
              AllOf(HasSubstr("2 layers"), HasSubstr("of 3")));
  EXPECT_FALSE(cache.is_written());
}

// What is made for causal models runs the decoder: its past is the decoder's own cache.
TEST_F(Seq2SeqModelTest, ABoundDecoderIsACausalModel) {
  EncoderDecoderCache cache(DynamicCache(model_->cache_shape()), DynamicCache(model_->cross_cache_shape()));
  encode_into(*model_, source(), cache);
  const BoundDecoder decoder(*model_, cache.cross_attention_cache());
  EXPECT_EQ(decoder.n_bytes(), model_->n_bytes());
  const at::Tensor ids = at::tensor(Ids{0, 9, 8, 0, 7, 6}, at::kLong).view({2, 3});
  const at::Tensor whole = forward(decoder, {.input_ids = ids}, cache.self_attention_cache());
  EXPECT_THAT(cache.lengths(), ::testing::ElementsAre(3, 3));
  cache.crop(-1);
  const at::Tensor again = forward(decoder, {.input_ids = ids.narrow(1, 2, 1)}, cache.self_attention_cache());
  EXPECT_TRUE(at::equal(again, whole.narrow(1, 2, 1)));
}

}  // namespace
}  // namespace mneme
