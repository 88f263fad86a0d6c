#include "mneme/models/attention.h"

#include <cmath>
#include <utility>

#include "mneme/ops/norm.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

class Attention final : public Sublayer {
 public:
  explicit Attention(AttentionParts parts) : p_(std::move(parts)) {}

  std::int64_t n_bytes() const override { return p_.qkv.n_bytes() + p_.output.n_bytes(); }

  void forward(const Pass& pass, CacheLayer& cache, const ops::Rows& x, const ops::Rows& y) const override {
    ops::Workspace& workspace = pass.workspace;
    const ops::Workspace::Scope scope(workspace);
    const std::int64_t queries = p_.n_heads * p_.head_dim, keys = p_.n_key_value_heads * p_.head_dim;
    const ops::Rows qkv = ops::scratch_rows(workspace, x.n, p_.qkv.out_features());
    const ops::Rows attended = ops::scratch_rows(workspace, x.n, queries);
    p_.qkv.forward(workspace, x, qkv);
    if (p_.query_norm && !p_.norm_after_rope) normalize(workspace, qkv);
    // Queries and keys lie side by side: one call turns both.
    if (p_.rope) {
      pass.ropes[*p_.rope].apply(workspace, pass.angles[*p_.rope], qkv, 0, p_.n_heads + p_.n_key_value_heads,
                                 p_.head_dim);
    }
    if (p_.query_norm && p_.norm_after_rope) normalize(workspace, qkv);
    if (p_.tuning) tune(pass, qkv);
    if (p_.value_norm) p_.value_norm.heads(workspace, qkv, queries + keys, keys);
    const AttendQuery query{
        .q = qkv, .n_heads = p_.n_heads, .scale = p_.scale, .softcap = p_.softcap, .sinks = p_.sinks};
    if (keys == 0) {
      cache.attention().attend_again(workspace, pass.batch.row_starts, query, attended);
    } else {
      cache.attention().attend(workspace, pass.batch.row_starts,
                               {.keys = qkv, .key_offset = queries, .values = qkv, .value_offset = queries + keys},
                               query, attended);
    }
    if (p_.gated) ops::multiply_sigmoid(workspace, qkv, queries + 2 * keys, attended);
    p_.output.forward(workspace, attended, y);
  }

 private:
  void normalize(ops::Workspace& workspace, const ops::Rows& qkv) const {
    const std::int64_t queries = p_.n_heads * p_.head_dim;
    p_.query_norm.heads(workspace, qkv, 0, queries);
    if (p_.key_norm) p_.key_norm.heads(workspace, qkv, queries, p_.n_key_value_heads * p_.head_dim);
  }

  void tune(const Pass& pass, const ops::Rows& qkv) const {
    auto* factors = reinterpret_cast<float*>(pass.workspace.host_bytes(qkv.n * 4));
    for (std::int64_t i = 0; i < qkv.n; ++i) {
      const auto position = static_cast<double>(pass.batch.positions[static_cast<std::size_t>(i)]);
      factors[i] =
          static_cast<float>(1 + p_.tuning->scale * std::log1p(std::floor((position + 1) / p_.tuning->floor_scale)));
    }
    ops::scale_rows(pass.workspace, factors, 0, p_.n_heads * p_.head_dim, qkv);
  }

  AttentionParts p_;
};

}  // namespace

AttentionParts standard_attention(const Loader& load, const ModelConfig& c, const std::string& prefix,
                                  AttentionBias bias) {
  const std::int64_t queries = c.num_attention_heads * c.head_dim, keys = c.num_key_value_heads * c.head_dim;
  AttentionParts parts = attention_sizes(c);
  parts.qkv = load.linear({{prefix + "q_proj", queries}, {prefix + "k_proj", keys}, {prefix + "v_proj", keys}},
                          c.hidden_size, bias.qkv);
  parts.output = load.linear({{prefix + "o_proj", c.hidden_size}}, queries, bias.output);
  return parts;
}

AttentionParts attention_sizes(const ModelConfig& c) {
  return {.n_heads = c.num_attention_heads,
          .head_dim = c.head_dim,
          .n_key_value_heads = c.num_key_value_heads,
          .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim))};
}

void normalize_heads(AttentionParts& parts, const Loader& load, const ModelConfig& c, const std::string& prefix,
                     NormKind kind) {
  parts.query_norm = Norm(load, prefix + "q_norm", c.head_dim, c.rms_norm_eps, kind);
  parts.key_norm = Norm(load, prefix + "k_norm", c.head_dim, c.rms_norm_eps, kind);
}

std::unique_ptr<const Sublayer> attention(AttentionParts parts) {
  return std::make_unique<Attention>(std::move(parts));
}

}  // namespace mneme
