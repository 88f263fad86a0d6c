#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/generate/auto_tokenizer.h"
#include "mneme/models/config.h"

namespace mneme {

/// The real ids of each row of input_ids [B, T], the padding of the mask ([B, T], or undefined: none) left out.
/// Throws Error(kInvalidArgument) for other shapes, and for a mask that does not have one entry for each id.
std::vector<std::vector<std::int64_t>> real_ids(const at::Tensor& input_ids, const at::Tensor& attention_mask);

/// What a sequence starts from: the real tokens of one row.
struct PromptTokens {
  std::vector<std::int64_t> ids = {};        ///< [n], or empty where vectors alone were given
  at::Tensor vectors = {};                   ///< [n, E] float32 on the model's device, or undefined
  std::vector<std::int64_t> positions = {};  ///< [n], or empty: counted from 0

  std::int64_t length() const { return vectors.defined() ? vectors.size(0) : std::ssize(ids); }
};

/// The prompts of a call for a model of this config. Throws Error(kInvalidArgument) as real_ids() and flatten() do, and
/// for ids and vectors of different shapes.
std::vector<PromptTokens> prompts_of(const EncodedInputs& inputs, const ModelConfig& config, at::Device device);

/// Throws Error(kInvalidArgument) for a prompt without a token and for one longer than the model's positions.
void check_length(std::int64_t length, const ModelConfig& config);

/// Throws Error(kInvalidArgument) for a prompt that is empty, longer than the model's positions (both numbers), or
/// holds an id outside the vocabulary.
void check_prompt(const std::vector<std::int64_t>& prompt, const ModelConfig& config);

/// Tokens of the longest row; 0 if there is none.
std::int64_t longest(const std::vector<std::vector<std::int64_t>>& rows);
std::int64_t longest(const std::vector<PromptTokens>& prompts);

/// prompts [B, T] as given, then each row's new tokens, then `pad`: [B * n, T + most new tokens] int64 on the prompts'
/// device, where new_tokens holds n continuations of each prompt, side by side.
at::Tensor joined(const at::Tensor& prompts, const std::vector<std::vector<std::int64_t>>& new_tokens,
                  std::int64_t pad);

}  // namespace mneme
