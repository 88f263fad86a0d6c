#include "mneme/models/gguf_names.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

using Heads = CheckpointName::Heads;

/// Stems without "blk.N." and without ".weight" or ".bias"; whole names where either side has neither.
struct Stem {
  std::string_view gguf, checkpoint;
};

constexpr Stem kModelStems[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr Stem kMambaModelStems[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output", "lm_head"},
};

constexpr Stem kLfm2ModelStems[] = {
    {"token_embd", "model.embed_tokens"},
    {"token_embd_norm", "model.embedding_norm"},
    {"output", "lm_head"},
};

constexpr Stem kLlamaLayerStems[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr Stem kGemmaLayerStems[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

constexpr Stem kPhi3LayerStems[] = {
    {"attn_norm", "input_layernorm"},         {"attn_qkv", "self_attn.qkv_proj"}, {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"}, {"ffn_up", "mlp.gate_up_proj"},     {"ffn_down", "mlp.down_proj"},
};

constexpr Stem kQwen3MoeLayerStems[] = {
    {"attn_norm", "input_layernorm"},       {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},         {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.gate"},           {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"}, {"ffn_down_exps", "mlp.experts.down_proj"},
};

constexpr Stem kGptOssLayerStems[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
};

constexpr Stem kMambaLayerStems[] = {
    {"attn_norm", "norm"},     {"ssm_in", "mixer.in_proj"},   {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"}, {"ssm_dt", "mixer.dt_proj"},   {"ssm_a", "mixer.A"},
    {"ssm_d", "mixer.D"},      {"ssm_out", "mixer.out_proj"},
};

constexpr Stem kLfm2LayerStems[] = {
    {"attn_norm", "operator_norm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.out_proj"},
    {"attn_q_norm", "self_attn.q_layernorm"},
    {"attn_k_norm", "self_attn.k_layernorm"},
    {"shortconv.in_proj", "conv.in_proj"},
    {"shortconv.conv", "conv.conv"},
    {"shortconv.out_proj", "conv.out_proj"},
    {"ffn_norm", "ffn_norm"},
    {"ffn_gate", "feed_forward.w1"},
    {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"},
};

std::string_view find(std::span<const Stem> stems, std::string_view gguf) {
  const auto it = std::ranges::find(stems, gguf, &Stem::gguf);
  return it == stems.end() ? std::string_view{} : it->checkpoint;
}

}  // namespace

struct GgufArchitecture {
  std::string_view name;
  std::span<const Stem> layer_stems;
  bool queries_and_keys_permuted = false;
  std::span<const Stem> model_stems = kModelStems;
  std::string_view layers = "model.layers";
};

namespace {

// Mistral's models are written as "llama".
constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .layer_stems = kLlamaLayerStems, .queries_and_keys_permuted = true},
    {.name = "gemma2", .layer_stems = kGemmaLayerStems},
    {.name = "gemma3", .layer_stems = kGemmaLayerStems},
    {.name = "gpt-oss", .layer_stems = kGptOssLayerStems},
    {.name = "lfm2", .layer_stems = kLfm2LayerStems, .model_stems = kLfm2ModelStems},
    {.name = "mamba", .layer_stems = kMambaLayerStems, .model_stems = kMambaModelStems, .layers = "backbone.layers"},
    {.name = "phi3", .layer_stems = kPhi3LayerStems},
    {.name = "qwen3moe", .layer_stems = kQwen3MoeLayerStems},
    {.name = "qwen2", .layer_stems = kLlamaLayerStems},
    {.name = "qwen3", .layer_stems = kLlamaLayerStems},
};

}  // namespace

GgufNames::GgufNames(std::string_view architecture, std::string_view file)
    : architecture_(std::ranges::find(kArchitectures, architecture, &GgufArchitecture::name)) {
  if (architecture_ != std::end(kArchitectures)) return;
  std::vector<std::string_view> known;
  for (const GgufArchitecture& row : kArchitectures) known.push_back(row.name);
  throw Error(ErrorKind::kUnsupported, "{}: the GGUF architecture \"{}\" is not supported; supported are {}", file,
              printable(architecture), fmt::join(known, ", "));
}

CheckpointName GgufNames::operator()(std::string_view gguf_name) const {
  const CheckpointName unknown{.name = std::string(gguf_name)};
  std::span<const Stem> stems = architecture_->model_stems;
  std::string_view rest = gguf_name;
  std::string prefix;
  constexpr std::string_view kBlock = "blk.";
  if (rest.starts_with(kBlock)) {
    rest.remove_prefix(kBlock.size());
    const std::string_view layer = rest.substr(0, rest.find('.'));
    if (layer.empty() || layer.size() == rest.size() || layer.find_first_not_of("0123456789") != layer.npos) {
      return unknown;
    }
    rest.remove_prefix(layer.size() + 1);
    stems = architecture_->layer_stems;
    prefix = fmt::format("{}.{}.", architecture_->layers, layer);
  }
  if (const std::string_view whole = find(stems, rest); !whole.empty()) return {.name = prefix + std::string(whole)};

  const std::size_t dot = rest.rfind('.');
  if (dot == rest.npos) return unknown;
  const std::string_view stem = rest.substr(0, dot), kind = rest.substr(dot + 1), name = find(stems, stem);
  if (name.empty() || (kind != "weight" && kind != "bias")) return unknown;
  const bool permuted = architecture_->queries_and_keys_permuted && (stem == "attn_q" || stem == "attn_k");
  return {.name = fmt::format("{}{}.{}", prefix, name, kind),
          .permuted = !permuted          ? Heads::kNotPermuted
                      : stem == "attn_q" ? Heads::kQuery
                                         : Heads::kKeyValue,
          .depthwise = kind == "weight" && (stem == "ssm_conv1d" || stem == "shortconv.conv")};
}

}  // namespace mneme
