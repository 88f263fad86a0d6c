#include "mneme/cache/kv_layer.h"

#include <algorithm>
#include <cstring>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/ops/block_tensor.h"
#include "mneme/ops/hadamard.h"

namespace mneme {
namespace {

using kernels::kBlockTokens;
using kernels::kSpanBlocks;

/// One run of rows that goes into one block.
struct Store {
  std::byte* block;
  std::int64_t first_slot, n, first_row;
};

/// One full block that is encoded, or moved as it is.
struct Seal {
  const std::byte* source;  ///< the raw block
  bool is_first;            ///< block 0
  const std::byte* raw;     ///< the source, on the host if it is encoded
  BlockRef to;
  std::byte* codes;  ///< where the codes are made, on the host: `to` itself if it is memory there
  bool written = true;
};

/// Block b of a sequence becomes sealed: what seals[i] makes, or nothing if retention let the block go.
struct SealOf {
  KvSequence* sequence;
  std::int64_t b, i;
};

/// Where the compute device reads a sealed block.
const std::byte* address_of(const BlockRef& block) {
  return block ? block.pool()->tier().address(block.data(), block.pool()->block_bytes()) : nullptr;
}

void check_rows(std::span<const std::int64_t> row_starts, std::size_t n_sequences) {
  check(row_starts.size() == n_sequences + 1, ErrorKind::kInvalidArgument,
        "cache: {} sequences were given to a layer that holds {}", row_starts.size() - 1, n_sequences);
}

}  // namespace

KvLayer::KvLayer(const KvLayer& other)
    : storage_(other.storage_),
      sequences_(other.sequences_),
      recording_(other.recording_),
      write_failure_(other.write_failure_) {}

// Before the pools go: memory of theirs that is being brought, or is yet to be released, may be somebody else's next.
KvLayer::~KvLayer() {
  if (prefetcher_) prefetcher_->forget(prefetch_index_);
}

KvLayer& KvLayer::operator=(KvLayer other) noexcept {
  std::swap(storage_, other.storage_);
  std::swap(sequences_, other.sequences_);
  std::swap(recording_, other.recording_);
  std::swap(n_to_read_, other.n_to_read_);
  std::swap(write_failure_, other.write_failure_);
  std::swap(prefetcher_, other.prefetcher_);
  std::swap(prefetch_index_, other.prefetch_index_);
  return *this;
}

void KvLayer::start(std::int64_t n_sequences, std::int64_t max_length) {
  sequences_.resize(static_cast<std::size_t>(n_sequences));
  for (KvSequence& s : sequences_) s.reserve(storage_, max_length);
}

void KvLayer::reset() noexcept {
  sequences_.clear();
  recording_ = false;
  n_to_read_ = 0;
  write_failure_.clear();
}

BlockCounts KvLayer::blocks_needed(std::span<const std::int64_t> counts) const {
  BlockCounts total;
  const KvSequence empty;
  thread_local std::vector<const BlockList*> shared;  // whose open block is
  shared.clear();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const KvSequence& s = i < sequences_.size() ? sequences_[i] : empty;
    total += s.needed(storage_, counts[i], recording_);
    if (counts[i] > 0 && s.shares_tail()) shared.push_back(&s.raw());
  }
  // Where all that share an open block are about to write, the last of them finds it its own.
  const auto tail = [](const BlockList* list) { return list->at(list->size() - 1).data(); };
  std::ranges::sort(shared, {}, tail);
  for (auto first = shared.begin(); first != shared.end();) {
    const auto last =
        std::find_if(first, shared.end(), [&](const BlockList* list) { return tail(list) != tail(*first); });
    if (last - first == (*first)->n_sharing((*first)->size() - 1)) --total.raw;
    first = last;
  }
  return total;
}

void KvLayer::check_written() const { check(write_failure_.empty(), ErrorKind::kIo, "{}", write_failure_); }

/// Zeros for what a crop left behind the last token of the open block.
void KvLayer::clear_tail(ops::Workspace& workspace, KvSequence& sequence, std::byte* block) {
  if (!sequence.take_stale_tail()) return;
  const ops::Workspace::Scope scope(workspace);
  const std::int64_t slot = sequence.length() % kBlockTokens, n = kBlockTokens - slot;
  const ops::Rows zeros =
      ops::scratch_rows(workspace, n, layout().n_heads * std::max(layout().key_dim, layout().value_dim));
  ops::fill_zero(workspace, zeros);
  ops::store_tokens(workspace, layout(), block, slot, n, zeros, 0, zeros, 0, 0);
}

void KvLayer::append(ops::Workspace& workspace, const KeyValueRows& rows, std::span<const std::int64_t> first_rows,
                     std::span<const std::int64_t> counts) {
  thread_local std::vector<Store> stores;
  stores.clear();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    KvSequence& s = sequences_[i];
    for (std::int64_t done = 0; done < counts[i];) {
      const std::int64_t slot = s.length() % kBlockTokens, n = std::min(kBlockTokens - slot, counts[i] - done);
      std::byte* const block = s.open_block(storage_);
      clear_tail(workspace, s, block);
      stores.push_back({block, slot, n, first_rows[i] + done});
      s.extend(n);
      done += n;
    }
  }
  std::vector<Store>& work = stores;  // a thread_local is another object on other threads
  const auto store = [&](std::int64_t i) {
    const Store& w = work[static_cast<std::size_t>(i)];
    ops::store_tokens(workspace, layout(), w.block, w.first_slot, w.n, rows.keys, rows.key_offset, rows.values,
                      rows.value_offset, w.first_row);
  };
  const auto n = static_cast<std::int64_t>(work.size());
  constexpr std::int64_t kRowsWorthThreads = 64;
  if (workspace.uses_kernels() && rows.keys.n >= kRowsWorthThreads) {
    ThreadPool::global().run(n, store);
  } else {
    for (std::int64_t i = 0; i < n; ++i) store(i);
  }
}

/// Seals blocks of each sequence until it has targets[i] of them; a raw block that several of them share is sealed
/// once.
void KvLayer::seal(ops::Workspace& workspace, std::span<const std::int64_t> targets) {
  const ops::Workspace::Scope scope(workspace);
  thread_local std::vector<Seal> seals;
  thread_local std::vector<SealOf> seals_of;
  seals.clear();
  seals_of.clear();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    KvSequence& s = sequences_[i];
    for (std::int64_t b = s.n_sealed(); b < targets[i]; ++b) {
      const std::byte* const raw = s.raw().at(b).data();
      auto seal = seals.end();
      if (raw && !s.raw().owns(b)) seal = std::ranges::find(seals, raw, &Seal::source);
      seals_of.push_back({&s, b, raw ? seal - seals.begin() : -1});
      if (!raw || seal != seals.end()) continue;
      BlockPool& pool = storage_.pool_of_sealed(b);
      Seal made{.source = raw, .is_first = b == 0, .raw = raw, .to = pool.take(), .codes = nullptr};
      const bool in_place = pool.tier().resident() && pool.tier().device().is_cpu();
      if (storage_.codec) made.codes = in_place ? made.to.data() : workspace.host_bytes(pool.block_bytes());
      if (storage_.codec && !device().is_cpu()) {
        std::byte* const on_host = workspace.host_bytes(layout().block_bytes());
        copy_bytes(on_host, at::kCPU, raw, device(), layout().block_bytes());
        made.raw = on_host;
      }
      seals.push_back(std::move(made));
    }
  }
  std::vector<Seal>& work = seals;
  if (storage_.codec) {
    const std::int64_t n_heads = layout().n_heads;
    ThreadPool::global().run(std::ssize(work) * n_heads, [&](std::int64_t task) noexcept {
      const Seal& s = work[static_cast<std::size_t>(task / n_heads)];
      storage_.codec->encode_head(s.raw, task % n_heads, s.is_first, s.codes);
    });
  }
  for (Seal& s : work) {
    try {
      const std::byte* const from = storage_.codec ? s.codes : s.raw;
      const at::Device where = storage_.codec ? at::kCPU : device();
      if (from != s.to.data()) s.to.pool()->tier().write(s.to.data(), from, s.to.pool()->block_bytes(), where);
    } catch (const Error& error) {
      write_failure_ = error.what();
      s.written = false;
    }
  }
  for (const SealOf& one : seals_of) {
    if (one.sequence->n_sealed() != one.b) continue;  // behind one that could not be written
    const Seal* const s = one.i < 0 ? nullptr : &work[static_cast<std::size_t>(one.i)];
    if (!s || s->written) one.sequence->seal_next(storage_, s ? s->to : BlockRef(), keeps_past());
  }
  seals.clear();
}

/// Where the blocks lie that the queries see.
ops::AttendSequence KvLayer::part_of(ops::Workspace& workspace, const KvSequence& s, const Queries& queries) const {
  ops::AttendSequence part{.first_query = queries.first, .first_row = queries.first_row, .n_queries = queries.n};
  if (queries.n == 0) return part;
  if (retention().sinks() == 0)
    part.first_span = retention().first_needed(part.first_query) / (kBlockTokens * kSpanBlocks);
  const std::int64_t first = part.first_span * kSpanBlocks;
  const std::int64_t end = (queries.first + queries.n + kBlockTokens - 1) / kBlockTokens;
  const std::int64_t n_spans = (end - first + kSpanBlocks - 1) / kSpanBlocks;
  const auto pointers = [&](std::int64_t n) {
    return reinterpret_cast<const std::byte**>(workspace.host_bytes(n * static_cast<std::int64_t>(sizeof(std::byte*))));
  };
  const auto spans = [&](auto&& span_at) {
    auto** const result = reinterpret_cast<const std::byte* const**>(pointers(n_spans));
    for (std::int64_t j = 0; j < n_spans; ++j) result[j] = span_at(first + j * kSpanBlocks);
    return std::span<const std::byte* const* const>(result, static_cast<std::size_t>(n_spans));
  };
  if (queries.n_sealed == 0) {
    part.spans = spans([&](std::int64_t b) { return s.raw().span(b); });
    return part;
  }
  const std::byte** const blocks = pointers(n_spans * kSpanBlocks);
  for (std::int64_t b = first; b < first + n_spans * kSpanBlocks; ++b)
    blocks[b - first] = b >= end ? nullptr : b < queries.n_sealed ? address_of(s.sealed().at(b)) : s.raw().at(b).data();
  part.spans = spans([&](std::int64_t b) { return blocks + (b - first); });
  if (storage_.codec) part.n_sealed = queries.n_sealed;
  return part;
}

/// Brings the sealed blocks of all sequences, neighbours in memory as one range.
void KvLayer::begin_reading() const {
  if (!prefetcher_) return;
  std::vector<ByteRange>& ranges = prefetcher_->next_ranges();
  for (const KvSequence& s : sequences_) {
    s.sealed().each_block([&](const BlockRef& block) {
      const std::int64_t n_bytes = block.pool()->block_bytes();
      if (!ranges.empty() && ranges.back().data + ranges.back().n_bytes == block.data()) {
        ranges.back().n_bytes += n_bytes;
      } else {
        ranges.push_back({block.data(), n_bytes});
      }
    });
  }
  prefetcher_->begin(prefetch_index_);
}

void KvLayer::end_reading() const {
  if (prefetcher_) prefetcher_->end(prefetch_index_);
}

void KvLayer::let_go() {
  n_to_read_ = 0;
  if (recording_) return;
  for (KvSequence& s : sequences_) s.let_go(storage_);
}

void KvLayer::attend_parts(ops::Workspace& workspace, std::span<const ops::AttendSequence> parts,
                           const AttendQuery& query, const ops::Rows& out) const {
  ops::attend(workspace, parts,
              {.layout = layout(),
               .codes = storage_.codec ? &storage_.codec->codes() : nullptr,
               .n_heads = query.n_heads,
               .scale = query.scale,
               .softcap = query.softcap,
               .visibility = retention().visibility(),
               .sinks = query.sinks,
               .relative_bias = query.relative_bias},
              query.q, query.q_offset, out);
}

void KvLayer::attend_to_all(ops::Workspace& workspace, std::span<const std::int64_t> row_starts,
                            const AttendQuery& query, const ops::Rows& out) const {
  const ops::Workspace::Scope scope(workspace);
  const std::size_t n = sequences_.size();
  check_rows(row_starts, n);
  check(!retention().limited(), ErrorKind::kFailedPrecondition,
        "a layer that keeps {} cannot show all of its tokens; use one that keeps all", retention().name());
  begin_reading();
  thread_local std::vector<ops::AttendSequence> parts;
  parts.assign(n, {});
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t length = sequences_[i].length(), n_queries = row_starts[i + 1] - row_starts[i];
    parts[i] = part_of(workspace, sequences_[i],
                       {.first = length - n_queries,
                        .n = n_queries,
                        .first_row = row_starts[i],
                        .n_sealed = sequences_[i].n_sealed()});
    check(parts[i].n_queries == 0 || sequences_[i].length() > 0, ErrorKind::kFailedPrecondition,
          "sequence {} has no token to attend to; append its tokens first", i);
    parts[i].first_query = 0;
    parts[i].n_keys = sequences_[i].length();
  }
  attend_parts(workspace, parts, query, out);
  end_reading();
  if (storage_.rotate_values) ops::rotate_heads(workspace, out, query.n_heads, layout().value_dim);
}

void KvLayer::attend(ops::Workspace& workspace, std::span<const std::int64_t> row_starts, const KeyValueRows& rows,
                     const AttendQuery& query, const ops::Rows& out) {
  const ops::Workspace::Scope scope(workspace);
  const std::size_t n = sequences_.size();
  check_rows(row_starts, n);
  if (n_to_read_ > 0) {  // a pass ended in an error before its last reader
    end_reading();
    let_go();
  }
  const bool attends = query.n_heads > 0;
  KeyValueRows stored = rows;
  if (storage_.rotate_values) {
    stored.values = ops::rotated(workspace, rows.values, rows.value_offset, layout().n_heads, layout().value_dim);
    stored.value_offset = 0;
  }
  if (attends) begin_reading();

  thread_local std::vector<std::int64_t> first_rows, counts, targets;
  thread_local std::vector<ops::AttendSequence> parts;
  first_rows.assign(row_starts.begin(), row_starts.end() - 1);
  counts.assign(n, 0);
  targets.assign(n, 0);
  parts.assign(n, {});
  while (true) {
    const ops::Workspace::Scope piece_scope(workspace);
    bool any = false;
    for (std::size_t i = 0; i < n; ++i) {
      counts[i] = storage_.piece(sequences_[i].length(), row_starts[i + 1] - first_rows[i]);
      targets[i] = counts[i] ? storage_.n_sealed_for(sequences_[i].length()) : 0;
      any = any || counts[i];
    }
    if (!any) break;
    append(workspace, stored, first_rows, counts);
    if (storage_.seals()) seal(workspace, targets);
    if (attends) {
      for (std::size_t i = 0; i < n; ++i) {
        const KvSequence& s = sequences_[i];
        parts[i] = part_of(
            workspace, s,
            {.first = s.length() - counts[i], .n = counts[i], .first_row = first_rows[i], .n_sealed = s.n_sealed()});
      }
      attend_parts(workspace, parts, query, out);
    }
    for (std::size_t i = 0; i < n; ++i) {
      first_rows[i] += counts[i];
      if (!keeps_past()) sequences_[i].let_go(storage_);
    }
  }
  if (attends && storage_.rotate_values) ops::rotate_heads(workspace, out, query.n_heads, layout().value_dim);
  if (attends && storage_.n_readers > 0) {
    n_to_read_ = storage_.n_readers;
    return;
  }
  if (attends) end_reading();
  if (storage_.n_readers > 0) let_go();
}

void KvLayer::attend_again(ops::Workspace& workspace, std::span<const std::int64_t> row_starts,
                           const AttendQuery& query, const ops::Rows& out) {
  const ops::Workspace::Scope scope(workspace);
  const std::size_t n = sequences_.size();
  check_rows(row_starts, n);
  check(n_to_read_ > 0, ErrorKind::kFailedPrecondition,
        "this layer of the cache is read by {} layers besides the one that writes it, and all have read",
        storage_.n_readers);
  thread_local std::vector<std::int64_t> first_rows;
  thread_local std::vector<ops::AttendSequence> parts;
  first_rows.assign(row_starts.begin(), row_starts.end() - 1);
  parts.assign(n, {});
  while (true) {  // in the pieces of `attend`
    const ops::Workspace::Scope piece_scope(workspace);
    bool any = false;
    for (std::size_t i = 0; i < n; ++i) {
      const KvSequence& s = sequences_[i];
      const std::int64_t rest = row_starts[i + 1] - first_rows[i], first = s.length() - rest;
      const std::int64_t count = storage_.piece(first, rest);
      parts[i] =
          part_of(workspace, s,
                  {.first = first, .n = count, .first_row = first_rows[i], .n_sealed = s.n_sealed_at(storage_, first)});
      first_rows[i] += count;
      any = any || count > 0;
    }
    if (!any) break;
    attend_parts(workspace, parts, query, out);
  }
  if (storage_.rotate_values) ops::rotate_heads(workspace, out, query.n_heads, layout().value_dim);
  if (--n_to_read_ > 0) return;
  end_reading();
  let_go();
}

void KvLayer::check_crop(const KvSequence& s, std::int64_t n) const {
  check(n <= s.length(), ErrorKind::kInvalidArgument, "crop: {} tokens cannot be removed from a cache that holds {}", n,
        s.length());
  check(s.can_crop(storage_, n, recording_), ErrorKind::kFailedPrecondition,
        "crop: a layer that keeps {} has let go of what {} tokens less would see; call activate_past_recording() "
        "before the forward pass",
        retention().name(), n);
}

void KvLayer::check_crop(std::int64_t n) const {
  for (const KvSequence& s : sequences_) check_crop(s, n);
}

void KvLayer::shorten(std::int64_t i, std::int64_t length) {
  KvSequence& s = sequences_[static_cast<std::size_t>(i)];
  if (s.length() <= length) return;
  check_crop(s, s.length() - length);
  s.crop(storage_, s.length() - length);
}

std::int64_t KvLayer::blocks_to_crop(std::int64_t n) const {
  std::int64_t total = 0;
  for (const KvSequence& s : sequences_) total += s.needed_to_crop(storage_, n);
  return total;
}

void KvLayer::crop(std::int64_t n) {
  for (KvSequence& s : sequences_) s.crop(storage_, n);
}

}  // namespace mneme
