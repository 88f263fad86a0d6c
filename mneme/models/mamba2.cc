#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/mamba2_mixer.h"

namespace mneme {
namespace {

Mamba2Options options_of(const ModelConfig& c) {
  const ConfigKeys keys{c.raw, c.name};
  Mamba2Options options{.n_heads = keys.size("num_heads"),
                        .head_dim = keys.size("head_dim"),
                        .n_groups = keys.size("n_groups", 1),
                        .n_states = keys.size("state_size"),
                        .conv_taps = keys.size("conv_kernel"),
                        .bias = json_bool(c.raw, "use_bias", false, c.name),
                        .conv_bias = json_bool(c.raw, "use_conv_bias", true, c.name),
                        .output_bias = json_bool(c.raw, "use_bias", false, c.name),
                        .eps = c.rms_norm_eps};
  check(options.channels() == c.intermediate_size, ErrorKind::kCorruptData,
        "{}: {} heads of {} do not make the {} channels that \"expand\" asks for", c.name, options.n_heads,
        options.head_dim, c.intermediate_size);
  check(c.hidden_act == "silu" || c.hidden_act == "swish", ErrorKind::kUnsupported,
        "{}: \"hidden_act\" is \"{}\", for mamba2 only silu is supported", c.name, c.hidden_act);
  read_time_step_limit(c, options);
  options.check(c.name);
  return options;
}

}  // namespace

CacheShape mamba2_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  const LayerShape layer{.state = options_of(c).state_shape()};
  return {.layers = std::vector<LayerShape>(static_cast<std::size_t>(c.num_hidden_layers), layer),
          .dtype = dtype,
          .device = device};
}

// Mamba-2: nothing but its mixer in each layer (Dao & Gu 2024, arXiv:2405.21060).
std::unique_ptr<Model> build_mamba2(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  // Parity: transformers renames the table of older checkpoints in a load hook.
  const bool older = weights.contains("backbone.embedding.weight");
  DecoderParts parts =
      standard_ends(load, c, NormKind::kRms,
                    {.embedding = older ? "backbone.embedding" : "backbone.embeddings", .norm = "backbone.norm_f"});
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = fmt::format("backbone.layers.{}.", i);
    std::vector<Residual> residuals;
    residuals.push_back({.before = Norm(load, layer + "norm", c.hidden_size, c.rms_norm_eps),
                         .f = mamba2_mixer(load, options_of(c), layer + "mixer.", c.hidden_size)});
    parts.layers.push_back(std::move(residuals));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
