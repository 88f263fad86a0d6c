#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/architectures.h"
#include "mneme/models/attention.h"
#include "mneme/models/config_keys.h"
#include "mneme/models/decoder.h"
#include "mneme/models/experts.h"
#include "mneme/models/feed_forward.h"
#include "mneme/models/gemma.h"
#include "mneme/models/layer_types.h"
#include "mneme/models/rope.h"

namespace mneme {
namespace {

bool flag(const ModelConfig& c, const char* key) { return json_bool(c.raw, key, false, c.name); }

/// Heads of one layer.
struct Heads {
  std::int64_t head_dim, n_key_value_heads;
};

/// What the layers of a model are: sizes that differ, and whose keys and values each reads.
class Layers {
 public:
  explicit Layers(const ModelConfig& c) : c_(c), n_(c.num_hidden_layers) {
    const std::int64_t n_shared = json_int(c.raw, "num_kv_shared_layers", 0, c.name);
    check(n_shared >= 0 && n_shared < n_, ErrorKind::kCorruptData,
          "{}: \"num_kv_shared_layers\" is {}, it must be 0 to {}", c.name, n_shared, n_ - 1);
    n_cached_ = n_ - n_shared;
  }

  /// Layers that have keys and values of their own: the first ones.
  std::int64_t n_cached() const { return n_cached_; }
  bool reads_another(std::int64_t i) const { return i >= n_cached_; }
  /// Layer i itself, or the last layer of its type that has keys and values.
  std::int64_t source(std::int64_t i) const {
    std::int64_t s = std::min(i, n_cached_ - 1);
    while (s >= 0 && (reads_another(i) ? type(s) != type(i) : s != i)) --s;
    check(s >= 0, ErrorKind::kCorruptData,
          "{}: layer {} reads keys and values of a layer of its type, but none of the {} that have any is one", c_.name,
          i, n_cached_);
    return s;
  }
  bool is_full(std::int64_t i) const { return type(i) == LayerType::kFullAttention; }

  Heads heads(std::int64_t i) const {
    Heads heads{c_.head_dim, c_.num_key_value_heads};
    const ConfigKeys keys{c_.raw, c_.name};
    const Json* const by_layer = c_.raw.contains("per_layer_config") ? &c_.raw.at("per_layer_config") : nullptr;
    if (by_layer && by_layer->is_object()) {  // as newer files say it
      const auto it = by_layer->find(std::to_string(i));
      if (it == by_layer->end()) return heads;
      check(it->is_object(), ErrorKind::kCorruptData, "{}: \"per_layer_config\" of layer {} must be an object", c_.name,
            i);
      const ConfigKeys own{*it, c_.name};
      heads = {own.size("head_dim", heads.head_dim, kMostDim),
               own.size("num_key_value_heads", heads.n_key_value_heads)};
    } else if (is_full(i)) {
      heads.head_dim = keys.size("global_head_dim", heads.head_dim, kMostDim);
      if (flag(c_, "attention_k_eq_v"))
        heads.n_key_value_heads = keys.size("num_global_key_value_heads", heads.n_key_value_heads);
    }
    check(c_.num_attention_heads % heads.n_key_value_heads == 0, ErrorKind::kCorruptData,
          "{}: attention heads and key/value heads of layer {} do not divide: {} by {}", c_.name, i,
          c_.num_attention_heads, heads.n_key_value_heads);
    return heads;
  }
  /// All layers of one type rotate alike, so their heads are of one size.
  std::int64_t head_dim(bool full) const {
    std::optional<std::int64_t> dim;
    for (std::int64_t i = 0; i < n_; ++i) {
      if (is_full(i) != full) continue;
      const std::int64_t here = heads(i).head_dim;
      check(dim.value_or(here) == here, ErrorKind::kUnsupported,
            "{}: heads of {} and of {} in layers of one type are not supported", c_.name, dim.value_or(here), here);
      dim = here;
    }
    return dim.value_or(c_.head_dim);
  }

 private:
  static constexpr std::int64_t kMostDim = 65536;
  LayerType type(std::int64_t i) const { return c_.layer_types[static_cast<std::size_t>(i)]; }

  const ModelConfig& c_;
  std::int64_t n_, n_cached_;
};

/// y = norm(mlp(norm(x))) + norm(experts(x)): a dense network and experts side by side.
class DenseAndExperts final : public Sublayer {
 public:
  struct Branch {
    Norm before = {};
    std::unique_ptr<const Sublayer> f;
    Norm after = {};
  };
  DenseAndExperts(Branch dense, Branch experts) : dense_(std::move(dense)), experts_(std::move(experts)) {}

  std::int64_t n_bytes() const override { return dense_.f->n_bytes() + experts_.f->n_bytes(); }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows other = ops::scratch_rows(workspace, x.n, x.width);
    dense_.before.forward(workspace, x, other);
    dense_.f->forward(pass, cache, other, y);
    dense_.after.forward(workspace, y, y);
    experts_.f->forward(pass, cache, x, other);
    experts_.after.forward(workspace, other, other);
    ops::add(workspace, other, y);
  }

 private:
  Branch dense_, experts_;
};

std::unique_ptr<const Sublayer> load_experts(const Loader& load, const ModelConfig& c, const std::string& layer) {
  const ConfigKeys keys{c.raw, c.name};
  const std::int64_t n = keys.size("num_experts", 1, 65536), inner = keys.size("moe_intermediate_size");
  const std::int64_t n_chosen = keys.size("top_k_experts", 1, 65536);
  check(n_chosen <= n, ErrorKind::kCorruptData, "{}: \"top_k_experts\" is {}, there are {} experts", c.name, n_chosen,
        n);
  check(inner > 0, ErrorKind::kCorruptData, "{}: \"moe_intermediate_size\" must not be null", c.name);
  ExpertsParts parts{.routing = {.n_experts = n, .n_chosen = n_chosen}, .activation = ops::activation_of(c.hidden_act)};
  const auto scaled =
      load.vector(layer + "router.scale", c.hidden_size) / std::sqrt(static_cast<double>(c.hidden_size));
  parts.router_norm = Norm(scaled, c.rms_norm_eps);
  parts.router = load.linear({{layer + "router.proj", n}}, c.hidden_size);
  parts.routing.expert_scales = load.vector(layer + "router.per_expert_scale", n).cpu();
  parts.expert_norm = Norm(load, layer + "pre_feedforward_layernorm_2", c.hidden_size, c.rms_norm_eps);
  parts.gate_up =
      load.grouped(n, rows_of(load.weights.get(layer + "experts.gate_up_proj", {n, 2 * inner, c.hidden_size})));
  parts.down = load.grouped(n, rows_of(load.weights.get(layer + "experts.down_proj", {n, c.hidden_size, inner})));
  return experts(std::move(parts));
}

AttentionParts load_attention(const Loader& load, const ModelConfig& c, const Layers& layers, std::int64_t i) {
  const std::string prefix = layer_prefix(i) + "self_attn.";
  const auto [head_dim, n_key_value_heads] = layers.heads(i);
  const std::int64_t queries = c.num_attention_heads * head_dim, keys = n_key_value_heads * head_dim;
  AttentionParts parts{.n_heads = c.num_attention_heads, .head_dim = head_dim};
  parts.query_norm = Norm(load, prefix + "q_norm", head_dim, c.rms_norm_eps);
  parts.rope = layers.is_full(i) ? 0 : 1;
  parts.output = load.linear({{prefix + "o_proj", c.hidden_size}}, queries, c.attention_bias);
  std::vector<LinearPart> projections = {{prefix + "q_proj", queries}};
  if (!layers.reads_another(i)) {
    const bool values_are_keys = flag(c, "attention_k_eq_v") && layers.is_full(i);
    projections.push_back({prefix + "k_proj", keys});
    projections.push_back({prefix + (values_are_keys ? "k_proj" : "v_proj"), keys});
    parts.n_key_value_heads = n_key_value_heads;
    parts.key_norm = Norm(load, prefix + "k_norm", head_dim, c.rms_norm_eps);
    parts.value_norm = Norm(head_dim, c.rms_norm_eps, load.device);
  }
  parts.qkv = load.linear(projections, c.hidden_size, c.attention_bias);
  return parts;
}

LayerEmbeddings load_layer_embeddings(const Loader& load, const ModelConfig& c) {
  const std::int64_t width = c.hidden_size_per_layer_input, all = c.num_hidden_layers * width;
  const std::int64_t vocabulary = ConfigKeys{c.raw, c.name}.size("vocab_size_per_layer_input", c.vocab_size);
  check(vocabulary >= c.vocab_size, ErrorKind::kUnsupported,
        "{}: layers have embeddings of {} tokens, the vocabulary has {}", c.name, vocabulary, c.vocab_size);
  const StoredTensor& table = load.weights.get("model.embed_tokens_per_layer.weight", {vocabulary, all});
  return LayerEmbeddings(Embedding(load.weights, table, load.dtype), gemma_embedding_scale(width, load.dtype),
                         load.linear({{"model.per_layer_model_projection", all}}, c.hidden_size),
                         1.0f / std::sqrt(static_cast<float>(c.hidden_size)),
                         Norm(load, "model.per_layer_projection_norm", width, c.rms_norm_eps));
}

}  // namespace

CacheShape gemma4_cache_shape(const ModelConfig& c, DType dtype, at::Device device) {
  const Layers layers(c);
  CacheShape shape{.layers = {}, .dtype = dtype, .device = device};
  for (std::int64_t i = 0; i < layers.n_cached(); ++i) {
    const auto [head_dim, n_heads] = layers.heads(i);
    shape.layers.push_back({.retention = retention_of(c, static_cast<std::size_t>(i)),
                            .n_heads = n_heads,
                            .key_dim = head_dim,
                            .value_dim = head_dim});
  }
  for (std::int64_t i = layers.n_cached(); i < c.num_hidden_layers; ++i)
    ++shape.layers[static_cast<std::size_t>(layers.source(i))].n_readers;
  return shape;
}

// Gemma 4: full layers with larger heads of which a quarter is rotated, embeddings of each layer's own, and last layers
// that read the keys and values of the last layer of their type before them (Google 2026, release of Gemma 4).
std::unique_ptr<Model> build_gemma4(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device) {
  check(json_string(c.raw, "use_bidirectional_attention", "", c.name) != "all", ErrorKind::kUnsupported,
        "{}: \"use_bidirectional_attention\" makes an encoder of this model, which generates nothing", c.name);
  const Loader load{weights, dtype, device};
  const Layers layers(c);
  DecoderParts parts = standard_ends(load, c);
  parts.embedding_scale = gemma_embedding_scale(c.hidden_size, dtype);
  parts.logit_softcap = gemma_number(c, "final_logit_softcapping", 0);
  // Heads of both types have sizes of their own, so each type has a rotation, be it of the same parameters.
  parts.ropes = {
      rope_of(c.rope, layers.head_dim(/*full=*/true), c.max_position_embeddings),
      rope_of(c.sliding_rope ? *c.sliding_rope : c.rope, layers.head_dim(/*full=*/false), c.max_position_embeddings)};
  const std::int64_t width = c.hidden_size_per_layer_input;
  if (width > 0) parts.layer_embeddings = load_layer_embeddings(load, c);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const std::string layer = layer_prefix(i);
    const auto norm = [&](const char* name) { return Norm(load, layer + name, c.hidden_size, c.rms_norm_eps); };
    std::vector<Residual> residuals;
    residuals.push_back({.before = norm("input_layernorm"),
                         .f = attention(load_attention(load, c, layers, i)),
                         .after = norm("post_attention_layernorm")});
    const bool wide = flag(c, "use_double_wide_mlp") && layers.reads_another(i);
    auto dense = standard_feed_forward(load, c, layer + "mlp.", c.intermediate_size * (wide ? 2 : 1), /*bias=*/false);
    if (flag(c, "enable_moe_block")) {
      residuals.push_back(
          {.f = std::make_unique<DenseAndExperts>(
               DenseAndExperts::Branch{norm("pre_feedforward_layernorm"), std::move(dense),
                                       norm("post_feedforward_layernorm_1")},
               DenseAndExperts::Branch{{}, load_experts(load, c, layer), norm("post_feedforward_layernorm_2")}),
           .after = norm("post_feedforward_layernorm")});
    } else {
      residuals.push_back({.before = norm("pre_feedforward_layernorm"),
                           .f = std::move(dense),
                           .after = norm("post_feedforward_layernorm")});
    }
    if (width > 0) {
      residuals.push_back({.f = layer_input(load.linear({{layer + "per_layer_input_gate", width}}, c.hidden_size),
                                            load.linear({{layer + "per_layer_projection", c.hidden_size}}, width),
                                            ops::activation_of(c.hidden_act), i * width),
                           .after = norm("post_per_layer_input_norm")});
    }
    residuals.back().stream_scale = load.vector(layer + "layer_scalar", 1).item<float>();
    parts.layers.push_back(std::move(residuals));
    parts.cache_layers.push_back(static_cast<std::size_t>(layers.source(i)));
  }
  return std::make_unique<Decoder>(c, load, std::move(parts));
}

}  // namespace mneme
