#include "mneme/models/loading.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/base/ggml_block.h"
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

/// The stored rows from `first` on in a coded format, or nothing: they are numbers, or are to be computed with as
/// numbers.
std::vector<ops::CodedRows> coded_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t n) {
  const std::optional<WeightFormat> stored = coded_format_of(tensor.storage);
  if (tensor.linear_as == LinearAs::kStored && stored) {
    return {{*stored, n, [&tensor, first](std::int64_t from, std::int64_t count, std::byte* out) {
               read_blocks(tensor, first + from, count, out);
             }}};
  }
  constexpr std::int64_t kBlock = 32, kBlockBytes = 34;
  if (tensor.linear_as != LinearAs::kInt8 || tensor.columns() % kBlock) return {};
  return {{WeightFormat::kQ8_0, n, [&tensor, first](std::int64_t from, std::int64_t count, std::byte* out) {
             thread_local std::vector<float> numbers;
             numbers.resize(static_cast<std::size_t>(count * tensor.columns()));
             read_rows(tensor, first + from, count, numbers.data());
             for (std::int64_t i = 0; i < count * tensor.columns() / kBlock; ++i) {
               encode_q8_0(numbers.data() + i * kBlock, out + i * kBlockBytes);
             }
           }}};
}

/// Reads n rows of which parts[i] has the next parts[i].n.
template <class Part, class Element>
void read_parts(const std::vector<Part>& parts, std::int64_t row_size, std::int64_t first, std::int64_t n,
                Element* out) {
  for (std::size_t i = 0; n > 0; first -= parts[i].n, ++i) {
    if (first >= parts[i].n) continue;
    const std::int64_t here = std::min(n, parts[i].n - first);
    parts[i].read(first, here, out);
    out += here * row_size;
    n -= here;
    first += here;
  }
}

/// Neighbours of one format become one.
std::vector<ops::CodedRows> merged(std::vector<ops::CodedRows> parts, std::int64_t columns) {
  std::vector<ops::CodedRows> runs;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = i;
    std::int64_t n = 0;
    for (; end < parts.size() && parts[end].format == parts[i].format; ++end) n += parts[end].n;
    const CodedFormat layout = coded_format(parts[i].format);
    const std::int64_t row_bytes = layout.row_bytes(columns);
    std::vector<ops::CodedRows> run(parts.begin() + static_cast<std::ptrdiff_t>(i),
                                    parts.begin() + static_cast<std::ptrdiff_t>(end));
    runs.push_back(
        {parts[i].format, n, [run = std::move(run), row_bytes](std::int64_t from, std::int64_t count, std::byte* out) {
           read_parts(run, row_bytes, from, count, out);
         }});
    i = end;
  }
  return runs;
}

}  // namespace

WeightRows rows_of(const StoredTensor& tensor) { return rows_of(tensor, 0, tensor.rows()); }

WeightRows rows_of(const StoredTensor& tensor, std::int64_t first, std::int64_t n) {
  return {n, tensor.columns(),
          [&tensor, first](std::int64_t from, std::int64_t count, float* out) {
            read_rows(tensor, first + from, count, out);
          },
          coded_rows(tensor, first, n)};
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
  const auto each = [order = std::move(order)](auto read, std::int64_t row_size) {
    return [order, read, row_size](std::int64_t from, std::int64_t count, auto* out) {
      for (std::int64_t i = 0; i < count; ++i) read(order[static_cast<std::size_t>(from + i)], 1, out + i * row_size);
    };
  };
  WeightRows result{n, columns, each(std::move(rows.read), columns)};
  if (rows.coded.size() == 1) {
    const CodedFormat layout = coded_format(rows.coded.front().format);
    result.coded.push_back(
        {rows.coded.front().format, n, each(std::move(rows.coded.front().read), layout.row_bytes(columns))});
  }
  return result;
}

WeightRows joined(std::vector<WeightRows> parts) {
  WeightRows result{0, parts.front().columns, {}};
  bool all_coded = true;
  for (const WeightRows& part : parts) {
    result.n += part.n;
    all_coded = all_coded && !part.coded.empty();
    result.coded.insert(result.coded.end(), part.coded.begin(), part.coded.end());
  }
  result.coded = all_coded ? merged(std::move(result.coded), result.columns) : std::vector<ops::CodedRows>{};
  result.read = [parts = std::move(parts), columns = result.columns](std::int64_t first, std::int64_t count,
                                                                     float* out) {
    read_parts(parts, columns, first, count, out);
  };
  return result;
}

ops::Linear load_linear(const Weights& weights, const std::vector<LinearPart>& parts, std::int64_t in_features,
                        bool bias, DType dtype, at::Device device) {
  std::vector<WeightRows> matrices;
  std::vector<at::Tensor> biases;
  for (const LinearPart& part : parts) {
    matrices.push_back(rows_of(weights.get(part.name + ".weight", {part.out_features, in_features})));
    if (!bias) continue;
    biases.push_back(part.biased ? read_vector(weights, part.name + ".bias", part.out_features)
                                 : at::zeros({part.out_features}, at::kFloat));
  }
  const WeightRows rows = joined(std::move(matrices));
  return ops::Linear(rows, dtype, device, bias ? rounded(at::cat(biases), dtype, device) : at::Tensor());
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
  if (!tied) return ops::Linear(rows_of(weights.get(head_name, embedding.shape)), dtype, device);
  if (weights.contains(head_name)) {
    const StoredTensor& head = weights.get(head_name, embedding.shape);
    const bool same = head.storage == embedding.storage && head.data.size() == embedding.data.size() &&
                      std::memcmp(head.data.data(), embedding.data.data(), head.data.size()) == 0;
    if (!same)
      warn(fmt::format("{} differs from {}, but the config ties them: the embedding is used", head_name,
                       embedding.name));
  }
  return ops::Linear(rows_of(embedding), dtype, device);
}

}  // namespace mneme
