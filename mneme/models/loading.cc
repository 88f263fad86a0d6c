#include "mneme/models/loading.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

ops::Linear linear_of(const WeightRows& rows, DType dtype, at::Device device) {
  return ops::Linear(rows.n, rows.columns, dtype, device, rows.read);
}

}  // namespace

WeightRows rows_of(const StoredTensor& tensor) { return rows_of(tensor, 0, tensor.rows()); }

WeightRows rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t n) {
  return {n, tensor.columns(), [&tensor, first](std::int64_t from, std::int64_t count, float* out) {
            read_rows(tensor, first + from, count, out);
          }};
}

WeightRows transposed(const StoredTensor& tensor, std::int64_t first, std::int64_t n) {
  at::Tensor values = at::empty({n, tensor.columns()}, at::kFloat);
  read_rows(tensor, first, n, values.mutable_data_ptr<float>());
  values = values.t().contiguous();
  return {tensor.columns(), n, [values, n](std::int64_t from, std::int64_t count, float* out) {
            std::copy_n(values.const_data_ptr<float>() + from * n, count * n, out);
          }};
}

WeightRows picked(WeightRows rows, std::vector<std::int64_t> order) {
  const std::int64_t n = std::ssize(order), columns = rows.columns;
  return {n, columns,
          [rows = std::move(rows), order = std::move(order)](std::int64_t from, std::int64_t count, float* out) {
            for (std::int64_t i = 0; i < count; ++i) {
              rows.read(order[static_cast<std::size_t>(from + i)], 1, out + i * rows.columns);
            }
          }};
}

WeightRows joined(std::vector<WeightRows> parts) {
  std::int64_t n = 0;
  for (const WeightRows& part : parts) n += part.n;
  const std::int64_t columns = parts.front().columns;
  return {n, columns, [parts = std::move(parts)](std::int64_t first, std::int64_t count, float* out) {
            for (std::size_t i = 0; count > 0; first -= parts[i].n, ++i) {
              if (first >= parts[i].n) continue;
              const std::int64_t here = std::min(count, parts[i].n - first);
              parts[i].read(first, here, out);
              out += here * parts[i].columns;
              count -= here;
              first += here;
            }
          }};
}

ops::Linear load_linear(const Weights& weights, const std::vector<LinearPart>& parts, std::int64_t in_features,
                        bool bias, DType dtype, at::Device device) {
  std::vector<WeightRows> matrices;
  std::vector<at::Tensor> biases;
  for (const LinearPart& part : parts) {
    matrices.push_back(rows_of(weights.get(part.name + ".weight", {part.out_features, in_features})));
    if (bias) biases.push_back(read_vector(weights, part.name + ".bias", part.out_features));
  }
  const WeightRows rows = joined(std::move(matrices));
  return ops::Linear(rows.n, rows.columns, dtype, device, rows.read,
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
  if (!tied) return linear_of(rows_of(weights.get(head_name, embedding.shape)), dtype, device);
  if (weights.contains(head_name)) {
    const StoredTensor& head = weights.get(head_name, embedding.shape);
    const bool same = head.storage == embedding.storage && head.data.size() == embedding.data.size() &&
                      std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0;
    if (!same)
      warn(fmt::format("{} differs from {}, but the config ties them: the embedding is used", head_name,
                       embedding.name));
  }
  return linear_of(rows_of(embedding), dtype, device);
}

}  // namespace mneme
