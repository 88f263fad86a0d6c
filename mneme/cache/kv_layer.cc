#include "mneme/cache/kv_layer.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/linear.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;
using kernels::kSpanBlocks;

std::int64_t blocks_of(std::int64_t tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

/// One run of rows that goes into one block.
struct Store {
  std::byte* block;
  std::int64_t first_slot, n, first_row;
};

/// [B, H, T, D] as float32 rows [B * T, H * D] in new memory on the workspace's device.
at::Tensor as_rows(const at::Tensor& x, at::Device device) {
  return x.to(device, at::kFloat)
      .permute({0, 2, 1, 3})
      .reshape({x.size(0) * x.size(2), x.size(1) * x.size(3)})
      .contiguous();
}

ops::Rows view(const at::Tensor& rows) { return {static_cast<float*>(rows.data_ptr()), rows.size(0), rows.size(1)}; }

}  // namespace

KvLayer::KvLayer(KvLayerOptions options, std::shared_ptr<BlockPool> pool)
    : options_(std::move(options)), pool_(std::move(pool)) {}

KvLayer& KvLayer::operator=(KvLayer other) noexcept {
  std::swap(options_, other.options_);
  std::swap(pool_, other.pool_);
  std::swap(sequences_, other.sequences_);
  std::swap(recording_, other.recording_);
  return *this;
}

void KvLayer::reset() noexcept {
  sequences_.clear();
  recording_ = false;
}

std::int64_t KvLayer::peak_blocks(std::int64_t length) const {
  // In pieces of a block, what is let go makes room for what comes: the window, its two ragged ends and the piece.
  const std::int64_t all = blocks_of(length);
  return retention().limited() ? std::min(all, blocks_of(retention().most_past()) + 3) : all;
}

std::int64_t KvLayer::blocks_needed(std::span<const std::int64_t> counts) const {
  std::int64_t total = 0;
  const Sequence empty;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const Sequence& s = i < sequences_.size() ? sequences_[i] : empty;
    const std::int64_t fresh = blocks_of(s.length + counts[i]) - s.blocks.size();
    total += recording_ ? fresh : std::min(fresh, peak_blocks(s.length + counts[i]));
    if (s.length % kBlockTokens != 0 && !s.blocks.owns(s.blocks.size() - 1)) ++total;  // a shared tail is copied
  }
  return total;
}

/// The block that the next token goes to, held by nobody else, all slots behind the last token zero.
std::byte* KvLayer::open_block(ops::Workspace& workspace, Sequence& s) {
  const std::int64_t b = s.length / kBlockTokens, slot = s.length % kBlockTokens;
  if (b == s.blocks.size()) {
    s.blocks.push_back(pool_->take());
  } else if (!s.blocks.at(b)) {  // let go before a crop back to where nothing of it is needed
    s.blocks.replace(b, pool_->take());
  } else if (!s.blocks.owns(b)) {
    s.blocks.replace(b, pool_->take_copy(s.blocks.at(b)));
  }
  std::byte* block = s.blocks.at(b).data();
  if (std::exchange(s.stale_tail, false)) {
    const ops::Workspace::Scope scope(workspace);
    const kernels::BlockLayout& layout = codec().layout();
    const std::int64_t n = kBlockTokens - slot, width = layout.n_heads * std::max(layout.key_dim, layout.value_dim);
    const ops::Rows zeros = ops::scratch_rows(workspace, n, width);
    ops::fill_zero(workspace, zeros);
    codec().store(workspace, block, slot, n, {.keys = zeros, .values = zeros}, 0);
  }
  return block;
}

void KvLayer::append(ops::Workspace& workspace, const KeyValueRows& rows, std::span<const std::int64_t> first_rows,
                     std::span<const std::int64_t> counts) {
  thread_local std::vector<Store> stores;
  stores.clear();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Sequence& s = sequences_[i];
    for (std::int64_t done = 0; done < counts[i];) {
      const std::int64_t slot = s.length % kBlockTokens, n = std::min(kBlockTokens - slot, counts[i] - done);
      stores.push_back({open_block(workspace, s), slot, n, first_rows[i] + done});
      s.length += n;
      done += n;
    }
  }
  std::vector<Store>& work = stores;  // a thread_local is another object on other threads
  const auto store = [&](std::int64_t i) {
    const Store& w = work[static_cast<std::size_t>(i)];
    codec().store(workspace, w.block, w.first_slot, w.n, rows, w.first_row);
  };
  const auto n = static_cast<std::int64_t>(work.size());
  constexpr std::int64_t kRowsWorthThreads = 64;
  if (workspace.uses_kernels() && rows.keys.n >= kRowsWorthThreads) {
    ThreadPool::global().run(n, store);
  } else {
    for (std::int64_t i = 0; i < n; ++i) store(i);
  }
}

void KvLayer::let_go(Sequence& s) const {
  if (recording_ || !retention().limited()) return;
  const std::int64_t needed = retention().first_needed(s.length);
  const std::int64_t sink_blocks = blocks_of(retention().sinks());
  for (std::int64_t b = std::max(sink_blocks, s.first_held / kBlockTokens); b < needed / kBlockTokens; ++b)
    s.blocks.release(b);
  s.first_held = std::max(s.first_held, needed);
}

void KvLayer::attend(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const KeyValueRows& rows,
                     const AttendQuery& query, const ops::Rows& out) {
  const ops::Workspace::Scope scope(workspace);
  const std::size_t n = sequences_.size();
  check(row_starts.size() == n + 1, ErrorKind::kInvalidArgument,
        "cache: {} sequences were given to a layer that holds {}", row_starts.size() - 1, n);
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < n; ++i) longest = std::max(longest, row_starts[i + 1] - row_starts[i]);
  const std::int64_t piece = retention().limited() ? kBlockTokens : longest;

  thread_local std::vector<std::int64_t> first_rows, counts;
  thread_local std::vector<ops::AttendSequence> parts;
  first_rows.assign(n, 0);
  counts.assign(n, 0);
  parts.assign(n, {});
  for (std::int64_t done = 0; done < longest; done += piece) {
    const ops::Workspace::Scope piece_scope(workspace);
    for (std::size_t i = 0; i < n; ++i) {
      first_rows[i] = row_starts[i] + done;
      counts[i] = std::clamp<std::int64_t>(row_starts[i + 1] - first_rows[i], 0, piece);
    }
    append(workspace, rows, first_rows, counts);
    for (std::size_t i = 0; i < n; ++i) {
      const Sequence& s = sequences_[i];
      ops::AttendSequence& part = parts[i];
      part = {.spans = {},
              .first_span = 0,
              .first_query = s.length - counts[i],
              .first_row = first_rows[i],
              .n_queries = counts[i]};
      if (counts[i] == 0) continue;
      if (retention().sinks() == 0)
        part.first_span = retention().first_needed(part.first_query) / (kBlockTokens * kSpanBlocks);
      const std::int64_t n_spans = (s.blocks.size() + kSpanBlocks - 1) / kSpanBlocks - part.first_span;
      auto* spans = reinterpret_cast<const std::byte* const**>(
          workspace.host_bytes(n_spans * static_cast<std::int64_t>(sizeof(void*))));
      for (std::int64_t j = 0; j < n_spans; ++j) spans[j] = s.blocks.span((part.first_span + j) * kSpanBlocks);
      part.spans = {spans, static_cast<std::size_t>(n_spans)};
    }
    codec().attend(workspace, parts,
                   {.layout = codec().layout(),
                    .n_heads = query.n_heads,
                    .scale = query.scale,
                    .softcap = query.softcap,
                    .visibility = retention().visibility(),
                    .sinks = query.sinks},
                   query.q, query.q_offset, out);
    for (Sequence& s : sequences_) let_go(s);
  }
}

void KvLayer::check_update(const at::Tensor& keys, const at::Tensor& values) const {
  const kernels::BlockLayout& layout = codec().layout();
  check(!keys.requires_grad() && !values.requires_grad(), ErrorKind::kInvalidArgument,
        "a cache is for inference: keys or values that require grad are refused; detach them first");
  check(keys.dim() == 4 && values.dim() == 4, ErrorKind::kInvalidArgument,
        "update: keys and values must be [B, heads, T, D]; they have {} and {} dimensions", keys.dim(), values.dim());
  check(keys.size(1) == layout.n_heads && values.size(1) == layout.n_heads && keys.size(3) == layout.key_dim &&
            values.size(3) == layout.value_dim && keys.size(0) == values.size(0) && keys.size(2) == values.size(2),
        ErrorKind::kInvalidArgument, "update: keys [{}] and values [{}] do not fit a layer of {} heads of {} and {}",
        fmt::join(keys.sizes(), ", "), fmt::join(values.sizes(), ", "), layout.n_heads, layout.key_dim,
        layout.value_dim);
  check_equal_lengths();
}

KvLayer::KeysAndValues KvLayer::update(ops::Workspace& workspace, const at::Tensor& keys, const at::Tensor& values) {
  const at::Tensor key_rows = as_rows(keys, workspace.device()), value_rows = as_rows(values, workspace.device());
  const std::int64_t n = keys.size(2), before = n_sequences() ? length(0) : 0;
  const std::int64_t piece = retention().limited() ? kBlockTokens : std::max<std::int64_t>(n, 1);
  auto [past_keys, past_values] = visible();
  std::vector<at::Tensor> seen_keys{past_keys}, seen_values{past_values};
  std::vector<std::int64_t> first_rows(sequences_.size()), counts(sequences_.size());
  for (std::int64_t done = 0; done < n; done += piece) {
    const std::int64_t count = std::min(piece, n - done);
    for (std::size_t i = 0; i < sequences_.size(); ++i) first_rows[i] = static_cast<std::int64_t>(i) * n + done;
    std::fill(counts.begin(), counts.end(), count);
    append(workspace, {.keys = view(key_rows), .values = view(value_rows)}, first_rows, counts);
    auto [k, v] = gather(before + done, before + done + count);
    seen_keys.push_back(std::move(k));
    seen_values.push_back(std::move(v));
    for (Sequence& s : sequences_) let_go(s);
  }
  return {at::cat(seen_keys, 2), at::cat(seen_values, 2)};
}

void KvLayer::check_equal_lengths() const {
  for (const Sequence& s : sequences_) {
    check(s.length == sequences_.front().length, ErrorKind::kFailedPrecondition,
          "keys and values as one tensor need sequences of one length; these hold {} and {} tokens",
          sequences_.front().length, s.length);
  }
}

/// Tokens [first, last) of a sequence: [Hkv, n, D].
KvLayer::KeysAndValues KvLayer::gather(const Sequence& s, std::int64_t first, std::int64_t last) const {
  const kernels::BlockLayout& layout = codec().layout();
  const auto options = at::TensorOptions().dtype(ops::scalar_type(layout.format)).device(pool_->device());
  std::vector<at::Tensor> keys{at::empty({layout.n_heads, 0, layout.key_dim}, options)};
  std::vector<at::Tensor> values{at::empty({layout.n_heads, 0, layout.value_dim}, options)};
  while (first < last) {
    const std::int64_t slot = first % kBlockTokens, n = std::min(kBlockTokens - slot, last - first);
    auto [k, v] = codec().load(s.blocks.at(first / kBlockTokens).data(), slot, n, pool_->device());
    keys.push_back(std::move(k));
    values.push_back(std::move(v));
    first += n;
  }
  return {at::cat(keys, 1), at::cat(values, 1)};
}

/// The same for all sequences, which are of one length: [B, Hkv, n, D].
KvLayer::KeysAndValues KvLayer::gather(std::int64_t first, std::int64_t last) const {
  std::vector<at::Tensor> keys, values;
  for (const Sequence& s : sequences_) {
    auto [k, v] = gather(s, first, last);
    keys.push_back(std::move(k));
    values.push_back(std::move(v));
  }
  if (!keys.empty()) return {at::stack(keys), at::stack(values)};
  auto [k, v] = gather(Sequence(), 0, 0);
  return {k.unsqueeze(0).narrow(0, 0, 0), v.unsqueeze(0).narrow(0, 0, 0)};
}

KvLayer::KeysAndValues KvLayer::visible() const {
  check_equal_lengths();
  const std::int64_t n = n_sequences() ? length(0) : 0, first = retention().first_needed(n);
  const auto [sink_keys, sink_values] = gather(0, std::min(retention().sinks(), first));
  const auto [keys, values] = gather(first, n);
  return {at::cat({sink_keys, keys}, 2), at::cat({sink_values, values}, 2)};
}

void KvLayer::check_crop(std::int64_t n) const {
  for (const Sequence& s : sequences_) {
    check(n <= s.length, ErrorKind::kInvalidArgument, "crop: {} tokens cannot be removed from a cache that holds {}", n,
          s.length);
    if (n == 0 || !retention().limited()) continue;
    const std::int64_t rest = s.length - n, needed = retention().first_needed(rest);
    const bool gone = (needed < rest && needed < s.first_held) || (!recording_ && retention().is_full(s.length));
    check(!gone, ErrorKind::kFailedPrecondition,
          "crop: a layer that keeps {} has let go of what {} tokens less would see; call activate_past_recording() "
          "before the forward pass",
          retention().name(), n);
  }
}

void KvLayer::crop(std::int64_t n) {
  const bool was_recording = std::exchange(recording_, false);
  for (Sequence& s : sequences_) {
    s.length -= n;
    s.first_held = std::min(s.first_held, s.length);
    s.blocks.truncate(blocks_of(s.length));
    s.stale_tail = s.stale_tail || (n > 0 && s.length % kBlockTokens != 0);
    let_go(s);
  }
  recording_ = was_recording;
}

void KvLayer::select(std::span<const std::int64_t> indices) {
  std::vector<Sequence> selected;
  selected.reserve(indices.size());
  for (const std::int64_t i : indices) selected.push_back(sequences_[static_cast<std::size_t>(i)]);
  sequences_ = std::move(selected);
}

}  // namespace mneme
