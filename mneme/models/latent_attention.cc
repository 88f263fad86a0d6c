#include "mneme/models/latent_attention.h"

#include <cmath>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/models/config_keys.h"
#include "mneme/ops/grouped_linear.h"
#include "mneme/ops/heads.h"
#include "mneme/ops/linear.h"

namespace mneme {
namespace {

constexpr double kLatentEps = 1e-6;  // Parity: norms of latents do not follow rms_norm_eps

class LatentAttention final : public Sublayer {
 public:
  LatentAttention(const Loader& load, const ModelConfig& c, const std::string& prefix)
      : s_(c), scale_(score_scale(c, s_.plain + s_.rotated)) {
    const std::int64_t head = s_.plain + s_.rotated, both = s_.plain + s_.value, width = c.hidden_size;
    const bool interleaved = json_bool(c.raw, "rope_interleave", true, c.name);
    // Queries: all plain parts, then all rotated ones, whose pairs lie half a part away.
    std::vector<std::int64_t> query_rows;
    for (std::int64_t h = 0; h < s_.n_heads; ++h) {
      for (std::int64_t i = 0; i < s_.plain; ++i) query_rows.push_back(h * head + i);
    }
    for (std::int64_t h = 0; h < s_.n_heads; ++h) {
      for (std::int64_t i = 0; i < s_.rotated; ++i) query_rows.push_back(h * head + s_.plain + place(i, interleaved));
    }
    const std::int64_t query_in = s_.query_latent.value_or(width);
    if (s_.query_latent) {
      query_down_ = load.linear({{prefix + "q_a_proj", *s_.query_latent}}, width, c.attention_bias);
      query_norm_ = Norm(load, prefix + "q_a_layernorm", *s_.query_latent, kLatentEps);
    }
    const std::string query = prefix + (s_.query_latent ? "q_b_proj.weight" : "q_proj.weight");
    query_ = load.linear(picked(rows_of(load.weights.get(query, {s_.n_heads * head, query_in})), query_rows));

    std::vector<std::int64_t> latent_rows;
    for (std::int64_t i = 0; i < s_.latent; ++i) latent_rows.push_back(i);
    for (std::int64_t i = 0; i < s_.rotated; ++i) latent_rows.push_back(s_.latent + place(i, interleaved));
    const std::string down = prefix + "kv_a_proj_with_mqa";
    at::Tensor bias;
    if (c.attention_bias) {
      bias =
          load.vector(down + ".bias", s_.latent + s_.rotated).index_select(0, at::tensor(latent_rows).to(load.device));
    }
    latent_ = load.linear(
        picked(rows_of(load.weights.get(down + ".weight", {s_.latent + s_.rotated, width})), latent_rows), bias);
    latent_norm_ = Norm(load, prefix + "kv_a_layernorm", s_.latent, kLatentEps);

    const StoredTensor& up = load.weights.get(prefix + "kv_b_proj.weight", {s_.n_heads * both, s_.latent});
    std::vector<WeightRows> keys, values;
    for (std::int64_t h = 0; h < s_.n_heads; ++h) {
      keys.push_back(transposed(up, h * both, s_.plain));
      values.push_back(rows_of(up, h * both + s_.plain, s_.value));
    }
    to_latent_ = load.grouped(s_.n_heads, joined(std::move(keys)));
    from_latent_ = load.grouped(s_.n_heads, joined(std::move(values)));
    output_ = load.linear({{prefix + "o_proj", width}}, s_.n_heads * s_.value, c.attention_bias);
  }

  std::int64_t n_bytes() const override {
    return query_down_.n_bytes() + query_.n_bytes() + latent_.n_bytes() + to_latent_.n_bytes() +
           from_latent_.n_bytes() + output_.n_bytes();
  }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t n = x.n, key = s_.latent + s_.rotated, heads = s_.n_heads;
    const ops::Rows latent = ops::scratch_rows(workspace, n, key);
    const ops::Rows queries = ops::scratch_rows(workspace, n, heads * key);
    const ops::Rows attended = ops::scratch_rows(workspace, n, heads * s_.latent);
    const ops::Rows values = ops::scratch_rows(workspace, n, heads * s_.value);
    latent_.forward(workspace, x, latent);
    latent_norm_.heads(workspace, latent, 0, s_.latent);
    pass.ropes[0].apply(workspace, pass.angles[0], latent, s_.latent, 1, s_.rotated);
    project_queries(pass, x, queries);
    cache.attention().attend(workspace, pass.batch.row_starts, {.keys = latent, .values = latent},
                             {.q = queries, .n_heads = heads, .scale = scale_}, attended);
    through(workspace, from_latent_, {attended, 0, s_.latent}, {values, 0, s_.value});
    output_.forward(workspace, values, y);
  }

 private:
  /// Heads of `x.width` numbers within rows: head h at column offset + h * stride.
  struct Heads {
    ops::Rows rows;
    std::int64_t offset, stride;
  };

  static std::int64_t place_of(std::int64_t i, std::int64_t rotated) {
    return i < rotated / 2 ? 2 * i : 2 * i - rotated + 1;
  }
  std::int64_t place(std::int64_t i, bool interleaved) const { return interleaved ? place_of(i, s_.rotated) : i; }

  /// Parity: YaRN's temperature is in the scores where `mscale_all_dim` is given.
  static float score_scale(const ModelConfig& c, std::int64_t head) {
    double scale = 1 / std::sqrt(static_cast<double>(head));
    if (c.rope.rope_type != "default" && c.rope.mscale_all_dim && c.rope.factor > 1) {
      const double m = 0.1 * *c.rope.mscale_all_dim * std::log(c.rope.factor) + 1;
      scale *= m * m;
    }
    return static_cast<float>(scale);
  }

  void project_queries(const Pass& pass, const ops::Rows& x, const ops::Rows& queries) const {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t key = s_.latent + s_.rotated, plain = s_.n_heads * s_.plain;
    const ops::Rows q = ops::scratch_rows(workspace, x.n, query_.out_features());
    if (s_.query_latent) {
      const ops::Rows low = ops::scratch_rows(workspace, x.n, *s_.query_latent);
      query_down_.forward(workspace, x, low);
      query_norm_.forward(workspace, low, low);
      query_.forward(workspace, low, q);
    } else {
      query_.forward(workspace, x, q);
    }
    pass.ropes[0].apply(workspace, pass.angles[0], q, plain, s_.n_heads, s_.rotated);
    through(workspace, to_latent_, {q, 0, s_.plain}, {queries, 0, key});
    const ops::Rows turned = ops::scratch_rows(workspace, x.n * s_.n_heads, s_.rotated);
    ops::split_heads(workspace, q, plain, s_.rotated, s_.n_heads, turned);
    ops::join_heads(workspace, turned, s_.n_heads, queries, s_.latent, key);
  }

  /// Each head through its own matrix.
  void through(ops::Workspace& workspace, const ops::GroupedLinear& matrices, const Heads& from,
               const Heads& to) const {
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t n = from.rows.n;
    const ops::Rows in = ops::scratch_rows(workspace, n * s_.n_heads, matrices.in_features());
    const ops::Rows out = ops::scratch_rows(workspace, n * s_.n_heads, matrices.out_features());
    auto* starts = reinterpret_cast<std::int64_t*>(workspace.host_bytes((s_.n_heads + 1) * 8));
    for (std::int64_t h = 0; h <= s_.n_heads; ++h) starts[h] = h * n;
    ops::split_heads(workspace, from.rows, from.offset, from.stride, s_.n_heads, in);
    matrices.forward(workspace, in, {starts, static_cast<std::size_t>(s_.n_heads + 1)}, out);
    ops::join_heads(workspace, out, s_.n_heads, to.rows, to.offset, to.stride);
  }

  LatentSizes s_;
  float scale_;
  ops::Linear query_down_, query_, latent_, output_;
  Norm query_norm_, latent_norm_;
  ops::GroupedLinear to_latent_, from_latent_;
};

}  // namespace

LatentSizes::LatentSizes(const ModelConfig& c) : n_heads(c.num_attention_heads) {
  const ConfigKeys keys{c.raw, c.name};
  latent = keys.size("kv_lora_rank"), rotated = keys.size("qk_rope_head_dim"), plain = keys.size("qk_nope_head_dim");
  value = keys.size("v_head_dim");
  if (keys.has("q_lora_rank")) query_latent = keys.size("q_lora_rank");
  check(latent > 0 && rotated > 0 && plain > 0 && value > 0, ErrorKind::kCorruptData,
        "{}: \"kv_lora_rank\", \"qk_rope_head_dim\", \"qk_nope_head_dim\" and \"v_head_dim\" must not be null", c.name);
}

LayerShape LatentSizes::layer_shape() const { return {.n_heads = 1, .key_dim = latent + rotated, .value_dim = latent}; }

std::unique_ptr<const Sublayer> latent_attention(const Loader& load, const ModelConfig& c, const std::string& prefix) {
  return std::make_unique<LatentAttention>(load, c, prefix);
}

}  // namespace mneme
