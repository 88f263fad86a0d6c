#include "mneme/generate/prompts.h"

#include <algorithm>

#include "mneme/base/error.h"

namespace mneme {

std::vector<std::vector<std::int64_t>> real_ids(const at::Tensor& input_ids, const at::Tensor& attention_mask) {
  check(input_ids.defined() && input_ids.dim() == 2 && at::isIntegralType(input_ids.scalar_type(), false),
        ErrorKind::kInvalidArgument, "input_ids must be [batch, tokens] integers");
  const at::Tensor ids = input_ids.to(at::kCPU, at::kLong).contiguous();
  check(!attention_mask.defined() || at::isIntegralType(attention_mask.scalar_type(), /*includeBool=*/true),
        ErrorKind::kInvalidArgument, "attention_mask must hold integers: 1 for a real token, 0 for padding");
  const at::Tensor mask =
      attention_mask.defined() ? attention_mask.to(at::kCPU, at::kLong).contiguous() : at::ones_like(ids);
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

void check_prompt(const std::vector<std::int64_t>& prompt, const ModelConfig& config) {
  check(!prompt.empty(), ErrorKind::kInvalidArgument,
        "empty prompt: there is no token to continue from; give at least one (a BOS token, say)");
  const bool grows = config.rope.rope_type == "dynamic";  // its angles are for texts of any length
  check(grows || std::ssize(prompt) <= config.max_position_embeddings, ErrorKind::kInvalidArgument,
        "a prompt of {} tokens is longer than the model's max_position_embeddings = {}", prompt.size(),
        config.max_position_embeddings);
  for (const std::int64_t id : prompt) {
    check(id >= 0 && id < config.vocab_size, ErrorKind::kInvalidArgument, "token id {} is outside the vocabulary of {}",
          id, config.vocab_size);
  }
}

std::int64_t longest(const std::vector<std::vector<std::int64_t>>& rows) {
  std::int64_t most = 0;
  for (const auto& row : rows) most = std::max<std::int64_t>(most, std::ssize(row));
  return most;
}

at::Tensor joined(const at::Tensor& prompts, const std::vector<std::vector<std::int64_t>>& new_tokens,
                  std::int64_t pad) {
  const std::int64_t most = longest(new_tokens);
  at::Tensor tail = at::full({std::ssize(new_tokens), most}, pad, at::kLong);
  for (std::size_t i = 0; i < new_tokens.size(); ++i) {
    std::copy(new_tokens[i].begin(), new_tokens[i].end(),
              tail.mutable_data_ptr<std::int64_t>() + static_cast<std::int64_t>(i) * most);
  }
  const std::int64_t n_each = std::ssize(new_tokens) / std::max<std::int64_t>(1, prompts.size(0));
  return at::cat({prompts.to(at::kLong).repeat_interleave(n_each, 0), tail.to(prompts.device())}, 1);
}

}  // namespace mneme
