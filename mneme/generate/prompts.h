#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/models/config.h"

namespace mneme {

/// The real ids of each row of input_ids [B, T], the padding of the mask ([B, T], or undefined: none) left out.
/// Throws Error(kInvalidArgument) for other shapes, and for a mask that does not have one entry for each id.
std::vector<std::vector<std::int64_t>> real_ids(const at::Tensor& input_ids, const at::Tensor& attention_mask);

/// Throws Error(kInvalidArgument) for a prompt that is empty, longer than the model's positions (both numbers), or
/// holds an id outside the vocabulary.
void check_prompt(const std::vector<std::int64_t>& prompt, const ModelConfig& config);

/// Tokens of the longest row; 0 if there is none.
std::int64_t longest(const std::vector<std::vector<std::int64_t>>& rows);

/// prompts [B, T] as given, then each row's new tokens, then `pad`: [B * n, T + most new tokens] int64 on the prompts'
/// device, where new_tokens holds n continuations of each prompt, side by side.
at::Tensor joined(const at::Tensor& prompts, const std::vector<std::vector<std::int64_t>>& new_tokens,
                  std::int64_t pad);

}  // namespace mneme
