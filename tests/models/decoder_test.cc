#include "mneme/models/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "mneme/cache/presets.h"
#include "mneme/models/ragged.h"
#include "tests/support/aten_decoder.h"
#include "tests/support/matrix.h"
#include "tests/support/places.h"
#include "tests/support/random_model.h"

namespace mneme {
namespace {

using testing::kDTypes;
using testing::random_ids;
using testing::RandomModel;
using testing::Threads;
using Ids = std::vector<std::int64_t>;

at::Tensor row(const Ids& ids) { return at::tensor(ids, at::kLong).unsqueeze(0); }
Ids slice(const Ids& ids, std::int64_t first, std::int64_t n) { return {ids.begin() + first, ids.begin() + first + n}; }

/// Logits [T, V] of one more piece of one sequence.
at::Tensor feed(const Model& model, const Ids& ids, Cache& cache) {
  return forward(model, {.input_ids = row(ids)}, cache)[0];
}

/// Logits [T, V] of a prompt in pieces of n through one cache.
at::Tensor feed_in_pieces(const Model& model, const Ids& ids, std::int64_t n, Cache& cache) {
  std::vector<at::Tensor> logits;
  for (std::int64_t i = 0; i < std::ssize(ids); i += n) {
    logits.push_back(feed(model, slice(ids, i, std::min<std::int64_t>(n, std::ssize(ids) - i)), cache));
  }
  return at::cat(logits);
}

template <class Test>
void for_each_model(const Test& test, DType dtype = DType::kFloat32) {
  for (const auto& [type, changes] : testing::random_models()) {
    SCOPED_TRACE(type + " " + changes.dump() + " " + std::string(name_of(dtype)));
    test(RandomModel(type, changes, dtype));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Prefill and then tokens one by one, against double precision and an attention over what `update` returns.
TEST(Decoder, IsThePapersDecoder) {
  for_each_model([](const RandomModel& model) {
    const testing::AtenDecoder reference(model->config(), model.weights());
    DynamicCache cache(model->cache_shape()), classic(model->cache_shape());
    const Ids ids = random_ids(90, 1);
    std::int64_t done = 0;
    for (const std::int64_t n : {1, 20, 1, 1, 66, 1}) {
      const Ids piece = slice(ids, done, n);
      const at::Tensor expected = reference.forward(piece, classic);
      // float32 against double: 1e-4 of the largest logit is the promise.
      ASSERT_LE(largest_difference(feed(*model, piece, cache), expected), 1e-4 * expected.abs().max().item<double>());
      done += n;
    }
  });
}

TEST(Decoder, WithoutPrefillChunksOrWithAnyTheBitsAreTheSame) {
  for (const DType dtype : kDTypes) {
    for_each_model(
        [](const RandomModel& model) {
          const Ids ids = random_ids(97, 2);
          DynamicCache at_once(model->cache_shape());
          const at::Tensor expected = feed(*model, ids, at_once);
          for (const std::int64_t n : {1, 2, 5, 8, 16, 33, 64}) {
            DynamicCache cache(model->cache_shape());
            ASSERT_TRUE(at::equal(feed_in_pieces(*model, ids, n, cache), expected)) << "pieces of " << n;
          }
          StaticCache fixed(model->cache_shape(), {.max_cache_len = 97});
          ASSERT_TRUE(at::equal(feed_in_pieces(*model, ids, 10, fixed), expected)) << "static";
        },
        dtype);
  }
}

TEST(Decoder, ThreadsChangeNothing) {
  for (const DType dtype : kDTypes) {
    const RandomModel model("qwen3", testing::kAlternatingWindow, dtype);
    const Ids ids = random_ids(600, 3);
    at::Tensor expected;
    for (const int threads : {1, 2, 4}) {
      const Threads pool(threads);
      DynamicCache cache(model->cache_shape());
      at::Tensor logits = at::cat({feed(*model, slice(ids, 0, 599), cache), feed(*model, slice(ids, 599, 1), cache)});
      if (!expected.defined()) expected = logits;
      ASSERT_TRUE(at::equal(logits, expected)) << threads;
    }
  }
}

TEST(Decoder, BatchMatesChangeNothing) {
  for_each_model([](const RandomModel& model) {
    std::vector<Ids> prompts;
    for (unsigned i = 0; i < 7; ++i) prompts.push_back(random_ids(1 + 13 * i, i));
    const std::int64_t longest = std::ssize(prompts.back());
    at::Tensor ids = at::zeros({7, longest}, at::kLong), mask = at::zeros({7, longest}, at::kLong);
    for (std::int64_t i = 0; i < 7; ++i) {
      const std::int64_t n = std::ssize(prompts[static_cast<std::size_t>(i)]);
      ids[i].narrow(0, longest - n, n).copy_(at::tensor(prompts[static_cast<std::size_t>(i)], at::kLong));
      mask[i].narrow(0, longest - n, n).fill_(1);
    }
    DynamicCache batch(model->cache_shape());
    const at::Tensor together = forward(*model, {.input_ids = ids, .attention_mask = mask}, batch);
    const at::Tensor next = forward(*model, {.input_ids = ids.narrow(1, longest - 1, 1)}, batch);
    for (std::int64_t i = 0; i < 7; ++i) {
      const Ids& prompt = prompts[static_cast<std::size_t>(i)];
      DynamicCache alone(model->cache_shape());
      ASSERT_TRUE(at::equal(feed(*model, prompt, alone),
                            together[i].narrow(0, longest - std::ssize(prompt), std::ssize(prompt))));
      ASSERT_TRUE(at::equal(feed(*model, {prompt.back()}, alone), next[i]));
    }
  });
}

// With a warm cache and several new tokens, the first row does not depend on those after it.
TEST(Decoder, IsCausalAtEveryBlockBorder) {
  for_each_model([](const RandomModel& model) {
    for (const std::int64_t history : {63, 64, 65, 127, 128}) {
      DynamicCache cache(model->cache_shape());
      feed(*model, random_ids(history, 4), cache);
      Cache other = cache.copy();
      const at::Tensor a = feed(*model, {7, 1, 2, 3}, cache), b = feed(*model, {7, 400, 500, 9}, other);
      ASSERT_TRUE(at::equal(a[0], b[0])) << history;
      ASSERT_FALSE(at::equal(a[1], b[1]));
    }
  });
}

TEST(Decoder, LogitsAfterACropAreThoseOfTheLastTokenLeft) {
  for_each_model([](const RandomModel& model) {
    const Ids ids = random_ids(40, 5);
    DynamicCache cache(model->cache_shape());
    cache.activate_past_recording();
    const at::Tensor first = feed(*model, ids, cache);
    cache.crop(-1 - 17);
    ASSERT_TRUE(at::equal(feed(*model, slice(ids, 22, 18), cache), first.narrow(0, 22, 18)));
    cache.crop(-40);
    ASSERT_TRUE(at::equal(feed(*model, ids, cache), first));
  });
}

TEST(Decoder, BranchesOfACopyAreAsCold) {
  for_each_model([](const RandomModel& model) {
    const Ids prefix = random_ids(70, 6);
    DynamicCache cache(model->cache_shape());
    feed(*model, prefix, cache);
    Cache copies[] = {cache.copy(), cache.copy(), cache.copy()};
    feed(*model, random_ids(30, 7), cache);  // the source grows on
    for (unsigned branch : {2, 0, 1}) {
      const Ids tail = random_ids(9, 100 + branch);
      Ids whole = prefix;
      whole.insert(whole.end(), tail.begin(), tail.end());
      DynamicCache cold(model->cache_shape());
      ASSERT_TRUE(at::equal(feed(*model, tail, copies[branch]), feed(*model, whole, cold).narrow(0, 70, 9)));
    }
  });
}

// The path of other devices, float32: other orders of summation only.
TEST(Decoder, ThroughAtenItIsTheSameModel) {
  for_each_model([](const RandomModel& model) {
    const Ids ids = random_ids(80, 7);
    DynamicCache kernels(model->cache_shape()), aten(model->cache_shape());
    aten.workspace().set_through_aten(true);
    const at::Tensor expected = feed_in_pieces(*model, ids, 70, kernels);
    ASSERT_LE(largest_difference(feed_in_pieces(*model, ids, 70, aten), expected),
              1e-4 * expected.abs().max().item<double>());
  });
}

TEST(Decoder, OnlyTheRowsAskedForGetLogits) {
  const RandomModel model("llama");
  const Ids ids = random_ids(30, 8), positions = [] {
    Ids p(30);
    for (std::size_t i = 0; i < 30; ++i) p[i] = static_cast<std::int64_t>(i);
    return p;
  }();
  DynamicCache whole(model->cache_shape()), cache(model->cache_shape());
  const at::Tensor all = feed(*model, ids, whole);
  const std::int64_t starts[] = {0, 30}, counts[] = {30}, rows[] = {3, 29};
  cache.prepare(counts);
  testing::Matrix logits(2, 512);
  model->forward({.ids = ids, .positions = positions, .row_starts = starts}, cache, rows, logits.rows());
  EXPECT_TRUE(at::equal(logits.tensor(), all.index_select(0, at::tensor({3, 29}, at::kLong))));
}

TEST(Decoder, ADecodingLoopAllocatesNoScratch) {
  const RandomModel model("qwen2", testing::kAlternatingWindow);
  DynamicCache cache(model->cache_shape());
  feed(*model, random_ids(100, 9), cache);
  feed(*model, {1}, cache);
  const std::int64_t before = cache.workspace().n_allocations();
  for (std::int64_t i = 0; i < 30; ++i) feed(*model, {i}, cache);
  EXPECT_EQ(cache.workspace().n_allocations(), before);
}

TEST(Decoder, CountsItsBytes) {
  const RandomModel full("llama"), half("llama", Json::object(), DType::kBFloat16);
  // All widths are whole panels: 4 bytes for each of the matrices' elements, the embedding apart.
  std::int64_t elements = 512 * 64 + 4 * (64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96);
  EXPECT_EQ(full->n_bytes(), 4 * elements);
  EXPECT_EQ(half->n_bytes(), 2 * elements);
}

TEST(Decoder, CacheShapeFollowsTheLayers) {
  const RandomModel model("qwen3", testing::kAlternatingWindow);
  const CacheShape shape = model->cache_shape();
  ASSERT_EQ(shape.layers.size(), 4u);
  EXPECT_EQ(shape.layers[0].retention, Retention::last(8));
  EXPECT_EQ(shape.layers[1].retention, Retention::all());
  EXPECT_EQ(shape.layers[0].n_heads, 2);
  EXPECT_EQ(shape.layers[0].key_dim, 16);
  const RandomModel chunked("llama", testing::kAlternatingChunks);
  EXPECT_EQ(chunked->cache_shape().layers[2].retention, Retention::chunk(8));
}

// Greedy ids and last logits of the Python reference (tests/golden/make_goldens.py).
TEST(Decoder, GoldenModels) {
  for (const char* name : {"llama", "llama_rope3", "mistral_window8", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const std::string folder = testing::test_data("models/") + name;
    const auto model = load_model(folder, DType::kFloat32, at::kCPU);
    const Json golden = read_json_file(folder + "/golden.json");
    for (const Json& c : golden["cases"]) {
      if (c["mode"] != "greedy") continue;
      const std::int64_t batch = std::ssize(c["input_ids"]), width = std::ssize(c["input_ids"][0]);
      const auto matrix = [&](const char* key) {
        at::Tensor t = at::empty({batch, width}, at::kLong);
        for (std::int64_t i = 0; i < batch; ++i) {
          t[i].copy_(at::tensor(c[key][static_cast<std::size_t>(i)].get<Ids>(), at::kLong));
        }
        return t;
      };
      DynamicCache cache(model->cache_shape());
      ForwardInput input{
          .input_ids = matrix("input_ids"), .attention_mask = matrix("attention_mask"), .logits_to_keep = 1};
      std::vector<bool> finished(static_cast<std::size_t>(batch), false);
      for (std::int64_t step = 0; step < c["max_new_tokens"]; ++step) {
        const at::Tensor logits = forward(*model, input, cache).select(1, 0);
        if (step == 0 && c.contains("last_logits")) {
          for (std::int64_t i = 0; i < batch; ++i) {
            const auto expected =
                at::tensor(c["last_logits"][static_cast<std::size_t>(i)].get<std::vector<double>>(), at::kDouble);
            EXPECT_LE(largest_difference(logits[i], expected), 1e-4 * expected.abs().max().item<double>());
          }
        }
        at::Tensor next = logits.argmax(-1, true);
        for (std::int64_t i = 0; i < batch; ++i) {
          const Json& sequence = c["sequences"][static_cast<std::size_t>(i)];
          if (finished[static_cast<std::size_t>(i)] || width + step >= std::ssize(sequence)) continue;
          ASSERT_EQ(next[i].item<std::int64_t>(), sequence[static_cast<std::size_t>(width + step)]) << "step " << step;
          finished[static_cast<std::size_t>(i)] = next[i].item<std::int64_t>() == 2;
        }
        input = {.input_ids = next};
      }
    }
  }
}

Ids greedy(const Model& model, Ids ids, int n) {
  DynamicCache cache(model.cache_shape());
  at::Tensor next = feed(model, ids, cache)[-1].argmax();
  for (int i = 0; i < n; ++i) {
    ids.push_back(next.item<std::int64_t>());
    next = feed(model, {ids.back()}, cache)[-1].argmax();
  }
  return ids;
}

TEST(DecoderConcurrency, ThreadsShareAModel) {
  const RandomModel model("qwen3", testing::kAlternatingWindow, DType::kBFloat16);
  std::vector<Ids> prompts, expected;
  for (unsigned i = 0; i < 3; ++i) {
    prompts.push_back(random_ids(10 + 60 * i, i));
    expected.push_back(greedy(*model, prompts.back(), 20));
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 3; ++round) EXPECT_EQ(greedy(*model, prompts[t], 20), expected[t]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mneme
