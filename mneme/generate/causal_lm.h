#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "mneme/cache/cache.h"
#include "mneme/generate/auto_tokenizer.h"
#include "mneme/generate/config.h"
#include "mneme/generate/output.h"
#include "mneme/generate/pretrained.h"
#include "mneme/models/model.h"
#include "mneme/models/ragged.h"

namespace mneme {

/// A causal language model ready to generate. Constant after loading: threads may share it, each with its own cache.
class CausalLM {
 public:
  CausalLM(std::unique_ptr<const Model> model, GenerationConfig generation_config);

  const LoadedConfig& config() const noexcept { return config_; }
  const GenerationConfig& generation_config() const noexcept { return generation_config_; }
  const Model& model() const noexcept { return *model_; }
  at::Device device() const noexcept { return model_->device(); }

  /// One pass over new tokens; without a cache, over the whole text. See ForwardInput. Runs in inference mode.
  ForwardOutput forward(const ForwardInput& input, Cache* cache = nullptr) const;

  /// Token vectors [B, T, E] float32 of ids [B, T], on their device: what inputs_embeds are made from.
  at::Tensor embed(const at::Tensor& input_ids) const;

  /// Continues texts. Of inputs_embeds without input_ids, `sequences` holds the new ids alone. With a cache, input_ids
  /// are the whole texts: what the cache already holds of them is not computed again, and afterwards it holds
  /// everything but the last new token. Options are never changed. Throws Error(kInvalidArgument) for input or options
  /// that cannot be, before the first token.
  GenerateOutput generate(const EncodedInputs& inputs, const GenerateOptions& options = {},
                          Cache* cache = nullptr) const;
  GenerateOutput generate(const at::Tensor& input_ids, const GenerateOptions& options = {},
                          Cache* cache = nullptr) const {
    return generate(EncodedInputs{.input_ids = input_ids, .attention_mask = {}}, options, cache);
  }

 private:
  std::unique_ptr<const Model> model_;
  LoadedConfig config_;
  GenerationConfig generation_config_;
};

/// Loads models under the name that users of transformers know.
struct AutoModelForCausalLM {
  /// A folder as save_pretrained writes it, or a .gguf file. Throws Error(kIo / kCorruptData / kUnsupported).
  static std::shared_ptr<const CausalLM> from_pretrained(const std::string& path, const LoadOptions& options = {});
};

}  // namespace mneme
