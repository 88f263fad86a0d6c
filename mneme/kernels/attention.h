#pragma once

#include <type_traits>

#include "mneme/kernels/attention_states.h"
#include "mneme/kernels/tiles.h"

/// Attention over blocks with a running softmax (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022,
/// arXiv:2205.14135). A row's state is (m, l, O); each block that it sees, in order, does
///
///   s = mask(softcap(scale q k^T) + bias)     m' = max(m, max s)     c = exp(m - m')     p = exp(s - m')
///   l = fma(l, c, sum p)                      O  = fma(O, c, p v)    m = m'
///
/// What a row gets depends on its query and on the blocks alone: every product has its fixed order, the 64 p are summed
/// in a fixed tree, and a block that the row cannot see changes nothing.
namespace mneme::kernels {

/// The slots of one block that a query sees of the keys before `end`: [first, last), and [0, n_sinks) before them.
struct VisibleSlots {
  int first, last, n_sinks;

  [[gnu::always_inline]] bool empty() const { return first >= last; }

  [[gnu::always_inline]] static VisibleSlots of(const Visibility& visibility, std::int64_t query, std::int64_t end,
                                                std::int64_t block) {
    const int first = slot_of(visibility.first_visible(query), block), last = slot_of(end, block);
    const int sinks = slot_of(visibility.sinks, block), n_sinks = sinks < last ? sinks : last;
    if (n_sinks >= first) return {0, last, 0};
    if (first >= last) return {0, n_sinks, 0};
    return {first, last, n_sinks};
  }

 private:
  [[gnu::always_inline]] static int slot_of(std::int64_t token, std::int64_t block) {
    const std::int64_t slot = token - block * kBlockTokens;
    return static_cast<int>(slot < 0 ? 0 : slot > kBlockTokens ? kBlockTokens : slot);
  }
};

/// The rows of one call, taken through the blocks in order. Few rows take a **run** of blocks at a time, all scores
/// first, then all p, then all values: what one block has to wait for, the others fill.
template <class L, class Format>
class Attention {
 public:
  /// A block of the run: the rows [begin, end) from the first to the last that see some of it, and n_slots, whole
  /// vectors that hold all that they see. Row r's visible slots, scores and correction are those of index first + r.
  struct Part {
    std::int64_t block, begin, end, first;
    int n_slots;

    [[gnu::always_inline]] std::int64_t n_rows() const { return end - begin; }
  };

  Attention(const AttendArgs& args, float* states) noexcept
      : args_(args), states_(states), most_parts_(kMaxAttendRows / (args.n_rows > 0 ? args.n_rows : 1)) {
    for (std::int64_t r = 0; r < args.n_rows; ++r) query_[r] = args.first_query + (args.first_row + r) / args.group;
  }

  void clear_states() noexcept {
    for (std::int64_t r = 0; r < args_.n_rows; ++r) {
      float* state = state_of(r);
      for (std::int64_t i = 0; i < attend_state_floats(args_.value_dim); i += 16) L::zero().store(state + i);
      state[0] = kMinusInfinity;
    }
  }

  /// Makes the run of those blocks from `block` on of which a row sees something. Returns the block after it, or `end`.
  std::int64_t look(std::int64_t block, std::int64_t end) noexcept {
    n_parts_ = 0;
    for (; block < end && n_parts_ < most_parts_; ++block) add_part(block);
    return block;
  }
  int n_parts() const { return n_parts_; }
  const Part& part(int i) const { return parts_[i]; }

  /// The raw blocks [block, end).
  void take_raw(std::int64_t block, std::int64_t end) noexcept {
    while (block < end) {
      block = look(block, end);
      take_raw_run();
    }
  }

  /// The run, of one block whose raw tiles lie elsewhere.
  void take_raw(const std::byte* tiles) noexcept {
    score(parts_[0], tiles);
    soften();
    add_values(parts_[0], tiles + raw_key_bytes());
  }

  // The same in steps, where keys or values are not raw.

  /// [part.n_rows()][64]: scores, then p.
  float* scores(const Part& part) { return scores_ + (part.first + part.begin) * kBlockTokens; }

  /// scores = q k^T
  void score(const Part& part, const std::byte* keys) noexcept {
    format_.product({.x = static_cast<const std::byte*>(args_.q) + part.begin * args_.q_stride,
                     .x_stride = args_.q_stride,
                     .panels = keys,
                     .y = scores(part),
                     .y_stride = kBlockTokens,
                     .n_rows = part.n_rows(),
                     .inner = args_.key_dim,
                     .n_panels = part.n_slots / kPanel});
  }

  /// The run's scores become p.
  void soften() noexcept {
    const bool has_terms = args_.softcap != 0 || args_.bias.table;  // besides q k^T
    Row rows[kTogether];
    int n = 0;
    const auto soften_waiting = [&] {
      if (n) with_constant<kTogether>(n, [&]<int R>() { soften_plain<R>(rows); });
      n = 0;
    };
    for (int i = 0; i < n_parts_; ++i) {
      const Part& part = parts_[i];
      for (std::int64_t r = part.begin; r < part.end; ++r) {
        const VisibleSlots& visible = visible_[part.first + r];
        if (visible.empty()) continue;
        if (has_terms || visible.first > 0 || visible.last < kBlockTokens) {
          soften_waiting();
          soften_masked(part, r);
          continue;
        }
        rows[n++] = {.index = part.first + r, .state = state_of(r)};
        if (n == kTogether) soften_waiting();
      }
    }
    soften_waiting();
  }

  /// O = fma(O, c, p v)
  void add_values(const Part& part, const std::byte* values) noexcept {
    const std::int64_t prepared_bytes = Format::prepared_bytes(part.n_slots);
    if (prepared_bytes) {
      Format::prepare(scores_ + (part.first + part.begin) * kBlockTokens, kBlockTokens, part.n_rows(), part.n_slots,
                      rounded_);
    }
    // A part-filled block costs only the slots in use. Its panels are then longer than the product takes them for.
    const std::int64_t at_once = part.n_slots == kBlockTokens ? kPanelsAtOnce : 1;
    const std::int64_t n_panels = round_up(args_.value_dim, kPanel) / kPanel;
    for (std::int64_t panel = 0; panel < n_panels; panel += at_once) {
      const std::int64_t n = n_panels - panel < at_once ? n_panels - panel : at_once;
      format_.product({.x = prepared_bytes ? static_cast<const void*>(rounded_) : scores(part),
                       .x_stride = prepared_bytes ? prepared_bytes : kBlockTokens * std::int64_t{sizeof(float)},
                       .panels = values + panel * panel_bytes(Format::kFormat, kBlockTokens),
                       .y = products(part, n),
                       .y_stride = n * kPanel,
                       .n_rows = part.n_rows(),
                       .inner = part.n_slots,
                       .n_panels = n});
      add_products(part, panel, n);
    }
  }

  /// [part.n_rows()][16 n]: p v, of n <= kPanelsAtOnce panels of channels.
  float* products(const Part& part, std::int64_t n) { return products_ + (part.first + part.begin) * n * kPanel; }

  /// O = fma(O, c, products) in n panels from `panel` on.
  void add_products(const Part& part, std::int64_t panel, std::int64_t n) noexcept {
    const float* product = products(part, n);
    for (std::int64_t r = part.begin; r < part.end; ++r, product += n * kPanel) {
      if (visible_[part.first + r].empty()) continue;
      float* output = state_of(r) + 16 + panel * kPanel;
      const L correction = corrections_[part.first + r];
      for (std::int64_t i = 0; i < n * kPanel; i += 16) {
        L::fma(L::load(output + i), correction, L::load(product + i)).store(output + i);
      }
    }
  }

  static constexpr std::int64_t kPanelsAtOnce = 8;  ///< of values, so that their products stay near

 private:
  static constexpr int kVectors = kBlockTokens / 16;
  static constexpr int kTogether = L::kSoftRows;  ///< rows whose scores the registers hold

  float* state_of(std::int64_t row) noexcept { return states_ + row * attend_state_floats(args_.value_dim); }

  std::int64_t raw_key_bytes() const noexcept {
    return kBlockTokens / kPanel * panel_bytes(Format::kFormat, args_.key_dim);
  }

  void take_raw_run() noexcept {
    const auto tile = [&](int i) { return args_.blocks[parts_[i].block - args_.first_block] + args_.head_offset; };
    const std::int64_t key_bytes = raw_key_bytes();
    for (int i = 0; i < n_parts_; ++i) {
      score(parts_[i], tile(i));
      ask_for(i + 1 < n_parts_ ? tile(i + 1) : tile(0) + key_bytes);
    }
    soften();
    for (int i = 0; i < n_parts_; ++i) {
      if (i + 1 < n_parts_) ask_for(tile(i + 1) + key_bytes);
      add_values(parts_[i], tile(i) + key_bytes);
    }
  }

  void add_part(std::int64_t block) noexcept {
    Part part{.block = block, .begin = 0, .end = 0, .first = n_parts_ * args_.n_rows, .n_slots = 0};
    int last = 0;
    VisibleSlots visible{};
    for (std::int64_t r = 0; r < args_.n_rows; ++r) {
      if (r == 0 || query_[r] != query_[r - 1]) {  // the rows of a group are one query's
        const std::int64_t end = args_.n_keys ? args_.n_keys : query_[r] + 1;
        visible = VisibleSlots::of(args_.visibility, query_[r], end, block);
      }
      visible_[part.first + r] = visible;
      if (visible.empty()) continue;
      if (part.end == 0) part.begin = r;
      part.end = r + 1;
      last = visible.last > last ? visible.last : last;
    }
    part.n_slots = static_cast<int>(round_up(last, 16));
    if (part.end) parts_[n_parts_++] = part;
  }

  /// Inside a block the products and the processor run ahead of themselves, but neither knows where the next one lies.
  static void ask_for(const std::byte* tile) noexcept {
    for (int line = 0; line < 32; ++line) __builtin_prefetch(tile + 64 * line);
  }

  /// A row of a part: where its scores and correction are, and its state.
  struct Row {
    std::int64_t index;
    float* state;
  };

  /// Rows that see whole blocks. What crosses the lanes of a register does so for several of them at once.
  template <int R>
  [[gnu::noinline]] void soften_plain(const Row* rows) noexcept {
    const L scale = L::set1(args_.scale);
    L x[R][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) x[r][v] = L::load(scores_ + rows[r].index * kBlockTokens + 16 * v) * scale;
    }
    soften<R>(rows, x);
  }

  [[gnu::noinline]] void soften_masked(const Part& part, std::int64_t r) noexcept {
    const Row row{.index = part.first + r, .state = state_of(r)};
    L x[1][kVectors];
    mask(part, r, x[0]);
    soften<1>(&row, x);
  }

  /// x become p; updates m and l, row after row; remembers c.
  template <int R>
  [[gnu::always_inline]] void soften(const Row* rows, L (&x)[R][kVectors]) noexcept {
    L lanes[R];
    float crossed[16];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) lanes[r] = L::max(L::max(x[r][0], x[r][1]), L::max(x[r][2], x[r][3]));
    if constexpr (R == 1) {
      crossed[0] = lanes[0].largest();
    } else {
      L::template largest<R>(lanes).store(crossed);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float* const state = rows[r].state;
      const float before = state[0], maximum = crossed[r] > before ? crossed[r] : before;
      // Mostly an earlier block has the largest score, and exp(0) is 1.
      corrections_[rows[r].index] = maximum == before ? L::set1(1.0f) : exp<L, false>(L::set1(before - maximum));
      state[0] = maximum;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        x[r][v] = exp<L, false>(x[r][v] - L::set1(maximum));
        x[r][v].store(scores_ + rows[r].index * kBlockTokens + 16 * v);
      }
      lanes[r] = (x[r][0] + x[r][1]) + (x[r][2] + x[r][3]);
    }
    if constexpr (R == 1) {
      crossed[0] = lanes[0].sum();
    } else {
      L::template sums<R>(lanes).store(crossed);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      float* const state = rows[r].state;
      state[1] = __builtin_fmaf(state[1], corrections_[rows[r].index].first(), crossed[r]);
    }
  }

  /// x = mask(softcap(scale q k^T) + bias)
  [[gnu::noinline]] void mask(const Part& part, std::int64_t r, L (&x)[kVectors]) noexcept {
    const L scale = L::set1(args_.scale), nothing = L::set1(kMinusInfinity);
    const float* scores = scores_ + (part.first + r) * kBlockTokens;
    const VisibleSlots& visible = visible_[part.first + r];
    const float* bias = nullptr;
    if (args_.bias.table) {
      bias = args_.bias.values((args_.first_row + r) % args_.group, part.block * kBlockTokens - query_[r]);
    }
    for (int v = 0; v < kVectors; ++v) {
      const int slot = 16 * v;
      if (slot >= part.n_slots) {
        x[v] = nothing;
        continue;
      }
      L score = L::load(scores + slot) * scale;
      if (args_.softcap != 0) {
        const L cap = L::set1(args_.softcap);
        score = cap * tanh<L>(score / cap);
      }
      if (bias) score = score + L::load(bias + slot);
      x[v] = L::keep(score, visible.first - slot, visible.last - slot, kMinusInfinity);
      if (visible.n_sinks) {
        const L is_sink = L::keep(L::set1(1.0f), 0, visible.n_sinks - slot, 0.0f);
        x[v] = L::if_less(L::zero(), is_sink, score, x[v]);
      }
    }
  }

  const AttendArgs& args_;
  float* states_;
  [[no_unique_address]] Format format_;
  const std::int64_t most_parts_;
  int n_parts_ = 0;
  Part parts_[kMaxAttendRows];
  std::int64_t query_[kMaxAttendRows];
  VisibleSlots visible_[kMaxAttendRows];
  L corrections_[kMaxAttendRows];
  alignas(64) float scores_[kMaxAttendRows * kBlockTokens];
  alignas(64) float rounded_[kMaxAttendRows * kBlockTokens];  ///< p prepared: no format takes more than a float
  alignas(64) float products_[kMaxAttendRows * kPanelsAtOnce * kPanel];
};

template <class L, class Format>
void attend(const AttendArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept {
  Attention<L, Format> attention(args, states);
  attention.clear_states();
  attention.take_raw(begin, end);
}

}  // namespace mneme::kernels
