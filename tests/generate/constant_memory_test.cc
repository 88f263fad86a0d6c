// What grows with a text: keys and values of layers that keep all tokens, and nothing else. States, windows and chunks
// take at 4,096 tokens what they take at 1,024; where there is nothing else they do at 16,384, and so does the process.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "mneme/cache/presets.h"
#include "tests/generate/golden.h"
#include "tests/support/files.h"
#include "tests/support/process_memory.h"

namespace mneme {
namespace {

using testing::resident_bytes;
using testing::some_ids;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers have memory of their own
#else
constexpr bool kSanitized = false;
#endif

/// A golden model that takes long texts.
std::shared_ptr<const CausalLM> long_model(const std::string& name) {
  const testing::TempFolder folder;
  Json config = read_json_file(testing::golden_path(name) + "/config.json");
  config["max_position_embeddings"] = 16384;
  folder.write("config.json", config.dump());
  std::filesystem::create_symlink(testing::golden_path(name) + "/model.safetensors",
                                  folder.path() + "/model.safetensors");
  return AutoModelForCausalLM::from_pretrained(folder.path(), {.dtype = at::kFloat});
}

/// A cache behind a prompt of n tokens and eight more, in float32.
DynamicCache cache_behind(const CausalLM& model, std::int64_t n) {
  DynamicCache cache(model.config());
  GenerateOptions options{.max_new_tokens = 8};
  options.eos_token_id = std::vector<std::int64_t>{};
  options.prefill_chunk_size = 512;
  model.generate({.input_ids = testing::tensor_of({some_ids(n - 7)})}, options, &cache);
  EXPECT_EQ(cache.seq_length(), n);
  return cache;
}

class ConstantMemory : public ::testing::TestWithParam<std::string> {};

TEST_P(ConstantMemory, OfStatesWindowsAndChunks) {
  const auto model = long_model(GetParam());
  const DynamicCache near = cache_behind(*model, 1024);
  double bytes_per_token = 0;
  for (const LayerPlan& layer : near.plan().layers) {
    if (layer.has_attention() && layer.retention.name() == "all") bytes_per_token += layer.bytes_per_token();
  }
  const std::int64_t length = bytes_per_token == 0 ? 16384 : 4096;
  const double before = resident_bytes();
  const DynamicCache far = cache_behind(*model, length);
  const double grown = resident_bytes() - before;
  EXPECT_EQ(static_cast<double>(far.n_bytes() - near.n_bytes()), static_cast<double>(length - 1024) * bytes_per_token);
  // Ids, rows of a chunk, tables of angles, what the allocator keeps. Keys and values would be another 16 MB.
  if (bytes_per_token == 0 && !kSanitized) {
    EXPECT_LT(grown, 4e6);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ConstantMemory,
                         ::testing::Values("mamba", "mamba2", "lfm2", "qwen3_next", "falcon_h1", "mistral_window8",
                                           "gemma3_window8", "gpt_oss_window8", "llama4_chunk8"),
                         [](const auto& test) { return test.param; });

// A layer of limited retention holds its window or chunk and a block or two, however long the prompt.
TEST(LimitedMemory, ALimitedLayerHoldsItsWindowAndABlock) {
  for (const char* name : {"mistral_window8", "gemma2_window8", "llama4_chunk8"}) {
    const DynamicCache cache = cache_behind(*long_model(name), 4096);
    double most = 0;
    for (const LayerPlan& plan : cache.plan().layers) {
      const bool keeps_all = plan.retention.name() == "all";
      most += plan.bytes_per_token() * (keeps_all ? 4096 : 2 * 64);
    }
    EXPECT_LE(static_cast<double>(cache.n_bytes()), most) << name;
  }
}

}  // namespace
}  // namespace mneme
