#include "mneme/ops/attention.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/base/thread_pool.h"
#include "mneme/kernels/code_kernels.h"
#include "mneme/ops/attention_aten.h"

namespace mneme::ops {
namespace {

using kernels::kBlockTokens;
using kernels::kMaxAttendRows;
using kernels::kSpanBlocks;

constexpr std::int64_t kSpanTokens = kSpanBlocks * kBlockTokens;

/// Up to kMaxAttendRows query rows of one key/value head: what one task computes.
struct Tile {
  const AttendSequence* sequence;
  std::int64_t kv_head, first_row, n_rows;
};

/// The query rows of a tile: as they are, and as the cache's format wants them.
struct Queries {
  const float* floats;
  const void* prepared;
};

/// Memory that starts with a cache line, kept from one call to the next.
class Lines {
 public:
  std::byte* bytes(std::int64_t n) {
    const std::size_t n_lines = static_cast<std::size_t>(n) / sizeof(Line) + 1;
    if (lines_.size() < n_lines) lines_.resize(n_lines);
    return lines_.front().bytes;
  }
  float* floats(std::int64_t n) { return reinterpret_cast<float*>(bytes(n * std::int64_t{sizeof(float)})); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

class Attention {
 public:
  Attention(Workspace& workspace, const AttendOptions& options, const Rows& q, std::int64_t q_offset, const Rows& out)
      : options_(options),
        q_(q),
        q_offset_(q_offset),
        out_(out),
        group_(options.n_heads / options.layout.n_heads),
        table_(kernels::active()),
        format_(table_.of(options.layout.format)),
        state_floats_(kernels::attend_state_floats(options.layout.value_dim)),
        sinks_(options.sinks.defined() ? options.sinks.const_data_ptr<float>() : nullptr),
        bias_{.table = options.relative_bias.defined() ? options.relative_bias.const_data_ptr<float>() : nullptr,
              .reach = options.relative_bias.defined() ? reach_of_bias(options.relative_bias.size(1)) : 0},
        workspace_(workspace) {}

  void run(std::span<const AttendSequence> sequences) {
    std::int64_t n_tiles = 0, most_spans = 0;
    for (const AttendSequence& s : sequences) {
      n_tiles += options_.layout.n_heads * tiles_of(s);
      if (s.n_queries) most_spans = std::max(most_spans, (end_of(s, s.n_queries - 1) - 1) / kSpanTokens + 1);
    }
    const std::int64_t threads = ThreadPool::global().size();
    // Few tiles over a long past (decoding): threads share the spans of a tile. Otherwise a task merges its own.
    if (most_spans > 1 && n_tiles < 4 * threads) {
      run_spans(sequences, n_tiles, most_spans);
    } else {
      ThreadPool::global().run(n_tiles, [&](std::int64_t i) noexcept { run_tile(tile(sequences, i)); });
    }
  }

 private:
  /// One past the last key that a query of a sequence may see.
  static std::int64_t end_of(const AttendSequence& s, std::int64_t query) {
    return s.n_keys ? s.n_keys : s.first_query + query + 1;
  }
  /// The same for the rows of a tile.
  std::int64_t end_of(const Tile& tile) const {
    return end_of(*tile.sequence, (tile.first_row + tile.n_rows - 1) / group_);
  }

  std::int64_t tiles_of(const AttendSequence& s) const {
    return (s.n_queries * group_ + kMaxAttendRows - 1) / kMaxAttendRows;
  }

  Tile tile(std::span<const AttendSequence> sequences, std::int64_t i) const {
    for (const AttendSequence& s : sequences) {
      const std::int64_t tiles = tiles_of(s), count = tiles * options_.layout.n_heads;
      if (i < count) {
        const std::int64_t first = i % tiles * kMaxAttendRows;
        return {&s, i / tiles, first, std::min(kMaxAttendRows, s.n_queries * group_ - first)};
      }
      i -= count;
    }
    return {};
  }

  /// Spans that some row of the tile sees: those of the sinks, then those of the window.
  template <class F>
  void each_span(const Tile& tile, F&& f) const {
    const std::int64_t first_query = tile.sequence->first_query + tile.first_row / group_;
    const std::int64_t first = options_.visibility.first_visible(first_query) / kSpanTokens;
    const std::int64_t sink_end = std::min((options_.visibility.sinks + kSpanTokens - 1) / kSpanTokens, first);
    for (std::int64_t span = 0; span < sink_end; ++span) f(span);
    for (std::int64_t span = first; span <= (end_of(tile) - 1) / kSpanTokens; ++span) f(span);
  }

  /// Query rows of a tile, gathered head by head and rounded as the cache's format wants them.
  void gather(const Tile& tile, float* gathered, std::byte* prepared) const {
    const std::int64_t dim = options_.layout.key_dim;
    for (std::int64_t r = 0; r < tile.n_rows; ++r) {
      const std::int64_t token = (tile.first_row + r) / group_,
                         head = tile.kv_head * group_ + (tile.first_row + r) % group_;
      std::copy_n(q_.row(tile.sequence->first_row + token) + q_offset_ + head * dim, dim, gathered + r * dim);
    }
    if (format_.prepared_bytes(dim)) format_.prepare(gathered, dim, tile.n_rows, dim, prepared);
  }

  void attend_span(const Tile& tile, const Queries& q, std::int64_t span, float* states) const {
    const AttendSequence& s = *tile.sequence;
    const std::int64_t first_block = span * kSpanBlocks;
    const std::int64_t end = std::min(first_block + kSpanBlocks, (end_of(tile) - 1) / kBlockTokens + 1);
    kernels::RelativeBias bias = bias_;
    if (bias.table) bias.table += tile.kv_head * group_ * bias.floats_per_head(bias.reach);
    const std::byte* const* blocks = s.spans[static_cast<std::size_t>(span - s.first_span)];
    const kernels::AttendArgs args{.q = q.prepared,
                                   .q_stride = prepared_stride(),
                                   .n_rows = tile.n_rows,
                                   .first_row = tile.first_row,
                                   .group = group_,
                                   .first_query = s.first_query,
                                   .n_keys = s.n_keys,
                                   .blocks = blocks,
                                   .first_block = first_block,
                                   .head_offset = tile.kv_head * options_.layout.head_bytes(),
                                   .key_dim = options_.layout.key_dim,
                                   .value_dim = options_.layout.value_dim,
                                   .scale = options_.scale,
                                   .softcap = options_.softcap,
                                   .visibility = options_.visibility,
                                   .bias = bias};
    if (first_block >= s.n_sealed) return format_.attend(args, first_block, end, states);
    thread_local Lines scratch;
    table_.codes->of(options_.layout.format)
        .attend({.raw = args,
                 .q = q.floats,
                 .codes = options_.codes,
                 .head = tile.kv_head,
                 .sealed = blocks,
                 .n_sealed = s.n_sealed,
                 .scratch = scratch.bytes(kernels::decode_scratch_bytes(*options_.codes))},
                first_block, end, states);
  }

  void finish(const Tile& tile, const float* states) const {
    float* rows[kMaxAttendRows];
    for (std::int64_t r = 0; r < tile.n_rows; ++r) {
      const std::int64_t token = (tile.first_row + r) / group_,
                         head = tile.kv_head * group_ + (tile.first_row + r) % group_;
      rows[r] = out_.row(tile.sequence->first_row + token) + head * options_.layout.value_dim;
    }
    table_.finish_states(states, tile.n_rows, tile.first_row, group_, options_.layout.value_dim,
                         sinks_ ? sinks_ + tile.kv_head * group_ : nullptr, rows);
  }

  std::int64_t prepared_stride() const {
    const std::int64_t prepared = format_.prepared_bytes(options_.layout.key_dim);
    return prepared ? prepared : options_.layout.key_dim * static_cast<std::int64_t>(sizeof(float));
  }

  void run_tile(const Tile& tile) const {
    thread_local Lines gathered, prepared, states, part;
    float* const q_floats = gathered.floats(kMaxAttendRows * options_.layout.key_dim);
    std::byte* const q_prepared = prepared.bytes(kMaxAttendRows * prepared_stride());
    float* const total = states.floats(kMaxAttendRows * state_floats_);
    float* const one = part.floats(kMaxAttendRows * state_floats_);
    gather(tile, q_floats, q_prepared);
    const bool as_is = format_.prepared_bytes(options_.layout.key_dim) == 0;
    const Queries q{q_floats, as_is ? static_cast<const void*>(q_floats) : q_prepared};
    bool first = true;
    each_span(tile, [&](std::int64_t span) {
      attend_span(tile, q, span, first ? total : one);
      if (!first) table_.merge_states(total, one, tile.n_rows, options_.layout.value_dim);
      first = false;
    });
    finish(tile, total);
  }

  void run_spans(std::span<const AttendSequence> sequences, std::int64_t n_tiles, std::int64_t most_spans) {
    const Workspace::Scope scope(workspace_);
    const std::int64_t stride = prepared_stride(), tile_floats = kMaxAttendRows * state_floats_;
    const bool as_is = format_.prepared_bytes(options_.layout.key_dim) == 0;
    const std::int64_t gathered_floats = kMaxAttendRows * options_.layout.key_dim;
    float* gathered = workspace_.floats(n_tiles * gathered_floats);
    std::byte* prepared =
        as_is ? reinterpret_cast<std::byte*>(gathered) : workspace_.bytes(n_tiles * kMaxAttendRows * stride);
    float* states = workspace_.floats(n_tiles * most_spans * tile_floats);
    for (std::int64_t i = 0; i < n_tiles; ++i) {
      gather(tile(sequences, i), gathered + i * gathered_floats, prepared + i * kMaxAttendRows * stride);
    }
    ThreadPool::global().run(n_tiles * most_spans, [&](std::int64_t task) noexcept {
      const std::int64_t i = task / most_spans, wanted = task % most_spans;
      const Tile t = tile(sequences, i);
      each_span(t, [&](std::int64_t span) {
        if (span == wanted)
          attend_span(t, {gathered + i * gathered_floats, prepared + i * kMaxAttendRows * stride}, span,
                      states + task * tile_floats);
      });
    });
    for (std::int64_t i = 0; i < n_tiles; ++i) {
      const Tile t = tile(sequences, i);
      float* total = nullptr;
      each_span(t, [&](std::int64_t span) {
        float* part = states + (i * most_spans + span) * tile_floats;
        if (total) table_.merge_states(total, part, t.n_rows, options_.layout.value_dim);
        if (!total) total = part;
      });
      finish(t, total);
    }
  }

  const AttendOptions& options_;
  const Rows& q_;
  const std::int64_t q_offset_;
  const Rows& out_;
  const std::int64_t group_;
  const kernels::Table& table_;
  const kernels::FormatKernels& format_;
  const std::int64_t state_floats_;
  const float* sinks_;
  const kernels::RelativeBias bias_;
  Workspace& workspace_;
};

}  // namespace

std::int64_t reach_of_bias(std::int64_t floats_per_head) {
  const std::int64_t reach = (floats_per_head + 1) / 2 - kBlockTokens;
  check(reach >= 0 && kernels::RelativeBias::floats_per_head(reach) == floats_per_head, ErrorKind::kInvalidArgument,
        "attention: a relative bias of {} values a head reaches no whole number of tokens; it has 2 (reach + {}) - 1",
        floats_per_head, kBlockTokens);
  return reach;
}

void attend(Workspace& workspace, std::span<const AttendSequence> sequences, const AttendOptions& options,
            const Rows& q, std::int64_t q_offset, const Rows& out) {
  const kernels::BlockLayout& layout = options.layout;
  check(layout.n_heads > 0 && options.n_heads % layout.n_heads == 0, ErrorKind::kInvalidArgument,
        "attention: {} query heads are not a multiple of {} key/value heads", options.n_heads, layout.n_heads);
  check(q_offset + options.n_heads * layout.key_dim <= q.width && options.n_heads * layout.value_dim == out.width &&
            q.n == out.n,
        ErrorKind::kInvalidArgument, "attention: q [{}, {}] at {} and out [{}, {}] do not fit {} heads of {} and {}",
        q.n, q.width, q_offset, out.n, out.width, options.n_heads, layout.key_dim, layout.value_dim);
  check(!options.relative_bias.defined() ||
            (options.relative_bias.dim() == 2 && options.relative_bias.size(0) == options.n_heads),
        ErrorKind::kInvalidArgument, "attention: the relative bias is [{}], it must be [{}, values a head]",
        fmt::join(options.relative_bias.defined() ? options.relative_bias.sizes() : at::IntArrayRef(), ", "),
        options.n_heads);
  for (const AttendSequence& s : sequences) {
    check(s.n_sealed == 0 || (options.codes && options.codes->raw == layout), ErrorKind::kInvalidArgument,
          "attention: {} blocks are encoded, but no codes of this layout were given", s.n_sealed);
  }
  if (!workspace.uses_kernels()) return attend_through_aten(workspace, sequences, options, q, q_offset, out);
  Attention(workspace, options, q, q_offset, out).run(sequences);
}

}  // namespace mneme::ops
