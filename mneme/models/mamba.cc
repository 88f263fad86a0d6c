#include <cmath>
#include <string>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/embedding.h"
#include "mneme/models/loading.h"
#include "mneme/models/state_weights.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/conv.h"
#include "mneme/ops/norm.h"
#include "mneme/ops/scan.h"

namespace mneme {
namespace {

/// The keys of config.json that only Mamba has. `residual_in_fp32` is none of them: hidden rows are float32 always.
struct MambaSizes {
  std::int64_t channels, state_size, conv_kernel, time_step_rank;
  bool use_bias, use_conv_bias;
  double layer_norm_epsilon;

  explicit MambaSizes(const ModelConfig& c)
      : channels(c.intermediate_size),
        state_size(size(c, "state_size")),
        conv_kernel(size(c, "conv_kernel")),
        time_step_rank(c.raw.at("time_step_rank") == "auto" ? (c.hidden_size + 15) / 16 : size(c, "time_step_rank")),
        use_bias(json_bool(c.raw, "use_bias", false, c.name)),
        use_conv_bias(json_bool(c.raw, "use_conv_bias", true, c.name)),
        layer_norm_epsilon(json_double(c.raw, "layer_norm_epsilon", 1e-5, c.name)) {
    check(conv_kernel <= ops::kMaxTaps, ErrorKind::kUnsupported, "{}: \"conv_kernel\" is {}, at most {} is supported",
          c.name, conv_kernel, ops::kMaxTaps);
    check(std::isfinite(layer_norm_epsilon) && layer_norm_epsilon > 0, ErrorKind::kCorruptData,
          "{}: \"layer_norm_epsilon\" is {}, it must be positive", c.name, layer_norm_epsilon);
    check(c.hidden_act == "silu" || c.hidden_act == "swish", ErrorKind::kUnsupported,
          "{}: \"hidden_act\" is \"{}\", for mamba only silu is supported", c.name, c.hidden_act);
  }

  static std::int64_t size(const ModelConfig& c, const char* key) {
    const std::int64_t value = json_int(c.raw, key, 0, c.name);
    check(value > 0 && value <= INT32_MAX, ErrorKind::kCorruptData, "{}: \"{}\" is {}, it must be 1 to {}", c.name, key,
          value, INT32_MAX);
    return value;
  }

  /// The convolution's window and h. Both are functions of the convolution's inputs.
  StateShape state_shape() const {
    return {.sizes = {(conv_kernel - 1) * channels, ops::scan_state_floats(channels, state_size)},
            .input_width = channels};
  }
};

const StoredTensor& embedding_table(const Weights& weights, const ModelConfig& c) {
  // Parity: transformers renames the table of older checkpoints in a load hook.
  const bool older = weights.contains("backbone.embedding.weight");
  return weights.get(older ? "backbone.embedding.weight" : "backbone.embeddings.weight", {c.vocab_size, c.hidden_size});
}

/// Mamba (Gu & Dao 2023, arXiv:2312.00752), every layer
///
///   h = h + out(y),  (x, z) = in(norm(h)),  u = silu(conv(x)),  y = scan(u, softplus(W u), B u, C u) * silu(z)
///
/// with W of low rank. What the states are functions of is x, so that is what a recorded past keeps.
class Mamba final : public Model {
 public:
  Mamba(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device)
      : Model(c, dtype, device),
        sizes_(c),
        embedding_(weights, embedding_table(weights, c), dtype),
        norm_(load_vector(weights, "backbone.norm_f.weight", c.hidden_size, dtype, device)),
        head_(load_head(weights, embedding_.table(), "lm_head.weight", c.tie_word_embeddings, dtype, device)) {
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) layers_.push_back(load_layer(weights, i));
  }

  CacheShape cache_shape() const override { return mamba_cache_shape(config(), dtype(), device()); }

  std::int64_t n_bytes() const override {
    std::int64_t total = head_.n_bytes();
    for (const Layer& layer : layers_) {
      for (const ops::Linear* linear : {&layer.in, &layer.low_rank, &layer.b_and_c, &layer.time_step, &layer.out}) {
        total += linear->n_bytes();
      }
      total += static_cast<std::int64_t>(layer.conv.taps.nbytes() + layer.scan.a.nbytes());
    }
    return total;
  }

  void embed(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const override {
    embedding_.forward(workspace, ids, out);
  }

  void forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
               const ops::Rows& logits) const override {
    ops::Workspace& workspace = cache.workspace();
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows hidden = ops::scratch_rows(workspace, batch.n_tokens(), config().hidden_size);
    if (batch.ids.empty()) {
      ops::copy(workspace, batch.embeddings, hidden);
    } else {
      embed(workspace, batch.ids, hidden);
    }
    const bool keeps = !batch.hidden_states.empty();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (keeps) ops::copy(workspace, hidden, batch.hidden_states[i]);
      mix(workspace, layers_[i], cache.layers()[i].state(), batch.row_starts, hidden);
    }
    if (keeps) ops::rms_norm(workspace, hidden, norm_, eps(), batch.hidden_states.back());
    const ops::Rows last = ops::scratch_rows(workspace, logits.n, hidden.width);
    ops::select_rows(workspace, hidden, logit_rows, last);
    ops::rms_norm(workspace, last, norm_, eps(), last);
    head_.forward(workspace, last, logits);
  }

 private:
  struct Layer {
    at::Tensor norm;
    ops::Linear in;  // x, z
    ops::ConvWeights conv;
    ops::Linear low_rank, time_step, b_and_c;
    ops::ScanWeights scan;
    ops::Linear out;
  };

  float eps() const { return static_cast<float>(sizes_.layer_norm_epsilon); }

  Layer load_layer(const Weights& weights, std::int64_t index) const {
    const std::int64_t width = config().hidden_size, channels = sizes_.channels, n = sizes_.state_size,
                       rank = sizes_.time_step_rank;
    const std::string prefix = fmt::format("backbone.layers.{}.mixer.", index);
    const auto linear = [&](const char* name, std::int64_t out, std::int64_t in, bool bias) {
      return load_linear(weights, {{prefix + name, out}}, in, bias, dtype(), device());
    };
    const auto vector = [&](const std::string& name, std::int64_t size) {
      return load_vector(weights, name, size, dtype(), device());
    };
    const auto matrix = [&](const char* name, const std::vector<std::int64_t>& shape) {
      return load_matrix(weights, prefix + name, shape, dtype(), device());
    };
    // One stored matrix gives the time step's low rank, B and C; the first goes through another product.
    const StoredTensor& mixed = weights.get(prefix + "x_proj.weight", {rank + 2 * n, channels});
    const auto rows_of_mixed = [&](std::int64_t first, std::int64_t rows) {
      return ops::Linear(rows_of(mixed, first, rows), dtype(), device());
    };
    Layer layer;
    layer.norm = vector(fmt::format("backbone.layers.{}.norm.weight", index), width);
    layer.in = linear("in_proj", 2 * channels, width, sizes_.use_bias);
    layer.conv = {.taps = taps_of(matrix("conv1d.weight", {channels, 1, sizes_.conv_kernel})),
                  .bias = sizes_.use_conv_bias ? vector(prefix + "conv1d.bias", channels) : at::Tensor(),
                  .silu = true};
    layer.low_rank = rows_of_mixed(0, rank);
    layer.b_and_c = rows_of_mixed(rank, 2 * n);
    layer.time_step = linear("dt_proj", channels, rank, /*bias=*/true);
    // GGUF files keep A itself.
    const at::Tensor a =
        weights.contains(prefix + "A") ? matrix("A", {channels, n}) : decay_of(matrix("A_log", {channels, n}));
    layer.scan = {.a = ops::scan_panels(a), .d = vector(prefix + "D", channels)};
    layer.out = linear("out_proj", width, channels, sizes_.use_bias);
    return layer;
  }

  void mix(ops::Workspace& workspace, const Layer& layer, StateLayer& states, std::span<const std::int64_t> row_starts,
           const ops::Rows& hidden) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
    const ops::Rows projected = ops::scratch_rows(workspace, hidden.n, 2 * sizes_.channels);
    const ops::Rows y = ops::scratch_rows(workspace, hidden.n, sizes_.channels);
    ops::rms_norm(workspace, hidden, layer.norm, eps(), x);
    layer.in.forward(workspace, x, projected);
    states.advance(workspace, row_starts, projected, y,
                   [&](std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows& out) {
                     recur(workspace, layer, states, runs, inputs, out);
                   });
    layer.out.forward(workspace, y, x);
    ops::add(workspace, x, hidden);
  }

  /// inputs: x, and behind it z where y is asked for.
  void recur(ops::Workspace& workspace, const Layer& layer, const StateLayer& states,
             std::span<const ops::StateRun> runs, const ops::Rows& inputs, const ops::Rows& y) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows u = ops::scratch_rows(workspace, inputs.n, sizes_.channels);
    const ops::Rows low_rank = ops::scratch_rows(workspace, inputs.n, sizes_.time_step_rank);
    const ops::Rows time_step = ops::scratch_rows(workspace, inputs.n, sizes_.channels);
    const ops::Rows b_and_c = ops::scratch_rows(workspace, inputs.n, 2 * sizes_.state_size);
    ops::causal_conv(workspace, runs, states.offset(0), inputs, layer.conv, u);
    layer.low_rank.forward(workspace, u, low_rank);
    layer.time_step.forward(workspace, low_rank, time_step);
    layer.b_and_c.forward(workspace, u, b_and_c);
    ops::selective_scan(
        workspace, runs, states.offset(1),
        {.u = u, .time_step = time_step, .b_and_c = b_and_c, .gate = inputs, .gate_offset = sizes_.channels},
        layer.scan, y);
  }

  MambaSizes sizes_;
  Embedding embedding_;
  at::Tensor norm_;
  ops::Linear head_;
  std::vector<Layer> layers_;
};

}  // namespace

CacheShape mamba_cache_shape(const ModelConfig& config, DType dtype, at::Device device) {
  const LayerShape layer{.state = MambaSizes(config).state_shape()};
  return {.layers = std::vector<LayerShape>(static_cast<std::size_t>(config.num_hidden_layers), layer),
          .dtype = dtype,
          .device = device};
}

std::unique_ptr<Model> build_mamba(const ModelConfig& config, const Weights& weights, DType dtype, at::Device device) {
  return std::make_unique<Mamba>(config, weights, dtype, device);
}

}  // namespace mneme
