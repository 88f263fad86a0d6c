#include "mneme/models/loading.h"

#include <algorithm>
#include <cstring>

#include "mneme/base/error.h"
#include "mneme/base/log.h"

namespace mneme {
namespace {

at::Tensor rounded(at::Tensor values, DType dtype, at::Device device) {
  return values.to(ops::scalar_type(dtype)).to(at::kFloat).to(device).contiguous();
}

at::Tensor read_vector(const Weights& weights, const std::string& name, std::int64_t n) {
  at::Tensor values = at::empty({n}, at::kFloat);
  read_rows(weights.get(name, {n}), 0, 1, values.mutable_data_ptr<float>());
  return values;
}

ops::Linear linear_of(const StoredTensor& matrix, DType dtype, at::Device device) {
  return ops::Linear(matrix.rows(), matrix.columns(), dtype, device,
                     [&](std::int64_t first, std::int64_t n, float* out) { read_rows(matrix, first, n, out); });
}

}  // namespace

ops::Linear load_linear(const Weights& weights, const std::vector<LinearPart>& parts, std::int64_t in_features,
                        bool bias, DType dtype, at::Device device) {
  std::vector<const StoredTensor*> matrices;
  std::vector<at::Tensor> biases;
  std::int64_t out_features = 0;
  for (const LinearPart& part : parts) {
    matrices.push_back(&weights.get(part.name + ".weight", {part.out_features, in_features}));
    if (bias) biases.push_back(read_vector(weights, part.name + ".bias", part.out_features));
    out_features += part.out_features;
  }
  const auto read = [&](std::int64_t first, std::int64_t n, float* out) {
    for (std::size_t i = 0; n > 0; first -= parts[i].out_features, ++i) {
      if (first >= parts[i].out_features) continue;
      const std::int64_t here = std::min(n, parts[i].out_features - first);
      read_rows(*matrices[i], first, here, out);
      out += here * in_features;
      n -= here;
      first += here;
    }
  };
  return ops::Linear(out_features, in_features, dtype, device, read,
                     bias ? rounded(at::cat(biases), dtype, device) : at::Tensor());
}

at::Tensor load_vector(const Weights& weights, const std::string& name, std::int64_t n, DType dtype,
                       at::Device device) {
  return rounded(read_vector(weights, name, n), dtype, device);
}

at::Tensor load_matrix(const Weights& weights, const std::string& name, const std::vector<std::int64_t>& shape,
                       DType dtype, at::Device device) {
  const StoredTensor& stored = weights.get(name, shape);
  at::Tensor values = at::empty(shape, at::kFloat);
  read_rows(stored, 0, stored.rows(), values.mutable_data_ptr<float>());
  return rounded(values, dtype, device);
}

ops::Linear load_head(const Weights& weights, const StoredTensor& embedding, const std::string& head_name, bool tied,
                      DType dtype, at::Device device) {
  if (!tied) return linear_of(weights.get(head_name, embedding.shape), dtype, device);
  if (weights.contains(head_name)) {
    const StoredTensor& head = weights.get(head_name, embedding.shape);
    const bool same = head.storage == embedding.storage && head.data.size() == embedding.data.size() &&
                      std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0;
    if (!same)
      warn(fmt::format("{} differs from {}, but the config ties them: the embedding is used", head_name,
                       embedding.name));
  }
  return linear_of(embedding, dtype, device);
}

}  // namespace mneme
