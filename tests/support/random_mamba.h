#pragma once

#include <fmt/format.h>

#include "tests/support/random_model.h"

namespace mneme::testing {

/// A Mamba of 3 layers and 512 tokens, small enough for many runs. `changes` are merged into config.json.
inline Checkpoint random_mamba(const Json& changes = Json::object()) {
  Checkpoint c;
  c.config = {{"model_type", "mamba"}, {"vocab_size", 512}, {"hidden_size", 20},  {"num_hidden_layers", 3},
              {"state_size", 6},       {"conv_kernel", 4},  {"dtype", "float32"}, {"tie_word_embeddings", false}};
  c.config.update(changes);
  const ModelConfig config = ModelConfig::from_json(c.config, "random");
  const std::int64_t width = config.hidden_size, channels = config.intermediate_size, n = config.raw["state_size"],
                     rank = config.raw["time_step_rank"] == "auto" ? (width + 15) / 16
                                                                   : config.raw["time_step_rank"].get<std::int64_t>();
  c.add("backbone.embeddings.weight", {config.vocab_size, width}, 1.0f);
  c.add("backbone.norm_f.weight", {width}, 1.0f);
  if (!config.tie_word_embeddings) c.add("lm_head.weight", {config.vocab_size, width});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("backbone.layers.{}.", i), mixer = layer + "mixer.";
    c.add(layer + "norm.weight", {width});
    c.add(mixer + "in_proj.weight", {2 * channels, width});
    c.add(mixer + "conv1d.weight", {channels, 1, config.raw["conv_kernel"].get<std::int64_t>()}, 0.5f);
    c.add(mixer + "x_proj.weight", {rank + 2 * n, channels});
    c.add(mixer + "dt_proj.weight", {channels, rank});
    c.add(mixer + "dt_proj.bias", {channels}, 1.0f);
    c.add(mixer + "A_log", {channels, n}, 0.7f);
    c.add(mixer + "D", {channels}, 1.0f);
    c.add(mixer + "out_proj.weight", {width, channels});
    if (config.raw["use_conv_bias"].get<bool>()) c.add(mixer + "conv1d.bias", {channels});
    if (config.raw["use_bias"].get<bool>()) {
      c.add(mixer + "in_proj.bias", {2 * channels});
      c.add(mixer + "out_proj.bias", {width});
    }
  }
  return c;
}

}  // namespace mneme::testing
