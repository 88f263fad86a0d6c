#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mneme/cache/cache.h"
#include "mneme/models/model.h"

namespace mneme {

/// What `forward` takes at the door, rectangular as everyone passes it.
struct ForwardInput {
  at::Tensor input_ids = {};  ///< [B, T] int64
  /// [B, past + T], or [B, T] for the new tokens alone; nonzero = a real token. Undefined: all are real. Padding may be
  /// on any side; padded tokens never enter the cache and their logits are zero.
  at::Tensor attention_mask = {};
  /// [B, T] int64, or undefined: counted on from the tokens that the cache holds.
  at::Tensor position_ids = {};
  at::Tensor inputs_embeds = {};      ///< [B, T, E] instead of input_ids
  std::int64_t logits_to_keep = 0;    ///< logits of the last so many columns; 0: of all
  bool output_hidden_states = false;  ///< CausalLM::forward returns what each layer makes of the tokens too
};

/// The real tokens of a ForwardInput, side by side, and how to lay results back into the rectangle.
struct RaggedInput {
  std::int64_t n_sequences = 0, n_columns = 0;
  std::vector<std::int64_t> ids, positions, row_starts = {};
  std::vector<std::int64_t> columns = {};  ///< [N] the column that each row came from
  at::Tensor embeddings = {};              ///< [N, E] float32, or undefined

  /// Number of new tokens of each sequence.
  std::vector<std::int64_t> counts() const;
  TokenBatch batch() const;
};

/// Checks and flattens an input against what the cache holds. Inputs may lie on any device; only what forward consumes
/// is moved. Throws Error(kInvalidArgument): shapes that do not fit, a cache made for another model, ids that are not
/// integers or outside the vocabulary (with both numbers), both or neither of ids and embeddings, a mask whose past
/// columns do not count what the cache holds (with both numbers; not where position_ids say where the new tokens are),
/// a sequence without a new token, tensors that require grad.
RaggedInput flatten(const ForwardInput& input, const Model& model, const Cache& cache);

/// The same for a model of this config and sequences that hold past[i] tokens (none: an empty list), on its device.
RaggedInput flatten(const ForwardInput& input, const ModelConfig& config, at::Device device,
                    std::vector<std::int64_t> past);

/// Runs a model on an input: logits [B, T or logits_to_keep, V] float32 on the inputs' device, zero for padding.
/// hidden_states: gets the [B, T, E] float32 of each layer (TokenBatch::hidden_states), zero for padding, unless null.
/// Throws what `flatten` and Cache::prepare throw; the cache is unchanged then.
at::Tensor forward(const Model& model, const ForwardInput& input, Cache& cache,
                   std::vector<at::Tensor>* hidden_states = nullptr);

}  // namespace mneme
