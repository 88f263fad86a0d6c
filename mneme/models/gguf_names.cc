#include "mneme/models/gguf_names.h"

#include <algorithm>
#include <span>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/printable.h"

namespace mneme {
namespace {

using Heads = CheckpointName::Heads;

/// Stems without "blk.N." and without ".weight" or ".bias".
struct Stem {
  std::string_view gguf, checkpoint;
};

constexpr Stem kModelStems[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
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

std::string_view find(std::span<const Stem> stems, std::string_view gguf) {
  const auto it = std::ranges::find(stems, gguf, &Stem::gguf);
  return it == stems.end() ? std::string_view{} : it->checkpoint;
}

}  // namespace

struct GgufArchitecture {
  std::string_view name;
  std::span<const Stem> layer_stems;
  bool queries_and_keys_permuted;
};

namespace {

// Mistral's models are written as "llama".
constexpr GgufArchitecture kArchitectures[] = {
    {.name = "llama", .layer_stems = kLlamaLayerStems, .queries_and_keys_permuted = true},
    {.name = "gemma2", .layer_stems = kGemmaLayerStems, .queries_and_keys_permuted = false},
    {.name = "gemma3", .layer_stems = kGemmaLayerStems, .queries_and_keys_permuted = false},
    {.name = "phi3", .layer_stems = kPhi3LayerStems, .queries_and_keys_permuted = false},
    {.name = "qwen3moe", .layer_stems = kQwen3MoeLayerStems, .queries_and_keys_permuted = false},
    {.name = "qwen2", .layer_stems = kLlamaLayerStems, .queries_and_keys_permuted = false},
    {.name = "qwen3", .layer_stems = kLlamaLayerStems, .queries_and_keys_permuted = false},
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
  const std::size_t dot = gguf_name.rfind('.');
  if (dot == std::string_view::npos) return unknown;
  std::string_view stem = gguf_name.substr(0, dot);
  const std::string_view kind = gguf_name.substr(dot + 1);
  if (kind != "weight" && kind != "bias") return unknown;
  if (const std::string_view name = find(kModelStems, stem); !name.empty()) {
    return {.name = fmt::format("{}.{}", name, kind)};
  }

  constexpr std::string_view kBlock = "blk.";
  if (!stem.starts_with(kBlock)) return unknown;
  stem.remove_prefix(kBlock.size());
  const std::string_view layer = stem.substr(0, stem.find('.'));
  if (layer.empty() || layer.size() == stem.size() || layer.find_first_not_of("0123456789") != layer.npos) {
    return unknown;
  }
  stem.remove_prefix(layer.size() + 1);
  const std::string_view name = find(architecture_->layer_stems, stem);
  if (name.empty()) return unknown;
  const bool permuted = architecture_->queries_and_keys_permuted && (stem == "attn_q" || stem == "attn_k");
  return {.name = fmt::format("model.layers.{}.{}.{}", layer, name, kind),
          .permuted = !permuted          ? Heads::kNotPermuted
                      : stem == "attn_q" ? Heads::kQuery
                                         : Heads::kKeyValue};
}

}  // namespace mneme
