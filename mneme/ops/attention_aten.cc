#include "mneme/ops/attention_aten.h"

#include <limits>
#include <utility>
#include <vector>

#include "mneme/ops/block_tensor.h"
#include "mneme/ops/code_tensor.h"

namespace mneme::ops {
namespace {

using kernels::kBlockTokens;
using kernels::kSpanBlocks;

/// The first n tokens of a block, raw or encoded: keys [Hkv, n, key_dim] and values [Hkv, n, value_dim].
std::pair<at::Tensor, at::Tensor> load(const AttendSequence& s, const AttendOptions& options, std::int64_t block,
                                       std::int64_t n, at::Device device) {
  const std::byte* data = s.spans[static_cast<std::size_t>(block / kSpanBlocks - s.first_span)][block % kSpanBlocks];
  if (block >= s.n_sealed) return load_tokens(options.layout, data, 0, n, device);
  const auto [keys, values] = load_codes(*options.codes, data, block == 0, device);
  return {keys.narrow(1, 0, n), values.narrow(1, 0, n)};
}

/// Keys and values of every held block up to the last query, and the index of each token: [Hkv, L, D] and [L].
struct Gathered {
  at::Tensor keys, values, indices;
};

Gathered gather(const Workspace& workspace, const AttendSequence& s, const AttendOptions& options) {
  const std::int64_t length = s.n_keys ? s.n_keys : s.first_query + s.n_queries;
  const std::int64_t first = options.visibility.first_visible(s.first_query) / kBlockTokens;
  const std::int64_t sink_end = (options.visibility.sinks + kBlockTokens - 1) / kBlockTokens;
  std::vector<at::Tensor> keys, values, indices;
  for (std::int64_t block = 0; block * kBlockTokens < length; ++block) {
    if (block >= sink_end && block < first) continue;
    const std::int64_t n = std::min(kBlockTokens, length - block * kBlockTokens);
    auto [k, v] = load(s, options, block, n, workspace.device());
    keys.push_back(k.to(at::kFloat));
    values.push_back(v.to(at::kFloat));
    indices.push_back(at::arange(block * kBlockTokens, block * kBlockTokens + n,
                                 at::TensorOptions().dtype(at::kLong).device(workspace.device())));
  }
  return {at::cat(keys, 1), at::cat(values, 1), at::cat(indices)};
}

/// [T, L] true where the query may look: Visibility as tensors.
at::Tensor visible(const at::Tensor& queries, const at::Tensor& keys, const kernels::Visibility& v, bool causal) {
  const at::Tensor q = queries.unsqueeze(1), k = keys.unsqueeze(0);
  at::Tensor recent = at::ones({q.size(0), k.size(1)}, k.options().dtype(at::kBool));
  if (v.window) recent = recent & (k > q - v.window);
  if (v.chunk) recent = recent & (k >= q - q.remainder(v.chunk));
  if (v.sinks) recent = recent | (k < v.sinks);
  return causal ? recent & (k <= q) : recent;
}

/// [Hkv, G, T, L]: RelativeBias as tensors.
at::Tensor bias_of(const AttendOptions& options, const at::Tensor& queries, const at::Tensor& keys) {
  const std::int64_t reach = reach_of_bias(options.relative_bias.size(1)), heads = options.layout.n_heads;
  const at::Tensor distances = (keys.unsqueeze(0) - queries.unsqueeze(1)).clamp(-reach, reach);
  const at::Tensor values = options.relative_bias.index_select(1, (distances + (kBlockTokens - 1 + reach)).flatten());
  return values.view({heads, options.n_heads / heads, queries.numel(), keys.numel()});
}

at::Tensor attend_one(const Workspace& workspace, const AttendSequence& s, const AttendOptions& options,
                      const at::Tensor& q) {
  const Gathered past = gather(workspace, s, options);
  const std::int64_t heads = options.layout.n_heads, group = options.n_heads / heads;
  // [Hkv, G, T, D] x [Hkv, 1, D, L]
  at::Tensor queries = q.view({s.n_queries, heads, group, options.layout.key_dim}).permute({1, 2, 0, 3});
  // As the kernels do: a bfloat16 product rounds both sides.
  if (options.layout.format == DType::kBFloat16) queries = queries.to(at::kBFloat16).to(at::kFloat);
  at::Tensor scores = at::matmul(queries, past.keys.unsqueeze(1).transpose(2, 3)) * options.scale;
  if (options.softcap > 0) scores = at::tanh(scores / options.softcap) * options.softcap;
  const at::Tensor indices = at::arange(s.first_query, s.first_query + s.n_queries, past.indices.options());
  if (options.relative_bias.defined()) scores = scores + bias_of(options, indices, past.indices);
  scores = scores.masked_fill(visible(indices, past.indices, options.visibility, s.n_keys == 0).logical_not(),
                              -std::numeric_limits<float>::infinity());
  if (options.sinks.defined()) {  // one more column that takes probability and gives nothing
    const at::Tensor column = options.sinks.view({heads, group, 1, 1}).expand({heads, group, s.n_queries, 1});
    scores = at::softmax(at::cat({scores, column}, -1), -1).narrow(-1, 0, scores.size(-1));
  } else {
    scores = at::softmax(scores, -1);
  }
  return at::matmul(scores, past.values.unsqueeze(1))
      .permute({2, 0, 1, 3})
      .reshape({s.n_queries, options.n_heads * options.layout.value_dim});
}

}  // namespace

void attend_through_aten(Workspace& workspace, std::span<const AttendSequence> sequences, const AttendOptions& options,
                         const Rows& q, std::int64_t q_offset, const Rows& out) {
  const at::Tensor all = as_tensor(workspace, q).narrow(1, q_offset, options.n_heads * options.layout.key_dim);
  const at::Tensor result = as_tensor(workspace, out);
  for (const AttendSequence& s : sequences) {
    if (s.n_queries == 0) continue;
    const at::Tensor rows = all.narrow(0, s.first_row, s.n_queries).contiguous();
    result.narrow(0, s.first_row, s.n_queries).copy_(attend_one(workspace, s, options, rows));
  }
}

}  // namespace mneme::ops
