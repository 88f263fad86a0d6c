#include "mneme/models/weight_bytes.h"

#include <optional>

#include "mneme/kernels/coded_panel.h"

namespace mneme {
namespace {

/// How a linear layer holds a matrix.
WeightFormat format_of(const StoredTensor& matrix, DType dtype, at::Device device) {
  const std::optional<WeightFormat> stored = coded_format_of(matrix.storage);
  if (!device.is_cpu() || matrix.linear_as == LinearAs::kNumbers) return weight_format(dtype);
  if (matrix.linear_as == LinearAs::kStored) return stored.value_or(weight_format(dtype));
  return matrix.columns() % kernels::kCodedStep == 0 ? WeightFormat::kQ8_0 : weight_format(dtype);
}

std::int64_t held_bytes(const StoredTensor& matrix, WeightFormat format) {
  const std::int64_t panels = (matrix.rows() + kernels::kPanel - 1) / kernels::kPanel;
  return panels * kernels::panel_bytes(format, matrix.columns());
}

}  // namespace

std::int64_t weight_bytes(const Weights& weights, const ModelConfig& config, DType dtype, at::Device device) {
  const std::vector<std::int64_t> embedding{config.vocab_size, config.hidden_size};
  const std::int64_t layer_inputs = config.num_hidden_layers * config.hidden_size_per_layer_input;
  std::int64_t total = 0, head = 0;
  for (const StoredTensor* tensor : weights.tensors()) {
    if (tensor->shape.size() < 2) continue;
    // Embeddings are read from the file row by row.
    if (layer_inputs > 0 && tensor->columns() == layer_inputs && tensor->rows() >= config.vocab_size) continue;
    const std::int64_t n_bytes = held_bytes(*tensor, format_of(*tensor, dtype, device));
    if (tensor->shape == embedding) {
      head = n_bytes;
    } else {
      total += n_bytes;
    }
  }
  return total + head;  // whatever files hold of that shape, one matrix is the head and the rest are embeddings
}

}  // namespace mneme
