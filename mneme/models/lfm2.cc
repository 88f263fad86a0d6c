#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/layer_types.h"
#include "mneme/models/state_weights.h"
#include "mneme/ops/conv.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

std::int64_t conv_taps(const ModelConfig& c) {
  const std::int64_t taps = ConfigKeys{c.raw, c.name}.size("conv_L_cache", 3);
  check(taps >= 2 && taps <= ops::kMaxTaps, ErrorKind::kUnsupported,
        "{}: \"conv_L_cache\" is {}, 2 to {} are supported", c.name, taps, ops::kMaxTaps);
  return taps;
}

/// y = out(c * conv(b * x)), (b, c, x) = in(..): a gated convolution over the last few tokens. What its window is a
/// function of is b * x.
class ShortConv final : public Sublayer {
 public:
  ShortConv(const Loader& load, const ModelConfig& c, const std::string& prefix) : width_(c.hidden_size) {
    const bool bias = json_bool(c.raw, "conv_bias", false, c.name);
    in_ = load.linear({{prefix + "in_proj", 3 * width_}}, width_, bias);
    conv_ = {.taps = taps_of(load.matrix(prefix + "conv.weight", {width_, 1, conv_taps(c)})),
             .bias = bias ? load.vector(prefix + "conv.bias", width_) : at::Tensor()};
    out_ = load.linear({{prefix + "out_proj", width_}}, width_, bias);
  }

  std::int64_t n_bytes() const override {
    return in_.n_bytes() + out_.n_bytes() + static_cast<std::int64_t>(conv_.taps.nbytes());
  }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows bcx = ops::scratch_rows(workspace, x.n, 3 * width_);
    const ops::Rows input = ops::scratch_rows(workspace, x.n, width_),
                    mixed = ops::scratch_rows(workspace, x.n, width_);
    in_.forward(workspace, x, bcx);
    ops::copy_columns(workspace, bcx, 2 * width_, input);
    ops::multiply(workspace, bcx, 0, input);
    StateLayer& states = cache.state();
    states.advance(workspace, pass.batch.row_starts, input, mixed,
                   [&](std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows& out) {
                     const ops::Workspace::Scope inner(workspace);
                     const ops::Rows target = out.data ? out : ops::scratch_rows(workspace, inputs.n, width_);
                     ops::causal_conv(workspace, runs, states.offset(0), inputs, conv_, target);
                   });
    ops::multiply(workspace, bcx, width_, mixed);
    out_.forward(workspace, mixed, y);
  }

 private:
  std::int64_t width_;
  ops::Linear in_, out_;
  ops::ConvWeights conv_;
};

/// Parity: files give a width from which the real one is derived.
std::int64_t inner_width(const ModelConfig& c) {
  if (!json_bool(c.raw, "block_auto_adjust_ff_dim", true, c.name)) return c.intermediate_size;
  const ConfigKeys keys{c.raw, c.name};
  const auto inner = static_cast<std::int64_t>(2.0 * static_cast<double>(c.intermediate_size) / 3.0);
  if (!keys.has("block_ffn_dim_multiplier")) return inner;
  const std::int64_t multiple = keys.size("block_multiple_of", 256);
  const auto scaled =
      static_cast<std::int64_t>(keys.positive("block_ffn_dim_multiplier", 1) * static_cast<double>(inner));
  return (scaled + multiple - 1) / multiple * multiple;
}

}  // namespace

CacheShape lfm2_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  CacheShape shape = cache_shape_of(c, dtype, device);
  for (std::size_t i = 0; i < shape.layers.size(); ++i) {
    if (c.layer_types[i] != LayerType::kConv) continue;
    shape.layers[i] = {.state =
                           StateShape{.sizes = {(conv_taps(c) - 1) * c.hidden_size}, .input_width = c.hidden_size}};
  }
  return shape;
}

// LFM2: gated short convolutions, and attention in some layers (Liquid AI 2025, arXiv:2511.23404).
std::unique_ptr<Model> build_lfm2(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  const Loader load{weights, dtype, device};
  // Parity: the embedding's norm is the last one, and a head of its own may be in the file.
  DecoderParts parts = standard_ends(load, c, NormKind::kRms, {.norm = "model.embedding_norm"});
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i), prefix = layer + "self_attn.", mlp = layer + "feed_forward.";
    const auto norm = [&](const std::string& name, std::int64_t n) { return Norm(load, name, n, c.rms_norm_eps); };
    std::unique_ptr<const Sublayer> mixer;
    if (c.layer_types[static_cast<std::size_t>(i)] == LayerType::kConv) {
      mixer = std::make_unique<ShortConv>(load, c, layer + "conv.");
    } else {
      AttentionParts heads = attention_sizes(c);
      heads.qkv = load.linear({{prefix + "q_proj", queries}, {prefix + "k_proj", keys}, {prefix + "v_proj", keys}},
                              c.hidden_size);
      heads.output = load.linear({{prefix + "out_proj", c.hidden_size}}, queries);
      heads.query_norm = norm(prefix + "q_layernorm", c.head_dim);
      heads.key_norm = norm(prefix + "k_layernorm", c.head_dim);
      mixer = attention(std::move(heads));
    }
    const std::int64_t inner = inner_width(c);
    parts.layers.push_back(pre_norm_layer(
        norm(layer + "operator_norm", c.hidden_size), std::move(mixer), norm(layer + "ffn_norm", c.hidden_size),
        gated_feed_forward(load.linear({{mlp + "w1", inner}, {mlp + "w3", inner}}, c.hidden_size),
                           load.linear({{mlp + "w2", c.hidden_size}}, inner), ops::Activation::kSilu)));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
