// That Mamba is right is in tests/generate/golden_test.cc, against transformers; this is that its states may be
// cropped, shared and reordered, and that nothing but a sequence's own tokens shows in its bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "mneme/cache/prefix_tree.h"
#include "mneme/cache/presets.h"
#include "mneme/models/ragged.h"
#include "tests/support/matrix.h"
#include "tests/support/random_mamba.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kDTypes;
using testing::random_ids;
using testing::random_mamba;
using testing::RandomModel;
using testing::Threads;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

const Json kEveryOption = {{"use_bias", true},    {"use_conv_bias", false},     {"conv_kernel", 2},
                           {"time_step_rank", 3}, {"state_size", 17},           {"expand", 1},
                           {"hidden_size", 24},   {"tie_word_embeddings", true}};

Ids slice(const Ids& ids, std::int64_t first, std::int64_t n) { return {ids.begin() + first, ids.begin() + first + n}; }
Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Logits [B, T, V] of the next tokens of each sequence.
at::Tensor feed(const Model& model, const std::vector<Ids>& rows, Cache& cache) {
  std::vector<at::Tensor> ids;
  for (const Ids& row : rows) ids.push_back(at::tensor(row, at::kLong));
  return forward(model, {.input_ids = at::stack(ids)}, cache);
}
at::Tensor feed(const Model& model, const Ids& ids, Cache& cache) {
  return feed(model, std::vector<Ids>{ids}, cache)[0];
}

/// Logits [T, V] of a text by itself.
at::Tensor cold(const Model& model, const Ids& ids) {
  DynamicCache cache(model.cache_shape());
  return feed(model, ids, cache);
}

/// Logits [V] after the last token of a text.
at::Tensor cold_last(const Model& model, const Ids& ids) { return cold(model, ids)[-1]; }

TEST(Mamba, AsksForItsStatesAndNoKeys) {
  const RandomModel model(random_mamba());
  const CacheShape shape = model->cache_shape();
  ASSERT_EQ(shape.layers.size(), 3u);
  for (const LayerShape& layer : shape.layers) {
    EXPECT_FALSE(layer.has_attention());
    EXPECT_EQ(*layer.state, (StateShape{.sizes = {3 * 40, 48 * 6}, .input_width = 40}));
  }
  EXPECT_EQ(shape.layers, architecture_of("mamba").cache_shape(model->config(), DType::kFloat32, at::kCPU).layers);
}

TEST(Mamba, ACacheTakesTheSameBytesAtAnyLength) {
  const RandomModel model(random_mamba());
  const std::int64_t layer_bytes = StateLayer::state_bytes(*model->cache_shape().layers[0].state);
  DynamicCache cache(model->cache_shape());
  for (const std::int64_t n : {1, 1, 70, 300}) {
    feed(*model, random_ids(n, 1), cache);
    EXPECT_EQ(cache.n_bytes(), 3 * layer_bytes);
  }
  EXPECT_EQ(cache.seq_length(), 372);
  StaticCache fixed(model->cache_shape(), {.max_cache_len = 20, .max_batch_size = 2});
  EXPECT_EQ(fixed.n_bytes(), 2 * 3 * layer_bytes);
  feed(*model, random_ids(20, 1), fixed);
  EXPECT_EQ(fixed.n_bytes(), 2 * 3 * layer_bytes);
  thrown(ErrorKind::kFailedPrecondition, [&] { feed(*model, Ids{1}, fixed); });
  DynamicCache poor(model->cache_shape(), {.max_cache_bytes = layer_bytes});
  thrown(ErrorKind::kOutOfMemory, [&] { feed(*model, Ids{1}, poor); });
}

TEST(Mamba, PiecesBatchMatesAndThreadsChangeNothing) {
  for (const DType dtype : kDTypes) {
    for (const Json& changes : {Json::object(), kEveryOption}) {
      const RandomModel model(random_mamba(changes), dtype);
      const Ids ids = random_ids(97, 2);
      const at::Tensor expected = cold(*model, ids);
      ASSERT_TRUE(at::isfinite(expected).all().item<bool>());
      for (const std::int64_t n : {1, 2, 5, 33, 64}) {
        const Threads threads(n % 3 + 1);
        DynamicCache cache(model->cache_shape());
        std::vector<at::Tensor> logits;
        for (std::int64_t i = 0; i < 97; i += n) {
          logits.push_back(feed(*model, slice(ids, i, std::min<std::int64_t>(n, 97 - i)), cache));
        }
        ASSERT_TRUE(at::equal(at::cat(logits), expected)) << "pieces of " << n;
      }
      DynamicCache batch(model->cache_shape());
      const Ids mate = random_ids(97, 3);
      ASSERT_TRUE(at::equal(feed(*model, {mate, ids, mate}, batch)[1], expected));
    }
  }
}

// Padding on either side, alone or beside others, leaves the states as they are without it.
TEST(Mamba, PaddingIsNoToken) {
  const RandomModel model(random_mamba());
  const Ids prompt = random_ids(9, 4), longer = random_ids(16, 5), more = random_ids(10, 6);
  DynamicCache alone(model->cache_shape());
  feed(*model, prompt, alone);
  const at::Tensor expected = feed(*model, more, alone);
  for (const bool left : {false, true}) {
    for (const std::int64_t batch : {1, 3}) {
      at::Tensor ids = at::full({batch, 16}, 7, at::kLong), mask = at::zeros({batch, 16}, at::kLong);
      const std::int64_t first = left ? 7 : 0;
      ids[0].narrow(0, first, 9).copy_(at::tensor(prompt, at::kLong));
      mask[0].narrow(0, first, 9).fill_(1);
      for (std::int64_t i = 1; i < batch; ++i) {
        ids[i].copy_(at::tensor(longer, at::kLong));
        mask[i].fill_(1);
      }
      DynamicCache cache(model->cache_shape());
      forward(*model, {.input_ids = ids, .attention_mask = mask}, cache);
      const at::Tensor next = feed(*model, std::vector<Ids>(static_cast<std::size_t>(batch), more), cache);
      EXPECT_TRUE(at::equal(next[0], expected));
      for (std::size_t layer = 0; layer < 3; ++layer) {
        for (const std::size_t k : {0, 1}) {
          EXPECT_TRUE(at::equal(cache.layers()[layer].state().state(0, k), alone.layers()[layer].state().state(0, k)));
        }
      }
    }
  }
}

TEST(Mamba, CropsToEveryRecordedToken) {
  const RandomModel model(random_mamba());
  const Ids ids = random_ids(140, 7);
  const at::Tensor expected = cold(*model, ids);
  DynamicCache cache(model->cache_shape());
  feed(*model, slice(ids, 0, 5), cache);
  EXPECT_THAT(thrown(ErrorKind::kFailedPrecondition, [&] { cache.crop(-1); }),
              HasSubstr("call activate_past_recording() before the forward pass"));
  cache.crop(0);
  cache.activate_past_recording();
  for (std::int64_t i = 5; i < 140; i += 45) feed(*model, slice(ids, i, 45), cache);
  for (std::int64_t rest = 5; rest < 140; ++rest) {
    Cache cropped = cache.copy();
    cropped.crop(rest - 140);
    ASSERT_EQ(cropped.seq_length(), rest);
    ASSERT_TRUE(at::equal(feed(*model, slice(ids, rest, 1), cropped)[0], expected[rest])) << rest;
  }
  Cache too_far = cache.copy();
  thrown(ErrorKind::kFailedPrecondition, [&] { too_far.crop(-136); });
  thrown(ErrorKind::kInvalidArgument, [&] { too_far.crop(-141); });
  thrown(ErrorKind::kInvalidArgument, [&] { too_far.crop(1); });
  EXPECT_TRUE(at::equal(feed(*model, Ids{3}, too_far)[0], cold_last(*model, joined(ids, {3}))));
}

// Drafts in one call, of which 1 to all are taken back, again and again.
TEST(Mamba, RollsDraftsBack) {
  const RandomModel model(random_mamba());
  Ids ids = random_ids(30, 8);
  DynamicCache cache(model->cache_shape());
  feed(*model, ids, cache);
  cache.activate_past_recording();
  const StateShape shape = *model->cache_shape().layers[0].state;
  // States of now, of where the past begins and on a border; the inputs since.
  const std::int64_t most = 3 * (3 * StateLayer::state_bytes(shape) + 2 * StateLayer::input_bytes(shape));
  for (unsigned round = 0; round < 30; ++round) {
    const std::int64_t n = 1 + round % 4, taken_back = 1 + (round / 4) % n;
    const Ids drafts = random_ids(n, 100 + round);
    feed(*model, drafts, cache);
    cache.crop(-taken_back);
    ids = joined(ids, slice(drafts, 0, n - taken_back));
    const Ids next = {static_cast<std::int64_t>(round)};
    Cache probe = cache.copy();
    ASSERT_TRUE(at::equal(feed(*model, next, probe)[0], cold_last(*model, joined(ids, next)))) << round;
    ASSERT_LE(cache.n_bytes(), most) << round;
  }
}

TEST(Mamba, ForksDivergeAndLeaveTheirSourceAlone) {
  const RandomModel model(random_mamba());
  const Ids prompt = random_ids(70, 9);
  DynamicCache source(model->cache_shape());
  feed(*model, prompt, source);
  const std::int64_t bytes = source.n_bytes();
  std::vector<Cache> forks;
  for (unsigned i = 0; i < 3; ++i) {
    forks.push_back(source.copy());
    const Ids tail = random_ids(5 + i, i);
    ASSERT_TRUE(at::equal(feed(*model, tail, forks.back())[-1], cold_last(*model, joined(prompt, tail))));
  }
  feed(*model, Ids{1, 2}, source);
  for (unsigned i = 0; i < 3; ++i) {
    const Ids text = joined(joined(prompt, random_ids(5 + i, i)), {4});
    ASSERT_TRUE(at::equal(feed(*model, Ids{4}, forks[i])[-1], cold_last(*model, text)));
  }
  EXPECT_EQ(source.n_bytes(), bytes);
}

TEST(Mamba, ResetIsAsNew) {
  const RandomModel model(random_mamba());
  DynamicCache cache(model->cache_shape());
  feed(*model, {random_ids(80, 1), random_ids(80, 2)}, cache);
  cache.reset();
  EXPECT_EQ(cache.seq_length(), 0);
  EXPECT_EQ(cache.n_bytes(), 0);
  const Ids ids = random_ids(12, 3);
  EXPECT_TRUE(at::equal(feed(*model, ids, cache), cold(*model, ids)));
}

// A prompt with the beginning of an earlier one: from the end of that, or from anywhere where its past was recorded.
TEST(Mamba, APrefixTreeServesItsStates) {
  const RandomModel model(random_mamba());
  const Ids shared = random_ids(60, 10);
  for (const bool recorded : {false, true}) {
    PrefixTree tree({.max_bytes = 1 << 26});
    DynamicCache cache(model->cache_shape());
    if (recorded) cache.activate_past_recording();
    const Ids first = joined(shared, random_ids(20, 11));
    feed(*model, first, cache);
    tree.insert(first, cache);
    const auto expect_hit = [&](const Ids& ids, std::int64_t length) {
      std::optional<PrefixTree::Hit> hit = tree.find(ids);
      ASSERT_EQ(hit ? hit->length : 0, length);
      if (!hit) return;
      const at::Tensor logits = feed(*model, slice(ids, length, std::ssize(ids) - length), hit->cache);
      EXPECT_TRUE(at::equal(logits[-1], cold_last(*model, ids)));
    };
    expect_hit(joined(first, {1, 2, 3}), 80);
    expect_hit(joined(shared, random_ids(20, 12)), recorded ? 60 : 0);
    expect_hit(shared, recorded ? 59 : 0);
    expect_hit(joined(first, {4}), 80);  // what was found before took nothing away
  }
}

// Appends, crops, forks, reorders, selections, saving and loading; what each sequence then says must be what its ids
// say by themselves.
TEST(Mamba, RandomProgramsAgainstTheIds) {
  struct Branch {
    Cache cache;
    std::vector<Ids> ids;
    std::int64_t recorded;  // tokens that may be taken back; -1: not recording
  };
  const RandomModel model(random_mamba({{"num_hidden_layers", 2}, {"hidden_size", 10}, {"vocab_size", 64}}));
  const testing::TempFolder folder;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
    std::vector<Branch> branches;
    branches.reserve(3);
    branches.push_back(
        {DynamicCache(model->cache_shape()), {random_ids(3, seed, 64), random_ids(3, seed + 99, 64)}, -1});
    feed(*model, branches[0].ids, branches[0].cache);
    for (int step = 0; step < 12; ++step) {
      Branch& b = branches[static_cast<std::size_t>(below(std::ssize(branches)))];
      switch (below(7)) {
        case 6:
          b.cache.save(folder.path() + "/x");
          b.cache = Cache::load(folder.path() + "/x", model->cache_shape());
          break;
        case 0:
          b.cache.activate_past_recording();
          b.recorded = std::max<std::int64_t>(b.recorded, 0);
          break;
        case 1: {
          const std::int64_t n = b.recorded > 0 ? below(b.recorded + 1) : 0;
          if (b.recorded < 1) thrown(ErrorKind::kFailedPrecondition, [&] { b.cache.crop(-1); });
          b.cache.crop(-n);
          for (Ids& ids : b.ids) ids.resize(ids.size() - static_cast<std::size_t>(n));
          b.recorded = std::min<std::int64_t>(b.recorded, 0);
          break;
        }
        case 2:
          if (branches.size() < 3) branches.push_back({b.cache.copy(), b.ids, b.recorded});
          break;
        case 3: {
          Ids rows;
          std::vector<Ids> ids;
          for (std::int64_t i = 0; i <= below(3); ++i) rows.push_back(below(std::ssize(b.ids)));
          for (const std::int64_t row : rows) ids.push_back(b.ids[static_cast<std::size_t>(row)]);
          b.cache.reorder(rows);
          b.ids = ids;
          break;
        }
        default: {
          const std::int64_t n = below(2) ? 1 + below(5) : 1 + below(90);
          std::vector<Ids> more;
          for (std::size_t i = 0; i < b.ids.size(); ++i)
            more.push_back(random_ids(n, static_cast<unsigned>(random()), 64));
          const at::Tensor logits = feed(*model, more, b.cache);
          for (std::size_t i = 0; i < b.ids.size(); ++i) {
            b.ids[i] = joined(b.ids[i], more[i]);
            ASSERT_TRUE(at::equal(logits[static_cast<std::int64_t>(i)][-1], cold_last(*model, b.ids[i]))) << step;
          }
          if (b.recorded >= 0) b.recorded += n;
        }
      }
      for (std::size_t i = 0; i < b.ids.size(); ++i) {
        ASSERT_EQ(b.cache.lengths()[i], std::ssize(b.ids[i]));
      }
    }
  }
}

TEST(Mamba, TheAtenPathAgrees) {
  for (const Json& changes : {Json::object(), kEveryOption}) {
    const RandomModel model(random_mamba(changes));
    const Ids ids = random_ids(30, 11);
    const at::Tensor expected = cold(*model, ids);
    DynamicCache cache(model->cache_shape());
    cache.workspace().set_through_aten(true);
    cache.activate_past_recording();
    feed(*model, slice(ids, 0, 20), cache);
    cache.crop(-3);
    const at::Tensor logits = feed(*model, slice(ids, 17, 13), cache);
    const double largest = expected.abs().max().item<double>();
    EXPECT_LT((logits - expected.narrow(0, 17, 13)).abs().max().item<double>(), 1e-4 * largest);
  }
}

TEST(Mamba, ReadsItsConfig) {
  const auto config = [](const Json& changes) { return ModelConfig::from_json(random_mamba(changes).config, "x"); };
  EXPECT_EQ(config(Json::object()).intermediate_size, 40);  // expand 2
  EXPECT_EQ(config({{"intermediate_size", 33}}).intermediate_size, 33);
  EXPECT_EQ(config(Json::object()).num_attention_heads, 0);
  EXPECT_TRUE(config(Json::object()).layer_types.empty());
  EXPECT_EQ(config(Json::object()).pad_token_id, 0);
  const Json defaults = {{"vocab_size", 50280},        {"hidden_size", 768}, {"num_hidden_layers", 32},
                         {"state_size", 16},           {"conv_kernel", 4},   {"time_step_rank", "auto"},
                         {"tie_word_embeddings", true}};
  for (const auto& [key, value] : defaults.items()) {
    EXPECT_EQ(ModelConfig::from_json({{"model_type", "mamba"}}, "x").raw[key], value) << key;
  }
}

TEST(Mamba, RefusesWhatItCannotBe) {
  const auto refuse = [](const Json& changes, ErrorKind kind = ErrorKind::kCorruptData) {
    testing::Checkpoint checkpoint = random_mamba();
    checkpoint.config.update(changes);
    return thrown(kind, [&] { RandomModel model(checkpoint); });
  };
  EXPECT_THAT(refuse({{"state_size", 0}}), HasSubstr("\"state_size\" is 0"));
  EXPECT_THAT(refuse({{"conv_kernel", -4}}), HasSubstr("\"conv_kernel\" is -4"));
  EXPECT_THAT(refuse({{"time_step_rank", "many"}}), HasSubstr("time_step_rank"));
  EXPECT_THAT(refuse({{"time_step_rank", nullptr}}), HasSubstr("time_step_rank"));
  EXPECT_THAT(refuse({{"layer_norm_epsilon", -1.0}}), HasSubstr("layer_norm_epsilon"));
  EXPECT_THAT(refuse({{"use_bias", 1}}), HasSubstr("use_bias"));
  EXPECT_THAT(refuse({{"expand", 0}}), HasSubstr("expand"));
  EXPECT_THAT(refuse({{"expand", INT32_MAX}}), HasSubstr("expand"));
  EXPECT_THAT(refuse({{"state_size", 7}}), AllOf(HasSubstr("x_proj"), HasSubstr("[16, 40]"), HasSubstr("[14, 40]")));
  EXPECT_THAT(refuse({{"conv_kernel", 33}}, ErrorKind::kUnsupported), HasSubstr("\"conv_kernel\" is 33"));
  EXPECT_THAT(refuse({{"hidden_act", "gelu"}}, ErrorKind::kUnsupported), HasSubstr("\"gelu\""));
}

TEST(Mamba, EveryMissingTensorIsNamed) {
  const testing::Checkpoint whole = random_mamba({{"num_hidden_layers", 1}, {"use_bias", true}});
  for (const auto& [name, tensor] : whole.tensors) {
    testing::Checkpoint checkpoint = whole;
    checkpoint.tensors.erase(name);
    EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { RandomModel model(checkpoint); }),
                HasSubstr("the tensor " + name + " is missing"));
  }
}

TEST(Mamba, OlderCheckpointsNameTheTableOtherwise) {
  testing::Checkpoint checkpoint = random_mamba();
  const RandomModel model(checkpoint);
  auto node = checkpoint.tensors.extract("backbone.embeddings.weight");
  node.key() = "backbone.embedding.weight";
  checkpoint.tensors.insert(std::move(node));
  const RandomModel older(checkpoint);
  EXPECT_TRUE(at::equal(cold(*older, random_ids(5, 1)), cold(*model, random_ids(5, 1))));
}

TEST(Mamba, ACacheOfAnotherModelIsRefused) {
  const RandomModel model(random_mamba()), other(random_mamba({{"state_size", 5}})), llama("llama");
  DynamicCache states(other->cache_shape()), keys(llama->cache_shape());
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { feed(*model, Ids{1}, states); }), HasSubstr("another size"));
  thrown(ErrorKind::kInvalidArgument, [&] { feed(*model, Ids{1}, keys); });
}

}  // namespace
}  // namespace mneme
