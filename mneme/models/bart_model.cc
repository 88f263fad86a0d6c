#include "mneme/models/bart_model.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/models/config_keys.h"
#include "mneme/ops/pointwise.h"

namespace mneme {
namespace {

constexpr double kLayerNormEps = 1e-5;

/// Sines in the first half of a row, cosines in the second. Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5.
at::Tensor sinusoids(std::int64_t n, std::int64_t width, at::Device device) {
  at::Tensor table = at::empty({n, width}, at::kFloat);
  const std::int64_t n_sines = (width + 1) / 2;
  for (std::int64_t i = 0; i < n; ++i) {
    float* row = table.mutable_data_ptr<float>() + i * width;
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t pair = j < n_sines ? j : j - n_sines;
      const double angle =
          static_cast<double>(i) / std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(width));
      row[j] = static_cast<float>(j < n_sines ? std::sin(angle) : std::cos(angle));
    }
  }
  return table.to(device);
}

/// A tensor that stands for the embedding under several names: its own if the file has it, else whichever there is.
const StoredTensor& embedding_table(const Weights& weights, const std::string& own, const ModelConfig& c) {
  const std::vector<std::int64_t> shape = {c.vocab_size, c.hidden_size};
  const StoredTensor* found = nullptr;
  for (const std::string& name :
       {own, std::string("model.shared.weight"), std::string("model.encoder.embed_tokens.weight"),
        std::string("model.decoder.embed_tokens.weight"), std::string("lm_head.weight")}) {
    if (!weights.contains(name)) continue;
    const StoredTensor& stored = weights.get(name, shape);
    if (!found) found = &stored;
  }
  return found ? *found : weights.get("model.shared.weight", shape);  // says that it is missing
}

}  // namespace

Bart::Bart(const ModelConfig& c, const Loader& load, const BartOptions& options)
    : Seq2SeqModel(c, load.dtype, load.device),
      o_(options),
      activation_(ops::activation_of(c.hidden_act)),
      scale_(json_bool(c.raw, "scale_embedding", false, c.name)
                 ? static_cast<float>(std::sqrt(static_cast<double>(c.hidden_size)))
                 : 1.0f),
      encoder_(load_stack(load, "model.encoder.", encoder_sizes(), false)),
      decoder_(load_stack(load, "model.decoder.",
                          {c.num_hidden_layers, c.num_attention_heads, c.intermediate_size, c.max_position_embeddings},
                          true)) {
  const StoredTensor& head = embedding_table(load.weights, c.tie_word_embeddings ? "model.shared.weight" : o_.head, c);
  const bool biased = load.weights.contains("final_logits_bias");
  head_ =
      load.linear(rows_of(head), biased ? load.matrix("final_logits_bias", {1, c.vocab_size}).flatten() : at::Tensor());
}

Bart::StackSizes Bart::encoder_sizes() const {
  const ModelConfig& c = config();
  const ConfigKeys keys{c.raw, c.name};
  const StackSizes sizes{keys.size("encoder_layers", 0, 65536), keys.size("encoder_attention_heads"),
                         keys.size("encoder_ffn_dim"), keys.size(o_.encoder_positions)};
  check(sizes.n_layers > 0 && sizes.n_heads > 0 && sizes.inner > 0 && c.hidden_size % sizes.n_heads == 0,
        ErrorKind::kCorruptData, "{}: a hidden size of {} does not divide into {} heads (\"encoder_attention_heads\")",
        c.name, c.hidden_size, sizes.n_heads);
  return sizes;
}

std::int64_t Bart::n_bytes() const {
  std::int64_t total = head_.n_bytes();
  for (const Stack* stack : {&encoder_, &decoder_}) {
    for (const Block& b : stack->blocks) {
      for (const ops::Linear* linear :
           {&b.qkv, &b.output, &b.cross_query, &b.cross_keys_values, &b.cross_output, &b.expand, &b.contract}) {
        total += linear->n_bytes();
      }
    }
  }
  return total;
}

/// h <- h + f(norm(h)), or h <- norm(h + f(h)).
template <class F>
void Bart::sublayer(ops::Workspace& workspace, const Norm& norm, const ops::Rows& hidden, F&& f) const {
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
  const ops::Rows y = ops::scratch_rows(workspace, hidden.n, hidden.width);
  if (o_.norm_first) norm.forward(workspace, hidden, x);
  f(o_.norm_first ? x : hidden, y);
  ops::add(workspace, y, hidden);
  if (!o_.norm_first) norm.forward(workspace, hidden, hidden);
}

/// attend(keys and values, queries, out) is what the encoder and the decoder do differently.
template <class Attend>
void Bart::self_attention(ops::Workspace& workspace, const Block& block, const Stack& stack, const ops::Rows& x,
                          const ops::Rows& y, const Attend& attend) const {
  const ops::Workspace::Scope scope(workspace);
  const std::int64_t width = x.width;
  const ops::Rows qkv = ops::scratch_rows(workspace, x.n, 3 * width), out = ops::scratch_rows(workspace, x.n, width);
  block.qkv.forward(workspace, x, qkv);
  attend({.keys = qkv, .key_offset = width, .values = qkv, .value_offset = 2 * width},
         {.q = qkv, .n_heads = stack.n_heads, .scale = stack.scale}, out);
  block.output.forward(workspace, out, y);
}

void Bart::feed_forward(ops::Workspace& workspace, const Block& block, const ops::Rows& hidden) const {
  sublayer(workspace, block.feed_forward_norm, hidden, [&](const ops::Rows& x, const ops::Rows& y) {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows wide = ops::scratch_rows(workspace, x.n, block.expand.out_features());
    block.expand.forward(workspace, x, wide);
    ops::activate(workspace, activation_, wide);
    block.contract.forward(workspace, wide, y);
  });
}

void Bart::encode(const TokenBatch& source, ops::Workspace& workspace, const ops::Rows& states) const {
  const ops::Workspace::Scope scope(workspace);
  std::vector<std::int64_t> counts, positions;
  for (std::size_t i = 0; i + 1 < source.row_starts.size(); ++i) {
    counts.push_back(source.row_starts[i + 1] - source.row_starts[i]);
    for (std::int64_t p = 0; p < counts.back(); ++p) positions.push_back(p);
  }
  embed(workspace, encoder_, source, positions, states);
  const std::int64_t head = config().hidden_size / encoder_.n_heads;
  Cache scratch({.layers = {{.n_heads = encoder_.n_heads, .key_dim = head, .value_dim = head}},
                 .dtype = dtype(),
                 .device = device()},
                {});  // keys and values of one layer at a time
  for (const Block& block : encoder_.blocks) {
    scratch.reset();
    scratch.prepare(counts);
    KvLayer& kv = scratch.layers().front().attention();
    sublayer(workspace, block.attention_norm, states, [&](const ops::Rows& x, const ops::Rows& y) {
      self_attention(workspace, block, encoder_, x, y,
                     [&](const KeyValueRows& rows, const AttendQuery& query, const ops::Rows& out) {
                       kv.append(workspace, source.row_starts, rows);
                       kv.attend_to_all(workspace, source.row_starts, query, out);
                     });
    });
    feed_forward(workspace, block, states);
  }
  if (encoder_.norm) encoder_.norm.forward(workspace, states, states);
}

void Bart::write_cross(const ops::Rows& states, std::span<const std::int64_t> row_starts, Cache& cross) const {
  ops::Workspace& workspace = cross.workspace();
  const ops::Workspace::Scope scope(workspace);
  const std::int64_t width = config().hidden_size;
  const ops::Rows both = ops::scratch_rows(workspace, states.n, 2 * width);
  for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
    decoder_.blocks[i].cross_keys_values.forward(workspace, states, both);
    cross.layers()[i].attention().append(workspace, row_starts, {.keys = both, .values = both, .value_offset = width});
  }
}

void Bart::decode(const TokenBatch& batch, Cache& cache, const Cache& cross, std::span<const std::int64_t> logit_rows,
                  const ops::Rows& logits) const {
  ops::Workspace& workspace = cache.workspace();
  const ops::Workspace::Scope scope(workspace);
  const ops::Rows hidden = ops::scratch_rows(workspace, batch.n_tokens(), config().hidden_size);
  embed(workspace, decoder_, batch, batch.positions, hidden);
  for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
    const Block& block = decoder_.blocks[i];
    sublayer(workspace, block.attention_norm, hidden, [&](const ops::Rows& x, const ops::Rows& y) {
      self_attention(workspace, block, decoder_, x, y,
                     [&](const KeyValueRows& rows, const AttendQuery& query, const ops::Rows& out) {
                       cache.layers()[i].attention().attend(workspace, batch.row_starts, rows, query, out);
                     });
    });
    sublayer(workspace, block.cross_norm, hidden, [&](const ops::Rows& x, const ops::Rows& y) {
      const ops::Workspace::Scope inner(workspace);
      const ops::Rows queries = ops::scratch_rows(workspace, x.n, x.width),
                      out = ops::scratch_rows(workspace, x.n, x.width);
      block.cross_query.forward(workspace, x, queries);
      cross.layers()[i].attention().attend_to_all(
          workspace, batch.row_starts, {.q = queries, .n_heads = decoder_.n_heads, .scale = decoder_.scale}, out);
      block.cross_output.forward(workspace, out, y);
    });
    feed_forward(workspace, block, hidden);
  }
  const ops::Rows last = ops::scratch_rows(workspace, logits.n, hidden.width);
  ops::select_rows(workspace, hidden, logit_rows, last);
  if (decoder_.norm) decoder_.norm.forward(workspace, last, last);
  head_.forward(workspace, last, logits);
}

Bart::Stack Bart::load_stack(const Loader& load, const std::string& prefix, const StackSizes& sizes,
                             bool of_decoder) const {
  const ModelConfig& c = config();
  const std::int64_t offset = o_.spare_positions ? 2 : 0, n_positions = sizes.n_positions + offset;
  const std::string positions = prefix + "embed_positions.weight";
  const auto norm = [&](const char* name) {
    return Norm(load, prefix + name, c.hidden_size, kLayerNormEps, NormKind::kLayer);
  };
  const bool computed = o_.sinusoids && !load.weights.contains(positions);  // newer files leave them out
  Stack stack{.embedding = {},
              .n_heads = sizes.n_heads,
              .scale = 1.0f / std::sqrt(static_cast<float>(c.hidden_size / sizes.n_heads)),
              .positions = computed ? sinusoids(n_positions, c.hidden_size, load.device)
                                    : load.matrix(positions, {n_positions, c.hidden_size}),
              .offset = offset,
              .embedding_norm = o_.embedding_norm ? norm("layernorm_embedding") : Norm(),
              .norm = o_.norm_first ? norm("layer_norm") : Norm(),
              .blocks = {}};
  if (of_decoder || o_.encoder_reads_ids) {
    const StoredTensor& table = embedding_table(load.weights, prefix + "embed_tokens.weight", c);
    stack.embedding.emplace(load.weights, table, load.dtype);
  }
  for (std::int64_t i = 0; i < sizes.n_layers; ++i) {
    stack.blocks.push_back(load_block(load, fmt::format("{}layers.{}.", prefix, i), sizes.inner, of_decoder));
  }
  return stack;
}

Bart::Block Bart::load_block(const Loader& load, const std::string& prefix, std::int64_t inner, bool of_decoder) const {
  const std::int64_t width = config().hidden_size;
  const auto linear = [&](std::initializer_list<const char*> names, std::int64_t out, std::int64_t in) {
    std::vector<LinearPart> parts;
    for (const char* name : names)
      parts.push_back({prefix + name, out, o_.key_bias || !std::string_view(name).ends_with("k_proj")});
    return load.linear(parts, in, /*bias=*/true);
  };
  const auto norm = [&](const char* name) { return Norm(load, prefix + name, width, kLayerNormEps, NormKind::kLayer); };
  Block block;
  block.attention_norm = norm("self_attn_layer_norm");
  block.qkv = linear({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, width, width);
  block.output = linear({"self_attn.out_proj"}, width, width);
  if (of_decoder) {
    block.cross_norm = norm("encoder_attn_layer_norm");
    block.cross_query = linear({"encoder_attn.q_proj"}, width, width);
    block.cross_keys_values = linear({"encoder_attn.k_proj", "encoder_attn.v_proj"}, width, width);
    block.cross_output = linear({"encoder_attn.out_proj"}, width, width);
  }
  block.feed_forward_norm = norm("final_layer_norm");
  block.expand = linear({"fc1"}, inner, width);
  block.contract = linear({"fc2"}, width, inner);
  return block;
}

void Bart::embed(ops::Workspace& workspace, const Stack& stack, const TokenBatch& batch,
                 std::span<const std::int64_t> positions, const ops::Rows& out) const {
  const ops::Workspace::Scope scope(workspace);
  if (batch.ids.empty()) {
    ops::copy(workspace, batch.embeddings, out);
  } else {
    stack.embedding->forward(workspace, batch.ids, out);
    if (scale_ != 1.0f) ops::scale(workspace, scale_, out);
  }
  auto* rows = reinterpret_cast<std::int64_t*>(workspace.host_bytes(out.n * 8));
  for (std::int64_t i = 0; i < out.n; ++i) rows[i] = positions[static_cast<std::size_t>(i)] + stack.offset;
  const ops::Rows vectors = ops::scratch_rows(workspace, out.n, out.width);
  const ops::Rows table{static_cast<float*>(stack.positions.data_ptr()), stack.positions.size(0), out.width};
  ops::select_rows(workspace, table, {rows, static_cast<std::size_t>(out.n)}, vectors);
  ops::add(workspace, vectors, out);
  if (stack.embedding_norm) stack.embedding_norm.forward(workspace, out, out);
}

}  // namespace mneme
