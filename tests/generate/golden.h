#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/generate/causal_lm.h"
#include "mneme/models/weights.h"
#include "tests/support/places.h"

namespace mneme::testing {

using Rows = std::vector<std::vector<std::int64_t>>;

/// The small reference models, and what transformers answers on them (tests/golden/make_goldens.py,
/// make_architectures.py): those that see positions as differences alone, and embeddings as they are stored.
inline const std::vector<std::string> kGoldenModels = {
    "llama",     "llama_rope3", "llama_yarn",      "mistral_window8", "qwen2", "qwen3",
    "qwen3_moe", "phi3_head96", "gpt_oss_window8", "mixtral",         "olmo2"};

/// Those that scale embeddings, learn positions, have layers without any, or turn by the length of a text.
inline const std::vector<std::string> kOtherGoldenModels = {
    "gemma2_window8",         "gemma3_window8", "gpt2",          "granite",
    "smollm3_window8",        "llama4_chunk8",  "phi3_longrope", "deepseek_v3",
    "deepseek_v3_full_query", "gemma4_shared",  "gemma4_experts"};

/// Those with recurrent layers.
inline const std::vector<std::string> kRecurrentGoldenModels = {
    "mamba", "mamba_options", "mamba2", "lfm2", "qwen3_next", "falcon_h1", "falcon_h1_options"};

/// MNEME_GOLDEN_MODELS may name a folder of models that the scripts made with another seed.
inline std::string golden_path(const std::string& name) {
  const char* folder = std::getenv("MNEME_GOLDEN_MODELS");
  return folder ? std::string(folder) + "/" + name : testing::test_data("models/") + name;
}

inline std::shared_ptr<const CausalLM> golden_model(const std::string& name, at::ScalarType dtype = at::kFloat) {
  return AutoModelForCausalLM::from_pretrained(golden_path(name), {.dtype = dtype});
}

/// The model's embedding as float32 [V, E].
inline at::Tensor embedding_table(const std::string& name) {
  const Weights weights = Weights::open(golden_path(name));
  const std::int64_t width = ModelConfig::from_pretrained(golden_path(name)).hidden_size;
  const StoredTensor& stored = weights.get("model.embed_tokens.weight", {512, width});
  at::Tensor table = at::empty(stored.shape, at::kFloat);
  read_rows(stored, 0, stored.rows(), table.mutable_data_ptr<float>());
  return table;
}

inline at::Tensor tensor_of(const Rows& rows) {
  const auto columns = static_cast<std::int64_t>(rows.front().size());
  at::Tensor result = at::empty({std::ssize(rows), columns}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::ssize(rows[i]), columns);
    std::copy(rows[i].begin(), rows[i].end(),
              result.mutable_data_ptr<std::int64_t>() + static_cast<std::int64_t>(i) * columns);
  }
  return result;
}

inline Rows rows_of(const at::Tensor& ids) {
  Rows rows;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const auto* row = ids.const_data_ptr<std::int64_t>() + i * ids.size(1);
    rows.emplace_back(row, row + ids.size(1));
  }
  return rows;
}

/// n ids that look random and are the same for the same seed, none of them special (0 to 2).
inline std::vector<std::int64_t> some_ids(std::int64_t n, std::uint64_t seed = 1, std::int64_t vocabulary = 512) {
  std::vector<std::int64_t> ids;
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::int64_t i = 0; i < n; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(3 + static_cast<std::int64_t>((x >> 33) % static_cast<std::uint64_t>(vocabulary - 3)));
  }
  return ids;
}

/// Rows of unequal length, padded on the left with 0.
inline EncodedInputs left_padded(const Rows& rows, std::int64_t pad = 0) {
  std::size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  Rows ids, mask;
  for (const auto& row : rows) {
    ids.emplace_back(longest - row.size(), pad);
    ids.back().insert(ids.back().end(), row.begin(), row.end());
    mask.emplace_back(longest - row.size(), 0);
    mask.back().insert(mask.back().end(), row.size(), 1);
  }
  return {.input_ids = tensor_of(ids), .attention_mask = tensor_of(mask)};
}

/// Greedy text and logits after the prompt: what must not depend on how it was computed.
struct Answer {
  Rows new_tokens;
  at::Tensor logits;
  friend bool operator==(const Answer& a, const Answer& b) {
    return a.new_tokens == b.new_tokens && at::equal(a.logits, b.logits);
  }
};

inline Answer answer(const CausalLM& model, const EncodedInputs& inputs, GenerateOptions options,
                     Cache* cache = nullptr) {
  options.output_logits = true;
  const GenerateOutput output = model.generate(inputs, options, cache);
  return {output.new_tokens, output.prompt_logits};
}

}  // namespace mneme::testing
