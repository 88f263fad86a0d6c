#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/kv_layer.h"
#include "mneme/ops/block_tensor.h"
#include "mneme/ops/hadamard.h"
#include "mneme/ops/linear.h"

// The door for attention of one's own: keys and values as tensors.
namespace mneme {
namespace {

using kernels::kBlockTokens;

/// [B, H, T, D] as float32 rows [B * T, H * D] in new memory on a device.
at::Tensor as_rows(const at::Tensor& x, at::Device device) {
  return x.to(device, at::kFloat)
      .permute({0, 2, 1, 3})
      .reshape({x.size(0) * x.size(2), x.size(1) * x.size(3)})
      .contiguous();
}

ops::Rows view(const at::Tensor& rows) { return {static_cast<float*>(rows.data_ptr()), rows.size(0), rows.size(1)}; }

}  // namespace

void KvLayer::check_update(const at::Tensor& keys, const at::Tensor& values) const {
  for (const at::Tensor* x : {&keys, &values}) {
    check(x->defined() && x->is_floating_point() && x->layout() == at::kStrided && !x->is_meta(),
          ErrorKind::kInvalidArgument, "update: keys and values must be dense tensors of floating-point numbers");
  }
  check(!keys.requires_grad() && !values.requires_grad(), ErrorKind::kInvalidArgument,
        "a cache is for inference: keys or values that require grad are refused; detach them first");
  check(keys.dim() == 4 && values.dim() == 4, ErrorKind::kInvalidArgument,
        "update: keys and values must be [B, heads, T, D]; they have {} and {} dimensions", keys.dim(), values.dim());
  check(keys.size(1) == layout().n_heads && values.size(1) == layout().n_heads && keys.size(3) == layout().key_dim &&
            values.size(3) == layout().value_dim && keys.size(0) == values.size(0) && keys.size(2) == values.size(2),
        ErrorKind::kInvalidArgument, "update: keys [{}] and values [{}] do not fit a layer of {} heads of {} and {}",
        fmt::join(keys.sizes(), ", "), fmt::join(values.sizes(), ", "), layout().n_heads, layout().key_dim,
        layout().value_dim);
  check_equal_lengths();
}

KvLayer::KeysAndValues KvLayer::update(ops::Workspace& workspace, const at::Tensor& keys, const at::Tensor& values) {
  const at::Tensor key_rows = as_rows(keys, workspace.device());
  const at::Tensor value_rows = as_rows(storage_.rotate_values ? ops::rotated(values) : values, workspace.device());
  const std::int64_t n = keys.size(2), before = n_sequences() ? length(0) : 0;
  std::vector<at::Tensor> seen_keys, seen_values;
  const auto see = [&](KeysAndValues part) {
    seen_keys.push_back(std::move(part.first));
    seen_values.push_back(std::move(part.second));
  };
  std::vector<std::int64_t> first_rows(sequences_.size()), counts(sequences_.size()), targets(sequences_.size());
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t count = sequences_.empty() ? n : storage_.piece(before + done, n - done);
    for (std::size_t i = 0; i < sequences_.size(); ++i) first_rows[i] = static_cast<std::int64_t>(i) * n + done;
    std::fill(counts.begin(), counts.end(), count);
    std::fill(targets.begin(), targets.end(), storage_.n_sealed_for(before + done));
    append(workspace, {.keys = view(key_rows), .values = view(value_rows)}, first_rows, counts);
    // With nothing of the first piece sealed yet, its last query sees no less raw than it should.
    if (done > 0) see(gather(before + done, before + done + count));
    if (storage_.seals()) seal(workspace, targets);
    if (done == 0) {
      const std::int64_t first = retention().first_needed(before);
      see(gather(0, std::min(retention().sinks(), first)));
      see(gather(first, before + count));
    }
    let_go();
    done += count;
  }
  if (n == 0) return visible();
  return {at::cat(seen_keys, 2), at::cat(seen_values, 2)};
}

void KvLayer::check_equal_lengths() const {
  for (const KvSequence& s : sequences_) {
    check(s.length() == sequences_.front().length(), ErrorKind::kFailedPrecondition,
          "keys and values as one tensor need sequences of one length; these hold {} and {} tokens",
          sequences_.front().length(), s.length());
  }
}

/// Tokens [first, last) of a sequence: [Hkv, n, D].
KvLayer::KeysAndValues KvLayer::gather(const KvSequence& s, std::int64_t first, std::int64_t last) const {
  const auto options = at::TensorOptions().dtype(ops::scalar_type(layout().format)).device(device());
  std::vector<at::Tensor> keys{at::empty({layout().n_heads, 0, layout().key_dim}, options)};
  std::vector<at::Tensor> values{at::empty({layout().n_heads, 0, layout().value_dim}, options)};
  while (first < last) {
    const std::int64_t b = first / kBlockTokens, slot = first % kBlockTokens;
    const std::int64_t n = std::min(kBlockTokens - slot, last - first);
    at::Tensor unsealed;
    const std::byte* block;
    if (b < s.n_sealed()) {
      unsealed = at::empty({layout().block_bytes()}, at::TensorOptions().dtype(at::kByte).device(device()));
      storage_.unseal(s.sealed().at(b), b, static_cast<std::byte*>(unsealed.data_ptr()));
      block = static_cast<const std::byte*>(unsealed.data_ptr());
    } else {
      block = s.raw().at(b).data();
    }
    auto [k, v] = ops::load_tokens(layout(), block, slot, n, device());
    keys.push_back(std::move(k));
    values.push_back(storage_.rotate_values ? ops::rotated(v) : std::move(v));
    first += n;
  }
  return {at::cat(keys, 1), at::cat(values, 1)};
}

/// The same for all sequences, which are of one length: [B, Hkv, n, D].
KvLayer::KeysAndValues KvLayer::gather(std::int64_t first, std::int64_t last) const {
  std::vector<at::Tensor> keys, values;
  for (const KvSequence& s : sequences_) {
    auto [k, v] = gather(s, first, last);
    keys.push_back(std::move(k));
    values.push_back(std::move(v));
  }
  if (!keys.empty()) return {at::stack(keys), at::stack(values)};
  auto [k, v] = gather(KvSequence(), 0, 0);
  return {k.unsqueeze(0).narrow(0, 0, 0), v.unsqueeze(0).narrow(0, 0, 0)};
}

KvLayer::KeysAndValues KvLayer::visible() const {
  check_equal_lengths();
  const std::int64_t n = n_sequences() ? length(0) : 0, first = retention().first_needed(n);
  const auto [sink_keys, sink_values] = gather(0, std::min(retention().sinks(), first));
  const auto [keys, values] = gather(first, n);
  return {at::cat({sink_keys, keys}, 2), at::cat({sink_values, values}, 2)};
}

}  // namespace mneme
