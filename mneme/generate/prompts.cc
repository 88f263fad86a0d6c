#include "mneme/generate/prompts.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/models/ragged.h"

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

std::vector<PromptTokens> prompts_of(const EncodedInputs& inputs, const ModelConfig& config, at::Device device) {
  const at::Tensor &ids = inputs.input_ids, &vectors = inputs.inputs_embeds, &mask = inputs.attention_mask;
  const bool embedded = vectors.defined(), placed = inputs.position_ids.defined();
  std::vector<PromptTokens> prompts;
  if (ids.defined() || !embedded) {
    for (auto& row : real_ids(ids, mask)) prompts.push_back({.ids = std::move(row)});
  }
  if (!embedded && !placed) return prompts;
  const at::IntArrayRef shape = embedded ? vectors.sizes() : ids.sizes();
  check(shape.size() == (embedded ? 3 : 2), ErrorKind::kInvalidArgument, "inputs_embeds must be [batch, tokens, {}]",
        config.hidden_size);
  check(!embedded || !ids.defined() || ids.sizes() == shape.slice(0, 2), ErrorKind::kInvalidArgument,
        "inputs_embeds [{}, {}, ..] and input_ids [{}, {}] are not the same tokens", shape[0], shape[1],
        ids.defined() ? ids.size(0) : 0, ids.defined() ? ids.size(1) : 0);
  check(!mask.defined() || mask.sizes() == shape.slice(0, 2), ErrorKind::kInvalidArgument,
        "attention_mask has {} entries, the inputs {}: generate needs one for each", mask.defined() ? mask.numel() : 0,
        shape[0] * shape[1]);
  const RaggedInput ragged = flatten({.input_ids = embedded ? at::Tensor() : ids,
                                      .attention_mask = mask,
                                      .position_ids = inputs.position_ids,
                                      .inputs_embeds = vectors},
                                     config, device, {});
  prompts.resize(static_cast<std::size_t>(ragged.n_sequences));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::int64_t first = ragged.row_starts[i], end = ragged.row_starts[i + 1];
    if (embedded) prompts[i].vectors = ragged.embeddings.narrow(0, first, end - first);
    if (placed) prompts[i].positions = {ragged.positions.begin() + first, ragged.positions.begin() + end};
  }
  return prompts;
}

void check_length(std::int64_t length, const ModelConfig& config) {
  check(length > 0, ErrorKind::kInvalidArgument,
        "empty prompt: there is no token to continue from; give at least one (a BOS token, say)");
  const bool grows = config.rope.rope_type == "dynamic";  // its angles are for texts of any length
  check(grows || length <= config.max_position_embeddings, ErrorKind::kInvalidArgument,
        "a prompt of {} tokens is longer than the model's max_position_embeddings = {}", length,
        config.max_position_embeddings);
}

void check_prompt(const std::vector<std::int64_t>& prompt, const ModelConfig& config) {
  check_length(std::ssize(prompt), config);
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

std::int64_t longest(const std::vector<PromptTokens>& prompts) {
  std::int64_t most = 0;
  for (const PromptTokens& prompt : prompts) most = std::max(most, prompt.length());
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
