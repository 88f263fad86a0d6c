#include "mneme/models/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/layer_types.h"
#include "mneme/models/registry.h"
#include "mneme/models/rope.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/pointwise.h"

namespace mneme {

CacheShape cache_shape_of(const ModelConfig& c, DType dtype, at::Device device) {
  CacheShape shape{.layers = {}, .dtype = dtype, .device = device};
  for (std::size_t i = 0; i < c.layer_types.size(); ++i) {
    shape.layers.push_back({.retention = retention_of(c, i),
                            .n_heads = c.num_key_value_heads,
                            .key_dim = c.head_dim,
                            .value_dim = c.head_dim});
  }
  return shape;
}

DecoderParts standard_ends(const Loader& load, const ModelConfig& c, NormKind norm, const EndNames& names) {
  const StoredTensor& table = load.weights.get(names.embedding + ".weight", {c.vocab_size, c.hidden_size});
  DecoderParts parts{.embedding = Embedding(load.weights, table, load.dtype)};
  if (c.head_dim > 0 && !c.learned_positions) parts.ropes = ropes_of(c);
  parts.norm = Norm(load, names.norm, c.hidden_size, c.rms_norm_eps, norm);
  parts.head = load_head(load.weights, table, names.head + ".weight", c.tie_word_embeddings, load.dtype, load.device);
  return parts;
}

std::vector<Residual> pre_norm_layer(Norm attention_norm, std::unique_ptr<const Sublayer> attention,
                                     Norm feed_forward_norm, std::unique_ptr<const Sublayer> feed_forward) {
  std::vector<Residual> layer;
  layer.push_back({.before = std::move(attention_norm), .f = std::move(attention)});
  layer.push_back({.before = std::move(feed_forward_norm), .f = std::move(feed_forward)});
  return layer;
}

std::vector<Residual> pre_norm_layer(const Loader& load, const ModelConfig& c, const std::string& prefix,
                                     std::unique_ptr<const Sublayer> attention,
                                     std::unique_ptr<const Sublayer> feed_forward) {
  return pre_norm_layer(Norm(load, prefix + "input_layernorm", c.hidden_size, c.rms_norm_eps), std::move(attention),
                        Norm(load, prefix + "post_attention_layernorm", c.hidden_size, c.rms_norm_eps),
                        std::move(feed_forward));
}

std::string layer_prefix(std::int64_t index) { return fmt::format("model.layers.{}.", index); }

namespace {

/// For each row the tokens of its sequence as far as they are known.
std::span<const std::int64_t> row_lengths(ops::Workspace& workspace, const TokenBatch& batch) {
  const auto n = static_cast<std::size_t>(batch.n_tokens());
  auto* lengths = reinterpret_cast<std::int64_t*>(workspace.host_bytes(batch.n_tokens() * 8));
  for (std::size_t i = 0; i + 1 < batch.row_starts.size(); ++i) {
    const auto begin = static_cast<std::size_t>(batch.row_starts[i]),
               end = static_cast<std::size_t>(batch.row_starts[i + 1]);
    if (begin == end) continue;
    const std::int64_t seen = batch.positions[end - 1] + 1;
    std::fill(lengths + begin, lengths + end,
              batch.known_lengths.empty() ? seen : std::max(seen, batch.known_lengths[i]));
  }
  return {lengths, n};
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const Loader& load, DecoderParts parts)
    : Model(config, load.dtype, load.device), parts_(std::move(parts)) {
  check(parts_.ropes.size() <= kMaxRopes, ErrorKind::kUnsupported, "{} rotary embeddings in a model, at most {} can be",
        parts_.ropes.size(), kMaxRopes);
}

CacheShape Decoder::cache_shape() const {
  return architecture_of(config().model_type).cache_shape(config(), dtype(), device());
}

std::int64_t Decoder::n_bytes() const {
  std::int64_t total = parts_.head.n_bytes() + (parts_.layer_embeddings ? parts_.layer_embeddings->n_bytes() : 0);
  for (const std::vector<Residual>& layer : parts_.layers) {
    for (const Residual& residual : layer) total += residual.f->n_bytes();
  }
  return total;
}

void Decoder::embed(ops::Workspace& workspace, std::span<const std::int64_t> ids, const ops::Rows& out) const {
  parts_.embedding.forward(workspace, ids, out);
  const bool scaled = parts_.embedding_scale != 1.0f && !parts_.scales_given_embeddings;
  if (scaled) ops::scale(workspace, parts_.embedding_scale, out);
}

void Decoder::token_vectors(ops::Workspace& workspace, const TokenBatch& batch, const ops::Rows& hidden) const {
  if (batch.ids.empty()) {
    ops::copy(workspace, batch.embeddings, hidden);
  } else {
    embed(workspace, batch.ids, hidden);
  }
  const bool scaled = parts_.embedding_scale != 1.0f && parts_.scales_given_embeddings;
  if (scaled) ops::scale(workspace, parts_.embedding_scale, hidden);
  if (!parts_.learned_positions) return;
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows vectors = ops::scratch_rows(workspace, hidden.n, hidden.width);
  parts_.learned_positions->forward(workspace, batch.positions, vectors);
  ops::add(workspace, vectors, hidden);
}

void Decoder::forward(const TokenBatch& batch, Cache& cache, std::span<const std::int64_t> logit_rows,
                      const ops::Rows& logits) const {
  ops::Workspace& workspace = cache.workspace();
  const ops::Workspace::Scope scope(workspace);
  const std::int64_t n = batch.n_tokens(), width = config().hidden_size;
  const ops::Rows hidden = ops::scratch_rows(workspace, n, width);
  const ops::Rows x = ops::scratch_rows(workspace, n, width), y = ops::scratch_rows(workspace, n, width);
  token_vectors(workspace, batch, hidden);

  std::array<ops::Rope::Table, kMaxRopes> angles;
  for (std::size_t i = 0; i < parts_.ropes.size(); ++i) {
    const ops::Rope& rope = parts_.ropes[i];
    angles[i] = rope.table(workspace, batch.positions,
                           rope.by_length() ? row_lengths(workspace, batch) : std::span<const std::int64_t>{});
  }
  Pass pass{.workspace = workspace, .batch = batch, .ropes = parts_.ropes, .angles = angles};
  if (parts_.layer_embeddings) pass.layer_inputs = parts_.layer_embeddings->forward(workspace, batch.ids, hidden);
  const bool keeps = !batch.hidden_states.empty();
  for (std::size_t i = 0; i < parts_.layers.size(); ++i) {
    if (keeps) ops::copy(workspace, hidden, batch.hidden_states[i]);
    CacheLayer& past = cache.layers()[parts_.cache_layers.empty() ? i : parts_.cache_layers[i]];
    for (const Residual& residual : parts_.layers[i]) {
      if (residual.before) residual.before.forward(workspace, hidden, x);
      residual.f->forward(pass, past, residual.before ? x : hidden, y);
      if (residual.after) residual.after.forward(workspace, y, y);
      if (residual.scale != 1.0f) ops::scale(workspace, residual.scale, y);
      ops::add(workspace, y, hidden);
      if (residual.stream_scale != 1.0f) ops::scale(workspace, residual.stream_scale, hidden);
    }
  }
  if (keeps) parts_.norm.forward(workspace, hidden, batch.hidden_states.back());

  const ops::Rows last = ops::scratch_rows(workspace, logits.n, width);
  ops::select_rows(workspace, hidden, logit_rows, last);
  parts_.norm.forward(workspace, last, last);
  parts_.head.forward(workspace, last, logits);
  if (parts_.logit_scale != 1.0f) ops::scale(workspace, parts_.logit_scale, logits);
  if (parts_.logit_softcap != 0.0f) ops::softcap(workspace, parts_.logit_softcap, logits);
}

}  // namespace mneme
