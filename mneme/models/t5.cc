#include <algorithm>
#include <cmath>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/json.h"
#include "mneme/models/architectures.h"
#include "mneme/models/embedding.h"
#include "mneme/models/loading.h"
#include "mneme/models/relative_bias.h"
#include "mneme/ops/activation.h"
#include "mneme/ops/norm.h"

namespace mneme {
namespace {

/// "relu", "gated-gelu": a T5's feed-forward layer.
struct FeedForwardKind {
  ops::Activation activation;
  bool gated;
};

FeedForwardKind feed_forward_of(const ModelConfig& c) {
  const std::string text = json_string(c.raw, "feed_forward_proj", "relu", c.name);
  const std::size_t dash = text.find('-');
  if (dash == text.npos) return {ops::activation_of(text), false};
  const std::string name = text.substr(dash + 1);
  check(text.substr(0, dash) == "gated" && name.find('-') == name.npos, ErrorKind::kCorruptData,
        "{}: \"feed_forward_proj\" is \"{}\", it must be an activation such as relu, or gated- and an activation",
        c.name, text);
  // Parity: T5 1.1 was trained with the tanh form, which transformers knows by another name.
  return {name == "gelu" ? ops::Activation::kGeluTanh : ops::activation_of(name), true};
}

/// A tensor that stands for the embedding under several names: its own if the file has it, else whichever there is.
const StoredTensor& tied(const Weights& weights, const char* name, const ModelConfig& c) {
  for (const char* present :
       {name, "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}) {
    if (weights.contains(present)) return weights.get(present, {c.vocab_size, c.hidden_size});
  }
  return weights.get("shared.weight", {c.vocab_size, c.hidden_size});  // says that it is missing
}

/// T5 and T5 1.1 (Raffel et al. 2019, arXiv:1910.10683; Shazeer 2020, arXiv:2002.05202), Flan-T5 and mT5-like
/// checkpoints: pre-norm blocks without biases, scores that are not scaled, and no positions but a bias of the scores.
///
///   h = h + O(attention(Q x, K x, V x)),  x = norm(h)     the decoder's: causal, then the same over encoder states
///   h = h + W_o(act(W_i y)),              y = norm(h)     gated: act(W_0 y) * (W_1 y)
class T5 final : public Seq2SeqModel {
 public:
  T5(const ModelConfig& c, const Weights& weights, DType dtype, at::Device device)
      : Seq2SeqModel(c, dtype, device),
        feed_forward_(feed_forward_of(c)),
        source_embedding_(weights, tied(weights, "encoder.embed_tokens.weight", c), dtype),
        embedding_(weights, tied(weights, "decoder.embed_tokens.weight", c), dtype),
        encoder_(load_stack(weights, "encoder", encoder_layers(c))),
        decoder_(load_stack(weights, "decoder", c.num_hidden_layers)),
        head_(load_head(weights, tied(weights, "lm_head.weight", c), "lm_head.weight", /*tied=*/true, dtype, device)) {
    // Parity: older files have a bias that no cross-attention reads.
    constexpr const char* kUnread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight";
    if (weights.contains(kUnread)) weights.get(kUnread, bias_shape());
    // Parity: the first T5 scales what the head sees; files of later ones say that they do not.
    const bool by_tying = json_bool(c.raw, "tie_word_embeddings", true, c.name);
    if (json_bool(c.raw, "scale_decoder_outputs", by_tying, c.name))
      decoder_.norm = decoder_.norm / std::sqrt(static_cast<double>(c.hidden_size));
  }

  std::int64_t n_bytes() const override {
    std::int64_t total = head_.n_bytes();
    for (const Stack* stack : {&encoder_, &decoder_}) {
      for (const Block& b : stack->blocks) {
        for (const ops::Linear* linear :
             {&b.qkv, &b.output, &b.cross_query, &b.cross_keys_values, &b.cross_output, &b.expand, &b.contract})
          total += linear->n_bytes();
      }
    }
    return total;
  }

  void encode(const TokenBatch& source, ops::Workspace& workspace, const ops::Rows& states) const override {
    const ops::Workspace::Scope scope(workspace);
    embed(workspace, source_embedding_, source, states);
    CacheShape one_layer = cross_cache_shape();
    one_layer.layers.resize(1);
    Cache scratch(one_layer, {});  // keys and values of one layer at a time
    std::vector<std::int64_t> counts;
    for (std::size_t i = 0; i + 1 < source.row_starts.size(); ++i)
      counts.push_back(source.row_starts[i + 1] - source.row_starts[i]);
    for (const Block& block : encoder_.blocks) {
      scratch.reset();
      scratch.prepare(counts);
      KvLayer& kv = scratch.layers().front().attention();
      self_attention(workspace, block, states, [&](const KeyValueRows& rows, AttendQuery query, const ops::Rows& out) {
        query.relative_bias = encoder_.bias;
        kv.append(workspace, source.row_starts, rows);
        kv.attend_to_all(workspace, source.row_starts, query, out);
      });
      feed_forward(workspace, block, states);
    }
    norm(workspace, states, encoder_.norm, states);
  }

  void write_cross(const ops::Rows& states, std::span<const std::int64_t> row_starts, Cache& cross) const override {
    ops::Workspace& workspace = cross.workspace();
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows both = ops::scratch_rows(workspace, states.n, 2 * inner());
    for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
      decoder_.blocks[i].cross_keys_values.forward(workspace, states, both);
      cross.layers()[i].attention().append(workspace, row_starts,
                                           {.keys = both, .values = both, .value_offset = inner()});
    }
  }

  void decode(const TokenBatch& batch, Cache& cache, const Cache& cross, std::span<const std::int64_t> logit_rows,
              const ops::Rows& logits) const override {
    ops::Workspace& workspace = cache.workspace();
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows hidden = ops::scratch_rows(workspace, batch.n_tokens(), config().hidden_size);
    embed(workspace, embedding_, batch, hidden);
    for (std::size_t i = 0; i < decoder_.blocks.size(); ++i) {
      const Block& block = decoder_.blocks[i];
      self_attention(workspace, block, hidden, [&](const KeyValueRows& rows, AttendQuery query, const ops::Rows& out) {
        query.relative_bias = decoder_.bias;
        cache.layers()[i].attention().attend(workspace, batch.row_starts, rows, query, out);
      });
      cross_attention(workspace, block, cross.layers()[i].attention(), batch.row_starts, hidden);
      feed_forward(workspace, block, hidden);
    }
    const ops::Rows last = ops::scratch_rows(workspace, logits.n, hidden.width);
    ops::select_rows(workspace, hidden, logit_rows, last);
    norm(workspace, last, decoder_.norm, last);
    head_.forward(workspace, last, logits);
  }

 private:
  struct Block {
    at::Tensor attention_norm, cross_norm, feed_forward_norm;
    ops::Linear qkv, output, cross_query, cross_keys_values, cross_output, expand, contract;  // cross_: decoder only
  };
  struct Stack {
    std::vector<Block> blocks;
    at::Tensor norm, bias;  // one bias for all blocks
  };

  static std::int64_t encoder_layers(const ModelConfig& c) {
    const std::int64_t n = json_int(c.raw, "num_layers", 0, c.name);
    check(n >= 1 && n <= 65536, ErrorKind::kCorruptData, "{}: \"num_layers\" is {}, it must be 1 to 65536", c.name, n);
    return n;
  }

  std::vector<std::int64_t> bias_shape() const {
    return {json_int(config().raw, "relative_attention_num_buckets", 0, config().name), config().num_attention_heads};
  }

  /// Width of all heads together.
  std::int64_t inner() const { return config().num_attention_heads * config().head_dim; }

  Stack load_stack(const Weights& weights, const std::string& name, std::int64_t n_layers) const {
    const ModelConfig& c = config();
    Stack stack;
    for (std::int64_t i = 0; i < n_layers; ++i) {
      stack.blocks.push_back(load_block(weights, fmt::format("{}.block.{}.layer.", name, i), name == "decoder"));
    }
    stack.norm = load_vector(weights, name + ".final_layer_norm.weight", c.hidden_size, dtype(), device());
    stack.bias =
        relative_bias_table(load_matrix(weights, name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                        bias_shape(), dtype(), device()),
                            {.max_distance = json_int(c.raw, "relative_attention_max_distance", 0, c.name),
                             .bidirectional = name == "encoder"});
    return stack;
  }

  Block load_block(const Weights& weights, const std::string& prefix, bool of_decoder) const {
    const ModelConfig& c = config();
    const std::int64_t width = c.hidden_size, wide = c.intermediate_size;
    const auto linear = [&](const std::string& layer, std::initializer_list<const char*> names, std::int64_t out,
                            std::int64_t in) {
      std::vector<LinearPart> parts;
      for (const char* name : names) parts.push_back({prefix + layer + name, out});
      return load_linear(weights, parts, in, /*bias=*/false, dtype(), device());
    };
    const auto norm = [&](const std::string& layer) {
      return load_vector(weights, prefix + layer + ".layer_norm.weight", width, dtype(), device());
    };
    Block block;
    block.attention_norm = norm("0");
    block.qkv = linear("0.SelfAttention.", {"q", "k", "v"}, inner(), width);
    block.output = linear("0.SelfAttention.", {"o"}, width, inner());
    if (of_decoder) {
      block.cross_norm = norm("1");
      block.cross_query = linear("1.EncDecAttention.", {"q"}, inner(), width);
      block.cross_keys_values = linear("1.EncDecAttention.", {"k", "v"}, inner(), width);
      block.cross_output = linear("1.EncDecAttention.", {"o"}, width, inner());
    }
    const std::string last = of_decoder ? "2" : "1", dense = last + ".DenseReluDense.";
    block.feed_forward_norm = norm(last);
    block.expand =
        feed_forward_.gated ? linear(dense, {"wi_0", "wi_1"}, wide, width) : linear(dense, {"wi"}, wide, width);
    block.contract = linear(dense, {"wo"}, width, wide);
    return block;
  }

  static void embed(ops::Workspace& workspace, const Embedding& embedding, const TokenBatch& batch,
                    const ops::Rows& out) {
    if (batch.ids.empty()) {
      ops::copy(workspace, batch.embeddings, out);
    } else {
      embedding.forward(workspace, batch.ids, out);
    }
  }

  void norm(ops::Workspace& workspace, const ops::Rows& x, const at::Tensor& weight, const ops::Rows& y) const {
    ops::rms_norm(workspace, x, weight, static_cast<float>(config().rms_norm_eps), y);
  }

  /// attend(keys and values, queries, out) is what the encoder and the decoder do differently.
  template <class Attend>
  void self_attention(ops::Workspace& workspace, const Block& block, const ops::Rows& hidden,
                      const Attend& attend) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
    const ops::Rows qkv = ops::scratch_rows(workspace, hidden.n, 3 * inner());
    const ops::Rows attended = ops::scratch_rows(workspace, hidden.n, inner());
    norm(workspace, hidden, block.attention_norm, x);
    block.qkv.forward(workspace, x, qkv);
    attend({.keys = qkv, .key_offset = inner(), .values = qkv, .value_offset = 2 * inner()},
           {.q = qkv, .n_heads = config().num_attention_heads}, attended);
    block.output.forward(workspace, attended, x);
    ops::add(workspace, x, hidden);
  }

  void cross_attention(ops::Workspace& workspace, const Block& block, const KvLayer& kv,
                       std::span<const std::int64_t> row_starts, const ops::Rows& hidden) const {
    const ops::Workspace::Scope scope(workspace);
    const ops::Rows x = ops::scratch_rows(workspace, hidden.n, hidden.width);
    const ops::Rows queries = ops::scratch_rows(workspace, hidden.n, inner());
    const ops::Rows attended = ops::scratch_rows(workspace, hidden.n, inner());
    norm(workspace, hidden, block.cross_norm, x);
    block.cross_query.forward(workspace, x, queries);
    kv.attend_to_all(workspace, row_starts, {.q = queries, .n_heads = config().num_attention_heads}, attended);
    block.cross_output.forward(workspace, attended, x);
    ops::add(workspace, x, hidden);
  }

  /// In slices of rows, which bound the memory that a long source takes and change no bit.
  void feed_forward(ops::Workspace& workspace, const Block& block, const ops::Rows& hidden) const {
    constexpr std::int64_t kRowsAtOnce = 2048;
    for (std::int64_t first = 0; first < hidden.n; first += kRowsAtOnce) {
      const ops::Workspace::Scope scope(workspace);
      const ops::Rows h{hidden.row(first), std::min(kRowsAtOnce, hidden.n - first), hidden.width};
      const ops::Rows x = ops::scratch_rows(workspace, h.n, h.width);
      const ops::Rows wide = ops::scratch_rows(workspace, h.n, block.expand.out_features());
      ops::Rows active = wide;
      norm(workspace, h, block.feed_forward_norm, x);
      block.expand.forward(workspace, x, wide);
      if (feed_forward_.gated) {
        active = ops::scratch_rows(workspace, h.n, block.contract.in_features());
        ops::gated(workspace, feed_forward_.activation, wide, active);
      } else {
        ops::activate(workspace, feed_forward_.activation, wide);
      }
      block.contract.forward(workspace, active, x);
      ops::add(workspace, x, h);
    }
  }

  FeedForwardKind feed_forward_;
  Embedding source_embedding_, embedding_;
  Stack encoder_, decoder_;
  ops::Linear head_;
};

}  // namespace

std::unique_ptr<Seq2SeqModel> build_t5(const ModelConfig& config, const Weights& weights, DType dtype,
                                       at::Device device) {
  return std::make_unique<T5>(config, weights, dtype, device);
}

}  // namespace mneme
