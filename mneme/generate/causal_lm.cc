#include "mneme/generate/causal_lm.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/presets.h"
#include "mneme/generate/generator.h"
#include "mneme/models/registry.h"
#include "mneme/ops/linear.h"

namespace mneme {
namespace {

/// Real ids of each row; the padding of the mask left out.
std::vector<std::vector<std::int64_t>> real_ids(const EncodedInputs& inputs) {
  check(inputs.input_ids.defined() && inputs.input_ids.dim() == 2 &&
            at::isIntegralType(inputs.input_ids.scalar_type(), false),
        ErrorKind::kInvalidArgument, "input_ids must be [batch, tokens] integers");
  const at::Tensor ids = inputs.input_ids.to(at::kCPU, at::kLong).contiguous();
  const at::Tensor mask =
      inputs.attention_mask.defined() ? inputs.attention_mask.to(at::kCPU, at::kLong).contiguous() : at::ones_like(ids);
  check(mask.sizes() == ids.sizes(), ErrorKind::kInvalidArgument,
        "attention_mask has {} entries, input_ids {}: generate needs one for each", mask.numel(), ids.numel());
  std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(ids.size(0)));
  const auto id = ids.accessor<std::int64_t, 2>(), real = mask.accessor<std::int64_t, 2>();
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    for (std::int64_t j = 0; j < ids.size(1); ++j) {
      if (real[i][j] != 0) rows[static_cast<std::size_t>(i)].push_back(id[i][j]);
    }
  }
  return rows;
}

at::Tensor joined(const at::Tensor& prompts, const std::vector<std::vector<std::int64_t>>& new_tokens,
                  std::int64_t pad) {
  std::size_t most = 0;
  for (const auto& row : new_tokens) most = std::max(most, row.size());
  at::Tensor tail = at::full({std::ssize(new_tokens), static_cast<std::int64_t>(most)}, pad, at::kLong);
  for (std::size_t i = 0; i < new_tokens.size(); ++i) {
    std::copy(new_tokens[i].begin(), new_tokens[i].end(), tail.mutable_data_ptr<std::int64_t>() + i * most);
  }
  return at::cat({prompts.to(at::kLong), tail.to(prompts.device())}, 1);
}

}  // namespace

CausalLM::CausalLM(std::unique_ptr<const Model> model, GenerationConfig generation_config)
    : model_(std::move(model)),
      config_{model_->config(), model_->cache_shape()},
      generation_config_(std::move(generation_config)) {}

ForwardOutput CausalLM::forward(const ForwardInput& input, Cache* cache) const {
  if (cache) return {mneme::forward(*model_, input, *cache)};
  DynamicCache scratch(config_);
  return {mneme::forward(*model_, input, scratch)};
}

GenerateOutput CausalLM::generate(const EncodedInputs& inputs, const GenerateOptions& options, Cache* cache) const {
  const c10::InferenceMode inference;
  check(!cache || !options.cache_implementation, ErrorKind::kInvalidArgument,
        "a cache was passed together with cache_implementation = {}; give one of the two",
        options.cache_implementation.value_or(""));
  check(!cache || options.use_cache.value_or(true), ErrorKind::kInvalidArgument,
        "a cache was passed together with use_cache = false; give one of the two");
  std::vector<std::vector<std::int64_t>> prompts = real_ids(inputs);
  check(!prompts.empty(), ErrorKind::kInvalidArgument, "no prompt was given");
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max<std::int64_t>(longest, std::ssize(prompt));
  const GenerationSettings settings = resolve(options, generation_config_, longest, std::ssize(prompts));
  GenerateOutput output = Generator(*model_, settings, options, std::move(prompts), cache).run();
  output.sequences = joined(inputs.input_ids, output.new_tokens, settings.pad_token_id);
  return output;
}

std::shared_ptr<const CausalLM> AutoModelForCausalLM::from_pretrained(const std::string& path,
                                                                      const LoadOptions& options) {
  const c10::InferenceMode inference;
  std::optional<DType> dtype;
  if (options.dtype) dtype = ops::dtype_of(*options.dtype);
  std::unique_ptr<const Model> model = load_model(path, dtype, options.device);
  GenerationConfig generation = GenerationConfig::from_pretrained(path, model->config());
  return std::make_shared<const CausalLM>(std::move(model), std::move(generation));
}

}  // namespace mneme
