#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/base/log.h"
#include "mneme/cache/presets.h"
#include "mneme/models/registry.h"
#include "mneme/models/seq2seq_forward.h"
#include "tests/support/files.h"
#include "tests/support/matrix.h"
#include "tests/support/places.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kDTypes;
using testing::TempFolder;
using testing::Threads;
using testing::thrown;
using Ids = std::vector<std::int64_t>;

const char* const kVariants[] = {"first", "v1_1", "gated_silu", "gelu"};

std::string path_of(const std::string& variant) { return testing::test_data("t5/") + variant; }

std::unique_ptr<Seq2SeqModel> variant_model(const std::string& variant, DType dtype = DType::kFloat32) {
  return load_seq2seq_model(path_of(variant), dtype, at::kCPU);
}

at::Tensor row(const Ids& ids) { return at::tensor(ids, at::kLong).unsqueeze(0); }

EncoderDecoderCache dynamic_cache(const Seq2SeqModel& model) {
  return {DynamicCache(model.cache_shape()), DynamicCache(model.cross_cache_shape())};
}

/// Logits [T, V] of a target, all at once.
at::Tensor logits_of(const Seq2SeqModel& model, const Ids& source, const Ids& target) {
  EncoderDecoderCache cache = dynamic_cache(model);
  return forward(model, {.input_ids = row(source), .decoder_input_ids = row(target)}, cache)[0];
}

Ids some_ids(std::int64_t n, std::int64_t step = 7) {
  Ids ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(2 + i * step % 45);
  return ids;
}

// Every way that feed-forward layers, heads, scales and tied tensors differ in T5's files (tests/golden/make_t5.py).
TEST(T5, VariantsAreThoseOfTransformers) {
  std::vector<std::string> warnings;
  set_warning_handler([&](const std::string& message) { warnings.push_back(message); });
  for (const char* variant : kVariants) {
    const auto model = variant_model(variant);
    for (const Json& item : read_json_file(path_of(variant) + "/expected.json")) {
      const at::Tensor logits = logits_of(*model, item["source"].get<Ids>(), item["target"].get<Ids>());
      const Json& expected = item["logits"];
      const auto n = static_cast<std::int64_t>(expected.size());
      for (std::int64_t i = 0; i < n; ++i) {
        const at::Tensor wanted = at::tensor(expected[static_cast<std::size_t>(i)].get<std::vector<float>>());
        const at::Tensor got = logits[logits.size(0) - n + i];
        // float32 on both sides: 1e-4 of the largest logit is the promise.
        ASSERT_LE((got - wanted).abs().max().item<float>(), 1e-4f * wanted.abs().max().item<float>())
            << variant << " source of " << item["source"].size() << " row " << i;
      }
    }
  }
  set_warning_handler({});
  EXPECT_THAT(warnings, ::testing::IsEmpty());
}

TEST(T5, StepByStepAndAnyPiecesAndCachesGiveTheSameBits) {
  const Ids source = some_ids(150), target = some_ids(100, 11);
  for (const DType dtype : kDTypes) {
    for (const char* variant : kVariants) {
      const auto model = variant_model(variant, dtype);
      const at::Tensor expected = logits_of(*model, source, target);
      for (const std::int64_t piece : {1, 7, 64}) {
        EncoderDecoderCache caches[] = {
            dynamic_cache(*model),
            {StaticCache(model->cache_shape(), {.max_cache_len = 100}),
             StaticCache(model->cross_cache_shape(), {.max_cache_len = 150})},
            {DynamicCache(model->cache_shape()), StaticCache(model->cross_cache_shape(), {.max_cache_len = 200})}};
        for (EncoderDecoderCache& cache : caches) {
          std::vector<at::Tensor> logits;
          for (std::int64_t i = 0; i < std::ssize(target); i += piece) {
            const std::int64_t n = std::min<std::int64_t>(piece, std::ssize(target) - i);
            Seq2SeqInput input{.decoder_input_ids = row(Ids(target.begin() + i, target.begin() + i + n))};
            if (i == 0) input.input_ids = row(source);
            logits.push_back(forward(*model, input, cache)[0]);
          }
          ASSERT_TRUE(at::equal(at::cat(logits), expected)) << variant << ' ' << name_of(dtype) << ' ' << piece;
        }
        if (dtype != DType::kFloat32) break;
      }
    }
  }
}

TEST(T5, ThreadsAndBatchMatesChangeNothing) {
  const auto model = variant_model("v1_1");
  const std::vector<Ids> sources = {some_ids(5), some_ids(300), some_ids(64)};
  const std::vector<Ids> targets = {some_ids(9, 3), some_ids(2, 5), some_ids(20, 3)};
  std::vector<at::Tensor> alone;
  for (std::size_t i = 0; i < 3; ++i) alone.push_back(logits_of(*model, sources[i], targets[i]));
  const auto padded = [](const std::vector<Ids>& rows, bool left) {
    std::size_t longest = 0;
    for (const Ids& ids : rows) longest = std::max(longest, ids.size());
    at::Tensor ids = at::full({3, static_cast<std::int64_t>(longest)}, 1, at::kLong), mask = at::zeros_like(ids);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::int64_t n = std::ssize(rows[i]), first = left ? static_cast<std::int64_t>(longest) - n : 0;
      ids[static_cast<std::int64_t>(i)].narrow(0, first, n).copy_(at::tensor(rows[i], at::kLong));
      mask[static_cast<std::int64_t>(i)].narrow(0, first, n).fill_(1);
    }
    return std::pair(ids, mask);
  };
  for (const int threads : {1, 2, 5}) {
    const Threads pool(threads);
    for (const bool left : {true, false}) {
      const auto [source_ids, source_mask] = padded(sources, left);
      const auto [target_ids, target_mask] = padded(targets, left);
      EncoderDecoderCache cache = dynamic_cache(*model);
      const at::Tensor logits = forward(*model,
                                        {.input_ids = source_ids,
                                         .attention_mask = source_mask,
                                         .decoder_input_ids = target_ids,
                                         .decoder_attention_mask = target_mask},
                                        cache);
      EXPECT_THAT(cache.cross_lengths(), ::testing::ElementsAre(5, 300, 64));
      for (std::size_t i = 0; i < 3; ++i) {
        const std::int64_t n = std::ssize(targets[i]), first = left ? 20 - n : 0;
        ASSERT_TRUE(at::equal(logits[static_cast<std::int64_t>(i)].narrow(0, first, n), alone[i]))
            << threads << " threads, row " << i;
      }
    }
  }
}

TEST(T5, TheOtherDevicesPathAgrees) {
  const auto model = variant_model("gated_silu");
  const Ids source = some_ids(90), target = some_ids(70, 11);
  const at::Tensor expected = logits_of(*model, source, target);
  EncoderDecoderCache cache = dynamic_cache(*model);
  cache.self_attention_cache().workspace().set_through_aten(true);
  cache.cross_attention_cache().workspace().set_through_aten(true);
  const at::Tensor logits = forward(*model, {.input_ids = row(source), .decoder_input_ids = row(target)}, cache)[0];
  EXPECT_LE((logits - expected).abs().max().item<float>(), 1e-4f * expected.abs().max().item<float>());
}

/// The tensors of a variant, with a changed config or some of them renamed, as a checkpoint of its own.
std::string refusal(const Json& changes, ErrorKind kind) {
  const TempFolder folder;
  Json config = read_json_file(path_of("v1_1") + "/config.json");
  config.update(changes);
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", testing::read_file(path_of("v1_1") + "/model.safetensors"));
  return thrown(kind, [&] { load_seq2seq_model(folder.path(), {}, at::kCPU); });
}

TEST(T5, RefusesConfigsThatMakeNoSense) {
  const auto corrupt = [](const Json& changes) { return refusal(changes, ErrorKind::kCorruptData); };
  EXPECT_THAT(corrupt({{"feed_forward_proj", "gated-gelu-new"}}), HasSubstr("gated-gelu-new"));
  EXPECT_THAT(corrupt({{"feed_forward_proj", "open-gelu"}}), HasSubstr("open-gelu"));
  EXPECT_THAT(corrupt({{"feed_forward_proj", 7}}), HasSubstr("feed_forward_proj"));
  EXPECT_THAT(refusal({{"feed_forward_proj", "gated-tanh"}}, ErrorKind::kUnsupported), HasSubstr("\"tanh\""));
  EXPECT_THAT(corrupt({{"feed_forward_proj", "relu"}}), HasSubstr("DenseReluDense.wi.weight is missing"));
  EXPECT_THAT(corrupt({{"num_layers", 0}}), HasSubstr("num_layers"));
  EXPECT_THAT(corrupt({{"num_layers", 65537}}), HasSubstr("num_layers"));
  EXPECT_THAT(corrupt({{"num_layers", 3}}), HasSubstr("encoder.block.2"));
  EXPECT_THAT(corrupt({{"num_decoder_layers", 2}}), HasSubstr("decoder.block.1"));
  EXPECT_THAT(corrupt({{"relative_attention_num_buckets", 16}}), AllOf(HasSubstr("[32, 2]"), HasSubstr("[16, 2]")));
  EXPECT_THAT(corrupt({{"relative_attention_max_distance", 8}}), HasSubstr("relative_attention_max_distance is 8"));
  EXPECT_THAT(corrupt({{"relative_attention_max_distance", 1000000000}}), HasSubstr("65536"));
  EXPECT_THAT(corrupt({{"d_kv", 7}}), HasSubstr("[14, 32]"));
  EXPECT_THAT(corrupt({{"scale_decoder_outputs", "yes"}}), HasSubstr("scale_decoder_outputs"));
}

// Each tensor of a model, under another name: its own is in the error.
TEST(T5, EveryMissingTensorIsNamed) {
  const std::string file = testing::read_file(path_of("first") + "/model.safetensors");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const Json header = Json::parse(file.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__" || name.find("EncDecAttention.relative") != name.npos) continue;
    std::string damaged = file;
    const std::size_t at = damaged.find("\"" + name + "\"");
    damaged[at + 1] = 'X';  // as long as before
    const TempFolder folder;
    folder.write("config.json", testing::read_file(path_of("first") + "/config.json"));
    folder.write("model.safetensors", damaged);
    EXPECT_THAT(thrown(ErrorKind::kCorruptData, [&] { load_seq2seq_model(folder.path(), {}, at::kCPU); }),
                HasSubstr(name + " is missing"));
  }
}

TEST(T5, CountsItsBytes) {
  // q, k, v, o of 16 x 32 in the encoder's 2 layers and twice in the decoder's, each with two of 40 x 32; the head.
  const std::int64_t block = 4 * 16 * 32, dense = 2 * 40 * 32, head = 48 * 32;
  EXPECT_GE(variant_model("first")->n_bytes(), 4 * (2 * (block + dense) + 2 * block + dense + head));
}

}  // namespace
}  // namespace mneme
