#include <array>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/mamba2_mixer.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

/// The multipliers of a key that lists n of them.
template <std::size_t n>
std::array<double, n> multipliers(const ModelConfig& c, const char* key) {
  const Json& list = c.raw.at(key);
  check(list.is_array() && list.size() == n, ErrorKind::kCorruptData, "{}: \"{}\" must be {} numbers", c.name, key, n);
  std::array<double, n> result;
  for (std::size_t i = 0; i < n; ++i) {
    check(list[i].is_number(), ErrorKind::kCorruptData, "{}: \"{}\" must be {} numbers", c.name, key, n);
    result[i] = list[i].get<double>();
  }
  return result;
}

double multiplier(const ModelConfig& c, const char* key) { return ConfigKeys{c.raw, c.name}.positive(key, 1.0); }

Mamba2Options mixer_options(const ModelConfig& c) {
  const ConfigKeys keys{c.raw, c.name};
  const auto flag = [&](const char* key, bool fallback) { return json_bool(c.raw, key, fallback, c.name); };
  const std::int64_t channels = keys.size("mamba_d_ssm", keys.size("mamba_expand", 2) * c.hidden_size);
  Mamba2Options options{.n_heads = keys.size("mamba_n_heads"),
                        .head_dim = keys.size("mamba_d_head"),
                        .n_groups = keys.size("mamba_n_groups", 1),
                        .n_states = keys.size("mamba_d_state"),
                        .conv_taps = keys.size("mamba_d_conv"),
                        .bias = flag("mamba_proj_bias", false),
                        .conv_bias = flag("mamba_conv_bias", true),
                        .output_bias = flag("projectors_bias", false),
                        .normalized = flag("mamba_rms_norm", false),
                        .norm_before_gate = flag("mamba_norm_before_gate", true),
                        .eps = c.rms_norm_eps};
  check(options.channels() == channels, ErrorKind::kCorruptData, "{}: {} Mamba heads of {} do not make {} channels",
        c.name, options.n_heads, options.head_dim, channels);
  read_time_step_limit(c, options);
  options.check(c.name);
  const double in = multiplier(c, "ssm_in_multiplier");
  check(in == 1 || !options.bias, ErrorKind::kUnsupported,
        "{}: \"mamba_proj_bias\" together with \"ssm_in_multiplier\" is not supported", c.name);
  const auto each = multipliers<5>(c, "ssm_multipliers");
  for (std::size_t i = 0; i < each.size(); ++i) options.multipliers[i] = in * each[i];
  return options;
}

/// y = a f(x) + b g(x): attention and Mamba-2 side by side.
class Both final : public Sublayer {
 public:
  Both(std::unique_ptr<const Sublayer> f, float a, std::unique_ptr<const Sublayer> g, float b)
      : f_(std::move(f)), g_(std::move(g)), a_(a), b_(b) {}

  std::int64_t n_bytes() const override { return f_->n_bytes() + g_->n_bytes(); }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows other = ops::scratch_rows(workspace, y.n, y.width);
    f_->forward(pass, cache, x, y);
    g_->forward(pass, cache, x, other);
    if (a_ != 1.0f) ops::scale(workspace, a_, y);
    if (b_ != 1.0f) ops::scale(workspace, b_, other);
    ops::add(workspace, other, y);
  }

 private:
  std::unique_ptr<const Sublayer> f_, g_;
  float a_, b_;
};

}  // namespace

CacheShape falcon_h1_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  CacheShape shape = cache_shape_of(c, dtype, device);
  for (LayerShape& layer : shape.layers) layer.state = mixer_options(c).state_shape();
  return shape;
}

// Falcon-H1: attention and Mamba-2 side by side in each layer, multipliers everywhere (TII 2025, arXiv:2507.22448).
std::unique_ptr<Model> build_falcon_h1(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  DecoderParts parts = standard_ends(load, c, NormKind::kRms, {.norm = "model.final_layernorm"});
  parts.embedding_scale = static_cast<float>(multiplier(c, "embedding_multiplier"));
  parts.logit_scale = static_cast<float>(multiplier(c, "lm_head_multiplier"));
  // What attention reads is scaled, and its keys once more: that is a scale of its scores and one of what it gives.
  const double in = multiplier(c, "attention_in_multiplier"), key = multiplier(c, "key_multiplier");
  check(in == 1 || !c.attention_bias, ErrorKind::kUnsupported,
        "{}: \"attention_bias\" together with \"attention_in_multiplier\" is not supported", c.name);
  check(key == 1 || !c.attention_bias, ErrorKind::kUnsupported,
        "{}: \"attention_bias\" together with \"key_multiplier\" is not supported", c.name);
  const auto mlp = multipliers<2>(c, "mlp_multipliers");
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i), dense = layer + "feed_forward.";
    const auto norm = [&](const char* name) { return Norm(load, layer + name, c.hidden_size, c.rms_norm_eps); };
    AttentionParts heads =
        standard_attention(load, c, layer + "self_attn.", {.qkv = c.attention_bias, .output = c.attention_bias});
    heads.scale *= static_cast<float>(in * in * key);
    auto mixed = std::make_unique<Both>(attention(std::move(heads)),
                                        static_cast<float>(in * multiplier(c, "attention_out_multiplier")),
                                        mamba2_mixer(load, mixer_options(c), layer + "mamba.", c.hidden_size),
                                        static_cast<float>(multiplier(c, "ssm_out_multiplier")));
    const std::int64_t inner = c.intermediate_size;
    parts.layers.push_back(pre_norm_layer(
        norm("input_layernorm"), std::move(mixed), norm("pre_ff_layernorm"),
        gated_feed_forward(
            load.linear({{dense + "gate_proj", inner}, {dense + "up_proj", inner}}, c.hidden_size, c.mlp_bias),
            load.linear({{dense + "down_proj", c.hidden_size}}, inner, c.mlp_bias), ops::activation_of(c.hidden_act),
            static_cast<float>(mlp[0]))));
    parts.layers.back().back().scale = static_cast<float>(mlp[1]);
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
