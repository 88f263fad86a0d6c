#include "mneme/models/ragged.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>

#include "mneme/base/error.h"
#include "mneme/models/hidden_states.h"

namespace mneme {
namespace {

at::Tensor host_longs(const at::Tensor& x, const char* name) {
  check(at::isIntegralType(x.scalar_type(), /*includeBool=*/true), ErrorKind::kInvalidArgument,
        "{} must hold integers, not {}", name, at::toString(x.scalar_type()));
  check(x.dim() == 2, ErrorKind::kInvalidArgument, "{} must be [batch, tokens], it has {} dimensions", name, x.dim());
  return x.to(at::kCPU, at::kLong).contiguous();
}

/// Real columns of each row. Where positions are counted on from the past, the past of the mask must be what the cache
/// holds.
std::vector<std::vector<std::int64_t>> real_columns(const at::Tensor& mask, std::int64_t rows, std::int64_t columns,
                                                    const std::vector<std::int64_t>& past, bool counts_positions) {
  std::vector<std::vector<std::int64_t>> real(static_cast<std::size_t>(rows));
  if (!mask.defined()) {
    for (auto& row : real) {
      for (std::int64_t j = 0; j < columns; ++j) row.push_back(j);
    }
    return real;
  }
  const at::Tensor host = host_longs(mask, "attention_mask");
  check(host.size(0) == rows && host.size(1) >= columns, ErrorKind::kInvalidArgument,
        "attention_mask [{}, {}] does not fit {} sequences of {} new tokens", host.size(0), host.size(1), rows,
        columns);
  const std::int64_t before = host.size(1) - columns;
  const auto values = host.accessor<std::int64_t, 2>();
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t seen = 0;
    for (std::int64_t j = 0; j < before; ++j) seen += values[i][j] != 0;
    check(before == 0 || !counts_positions || seen == past[static_cast<std::size_t>(i)], ErrorKind::kInvalidArgument,
          "attention_mask counts {} past tokens of sequence {}, the cache holds {}; pass a mask of past + new tokens, "
          "or of the new ones alone, or position_ids",
          seen, i, past[static_cast<std::size_t>(i)]);
    for (std::int64_t j = 0; j < columns; ++j) {
      if (values[i][before + j] != 0) real[static_cast<std::size_t>(i)].push_back(j);
    }
  }
  return real;
}

void check_ids(const std::vector<std::int64_t>& ids, std::int64_t vocabulary) {
  for (const std::int64_t id : ids) {
    check(id >= 0 && id < vocabulary, ErrorKind::kInvalidArgument, "token id {} is outside the vocabulary of {}", id,
          vocabulary);
  }
}

}  // namespace

std::vector<std::int64_t> RaggedInput::counts() const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i + 1 < row_starts.size(); ++i) result.push_back(row_starts[i + 1] - row_starts[i]);
  return result;
}

TokenBatch RaggedInput::batch() const {
  TokenBatch batch{.ids = ids, .embeddings = {}, .positions = positions, .row_starts = row_starts};
  if (embeddings.defined()) {
    batch.ids = {};
    batch.embeddings = {static_cast<float*>(embeddings.data_ptr()), embeddings.size(0), embeddings.size(1)};
  }
  return batch;
}

RaggedInput flatten(const ForwardInput& input, const Model& model, const Cache& cache) {
  check_fits(model, cache);
  return flatten(input, model.config(), model.device(), cache.lengths());
}

RaggedInput flatten(const ForwardInput& input, const ModelConfig& config, at::Device device,
                    std::vector<std::int64_t> past) {
  const bool embedded = input.inputs_embeds.defined();
  check(embedded != input.input_ids.defined(), ErrorKind::kInvalidArgument,
        "give either input_ids or inputs_embeds, {} were given", embedded ? "both" : "neither");
  check(!embedded || !input.inputs_embeds.requires_grad(), ErrorKind::kInvalidArgument,
        "this is for inference: inputs_embeds that require grad are refused; detach them first");
  check(!embedded || (input.inputs_embeds.dim() == 3 && input.inputs_embeds.size(2) == config.hidden_size),
        ErrorKind::kInvalidArgument, "inputs_embeds must be [batch, tokens, {}]", config.hidden_size);
  check(!embedded || config.hidden_size_per_layer_input == 0, ErrorKind::kInvalidArgument,
        "this model has embeddings of its ids in every layer, so inputs_embeds cannot stand for them; give input_ids");
  const at::Tensor ids = embedded ? at::Tensor() : host_longs(input.input_ids, "input_ids");
  RaggedInput result;
  result.n_sequences = embedded ? input.inputs_embeds.size(0) : ids.size(0);
  result.n_columns = embedded ? input.inputs_embeds.size(1) : ids.size(1);
  check(result.n_sequences > 0 && result.n_columns > 0, ErrorKind::kInvalidArgument,
        "empty input: {} sequences of {} tokens", result.n_sequences, result.n_columns);
  past.resize(static_cast<std::size_t>(result.n_sequences), 0);
  const at::Tensor positions =
      input.position_ids.defined() ? host_longs(input.position_ids, "position_ids") : at::Tensor();
  const auto real =
      real_columns(input.attention_mask, result.n_sequences, result.n_columns, past, !positions.defined());
  check(!positions.defined() || (positions.size(0) == result.n_sequences && positions.size(1) == result.n_columns),
        ErrorKind::kInvalidArgument, "position_ids do not fit {} sequences of {} tokens", result.n_sequences,
        result.n_columns);

  result.row_starts.push_back(0);
  std::vector<std::int64_t> picked;
  for (std::int64_t i = 0; i < result.n_sequences; ++i) {
    const auto& columns = real[static_cast<std::size_t>(i)];
    check(!columns.empty(), ErrorKind::kInvalidArgument, "sequence {} has no token: its attention_mask is all zeros",
          i);
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::int64_t j = columns[k];
      if (!embedded) result.ids.push_back(ids.accessor<std::int64_t, 2>()[i][j]);
      result.positions.push_back(positions.defined()
                                     ? positions.accessor<std::int64_t, 2>()[i][j]
                                     : past[static_cast<std::size_t>(i)] + static_cast<std::int64_t>(k));
      result.columns.push_back(j);
      picked.push_back(i * result.n_columns + j);
    }
    result.row_starts.push_back(std::ssize(result.columns));
  }
  check_ids(result.ids, config.vocab_size);
  for (const std::int64_t position : result.positions) {
    check(position >= 0, ErrorKind::kInvalidArgument, "position {} is negative", position);
    check(!config.learned_positions || position < config.max_position_embeddings, ErrorKind::kInvalidArgument,
          "position {} is behind the {} that the model has learned; shorten the prompt or generate less", position,
          config.max_position_embeddings);
  }
  if (embedded) {
    const at::Tensor rows = input.inputs_embeds.to(device, at::kFloat).reshape({-1, config.hidden_size});
    result.embeddings = rows.index_select(0, at::tensor(picked, at::kLong).to(device)).contiguous();
  }
  return result;
}

namespace {

/// Hidden states [layers, N, E] as one [B, T, E] for each layer.
std::vector<at::Tensor> rectangles(const at::Tensor& states, const RaggedInput& ragged) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < ragged.n_sequences; ++i) {
    for (std::int64_t r = ragged.row_starts[static_cast<std::size_t>(i)];
         r < ragged.row_starts[static_cast<std::size_t>(i) + 1]; ++r) {
      places.push_back(i * ragged.n_columns + ragged.columns[static_cast<std::size_t>(r)]);
    }
  }
  const std::int64_t n_layers = states.size(0), width = states.size(2);
  at::Tensor padded = at::zeros({n_layers, ragged.n_sequences * ragged.n_columns, width}, states.options());
  padded.index_copy_(1, at::tensor(places, at::kLong).to(states.device()), states);
  return padded.view({n_layers, ragged.n_sequences, ragged.n_columns, width}).unbind(0);
}

}  // namespace

at::Tensor forward(const Model& model, const ForwardInput& input, Cache& cache,
                   std::vector<at::Tensor>* hidden_states) {
  const c10::InferenceMode inference;
  const Cache::Use use(cache);
  const RaggedInput ragged = flatten(input, model, cache);
  check(input.logits_to_keep >= 0, ErrorKind::kInvalidArgument, "logits_to_keep must not be negative, it is {}",
        input.logits_to_keep);
  const std::int64_t kept =
      input.logits_to_keep == 0 ? ragged.n_columns : std::min(input.logits_to_keep, ragged.n_columns);
  const std::int64_t first_column = ragged.n_columns - kept, vocabulary = model.config().vocab_size;
  std::vector<std::int64_t> rows, places;
  for (std::int64_t i = 0; i < ragged.n_sequences; ++i) {
    for (std::int64_t r = ragged.row_starts[static_cast<std::size_t>(i)];
         r < ragged.row_starts[static_cast<std::size_t>(i) + 1]; ++r) {
      const std::int64_t column = ragged.columns[static_cast<std::size_t>(r)];
      if (column < first_column) continue;
      rows.push_back(r);
      places.push_back(i * kept + column - first_column);
    }
  }
  Cache::Pass pass(cache, ragged.counts());
  const auto options = at::TensorOptions().dtype(at::kFloat).device(model.device());
  at::Tensor logits = at::empty({std::ssize(rows), vocabulary}, options);
  TokenBatch batch = ragged.batch();
  std::optional<HiddenStates> hidden;
  if (hidden_states) batch.hidden_states = hidden.emplace(model, batch.n_tokens()).rows();
  model.forward(batch, cache, rows, {static_cast<float*>(logits.data_ptr()), std::ssize(rows), vocabulary});
  pass.done();
  if (std::ssize(rows) != ragged.n_sequences * kept) {
    at::Tensor padded = at::zeros({ragged.n_sequences * kept, vocabulary}, options);
    padded.index_copy_(0, at::tensor(places, at::kLong).to(model.device()), logits);
    logits = padded;
  }
  const at::Tensor& given = input.input_ids.defined() ? input.input_ids : input.inputs_embeds;
  if (hidden) *hidden_states = rectangles(hidden->all().to(given.device()), ragged);
  return logits.view({ragged.n_sequences, kept, vocabulary}).to(given.device());
}

}  // namespace mneme
