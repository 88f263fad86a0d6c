#pragma once

#include <cstdint>

#include "mneme/models/config.h"
#include "mneme/models/weights.h"

namespace mneme {

/// Bytes that the matrices of a model take once it is loaded, from the headers of its files alone: panels of sixteen
/// outputs, as integers where `weights` were opened so, else as numbers in this dtype. Token embeddings are read from
/// the mapped file row by row and count only where they are the head's matrix too. An estimate, within some percent of
/// Model::n_bytes(): vectors are left out, and matrices that a
/// checkpoint holds transposed (gpt2, some experts) count as integers where they are asked for, though they stay
/// numbers.
std::int64_t weight_bytes(const Weights& weights, const ModelConfig& config, DType dtype, at::Device device);

}  // namespace mneme
