#include "mneme/generate/causal_lm.h"

#include <c10/core/InferenceMode.h>

#include <optional>

#include "mneme/base/error.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/fallback.h"
#include "mneme/generate/generator.h"
#include "mneme/generate/prompts.h"
#include "mneme/models/registry.h"
#include "mneme/ops/linear.h"

namespace mneme {

CausalLM::CausalLM(std::unique_ptr<const Model> model, GenerationConfig generation_config)
    : model_(std::move(model)),
      config_{model_->config(), model_->cache_shape()},
      generation_config_(std::move(generation_config)) {}

ForwardOutput CausalLM::forward(const ForwardInput& input, Cache* cache) const {
  std::optional<Cache> own;
  if (!cache) cache = &own.emplace(DynamicCache(config_));
  ForwardOutput output;
  output.logits = mneme::forward(*model_, input, *cache, input.output_hidden_states ? &output.hidden_states : nullptr);
  return output;
}

at::Tensor CausalLM::embed(const at::Tensor& input_ids) const {
  const c10::InferenceMode inference;
  const RaggedInput tokens = flatten({.input_ids = input_ids}, config_, device(), {});
  const std::int64_t width = config_.hidden_size;
  at::Tensor vectors =
      at::empty({tokens.n_sequences, tokens.n_columns, width}, at::TensorOptions().dtype(at::kFloat).device(device()));
  ops::Workspace workspace(device());
  model_->embed(workspace, tokens.ids, {static_cast<float*>(vectors.data_ptr()), std::ssize(tokens.ids), width});
  return vectors.to(input_ids.device());
}

GenerateOutput CausalLM::generate(const EncodedInputs& inputs, const GenerateOptions& options, Cache* cache) const {
  const c10::InferenceMode inference;
  check_cache_choice(options, cache != nullptr);
  std::vector<PromptTokens> prompts = prompts_of(inputs, config_, device());
  check(!prompts.empty(), ErrorKind::kInvalidArgument, "no prompt was given");
  const GenerationSettings settings = resolve(options, generation_config_, longest(prompts), std::ssize(prompts));
  GenerateOutput output = cache ? Generator(*model_, settings, options, std::move(prompts), cache).run()
                                : with_fallback(settings, options, [&](const auto& by, const auto& calling) {
                                    return Generator(*model_, by, calling, prompts, nullptr).run();
                                  });
  const at::Tensor& vectors = inputs.inputs_embeds;
  const at::Tensor ids = inputs.input_ids.defined()
                             ? inputs.input_ids
                             : at::empty({vectors.size(0), 0}, vectors.options().dtype(at::kLong));
  output.sequences = joined(ids, output.new_tokens, settings.pad_token_id);
  return output;
}

std::shared_ptr<const CausalLM> AutoModelForCausalLM::from_pretrained(const std::string& path,
                                                                      const LoadOptions& options) {
  const c10::InferenceMode inference;
  std::unique_ptr<const Model> model = load_model(path, arithmetic_of(options.dtype), options.device);
  GenerationConfig generation = GenerationConfig::from_pretrained(path, model->config());
  return std::make_shared<const CausalLM>(std::move(model), std::move(generation));
}

}  // namespace mneme
