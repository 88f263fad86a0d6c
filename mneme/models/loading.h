#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mneme/models/weights.h"
#include "mneme/ops/linear.h"
#include "mneme/ops/weight_rows.h"

namespace mneme {

using ops::WeightRows;

/// All rows of a stored tensor, or n of them; as integers too where its `linear_as` says so.
WeightRows rows_of(const StoredTensor& tensor);
WeightRows rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t n);
/// Stored rows [first, first + n) are the inner dimension, columns are the outputs: how `x W` is kept (Conv1D,
/// experts). Decoded once, here; numbers only.
WeightRows transposed(const StoredTensor& tensor, std::int64_t first, std::int64_t n);
/// Row i is row order[i]. Integers stay if all rows have one format.
WeightRows picked(WeightRows rows, std::vector<std::int64_t> order);
/// One after the other; columns must agree. Integers stay if all parts have them.
WeightRows joined(std::vector<WeightRows> parts);

/// A part of a fused linear layer: rows of one stored matrix, and its bias.
struct LinearPart {
  std::string name;  ///< "model.layers.0.self_attn.q_proj": `.weight` and `.bias` are added
  std::int64_t out_features = 0;
  bool biased = true;  ///< false: zeros stand for its bias where the others have one
};

/// One linear layer whose outputs are those of the parts, one after the other. Throws what Weights::get throws.
ops::Linear load_linear(const Weights& weights, const std::vector<LinearPart>& parts, std::int64_t in_features,
                        bool bias, DType dtype, at::Device device);

/// A vector of n numbers as float32 on a device, rounded to the model's dtype.
at::Tensor load_vector(const Weights& weights, const std::string& name, std::int64_t n, DType dtype, at::Device device);

/// A small matrix as float32 on a device, rounded to the model's dtype.
at::Tensor load_matrix(const Weights& weights, const std::string& name, const std::vector<std::int64_t>& shape,
                       DType dtype, at::Device device);

/// The matrix that turns hidden states into logits. Where the config ties it to the embedding, that is what is used: a
/// checkpoint's own `head_name` is ignored then, with a warning if it differs. Untied and absent is an error.
ops::Linear load_head(const Weights& weights, const StoredTensor& embedding, const std::string& head_name, bool tied,
                      DType dtype, at::Device device);

}  // namespace mneme
