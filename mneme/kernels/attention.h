#pragma once

#include <type_traits>

#include "mneme/kernels/math.h"
#include "mneme/kernels/product.h"

/// Attention over blocks with a running softmax (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022,
/// arXiv:2205.14135). A row's state is (m, l, O); each block that it sees, in order, does
///
///   s = mask(softcap(scale q k^T) + bias)     m' = max(m, max s)     c = exp(m - m')     p = exp(s - m')
///   l = fma(l, c, sum p)                      O  = fma(O, c, p v)    m = m'
///
/// What a row gets depends on its query and on the blocks alone: every product has its fixed order, the 64 p are summed
/// in a fixed tree, and a block that the row cannot see changes nothing.
namespace mneme::kernels {

inline constexpr float kMinusInfinity = -__builtin_inff();

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

/// The rows of one call, taken through one block after another.
template <class L, class Format>
class Attention {
 public:
  Attention(const AttendArgs& args, float* states) noexcept : args_(args), states_(states) {
    for (std::int64_t r = 0; r < args.n_rows; ++r) query_[r] = args.first_query + (args.first_row + r) / args.group;
  }

  void clear_states() noexcept {
    for (std::int64_t r = 0; r < args_.n_rows; ++r) {
      float* state = state_of(r);
      for (std::int64_t i = 0; i < attend_state_floats(args_.value_dim); i += 16) L::zero().store(state + i);
      state[0] = kMinusInfinity;
    }
  }

  /// One raw block; the one after it, if any, is asked for meanwhile.
  void take_raw(std::int64_t block, bool has_next) noexcept {
    if (!sees(block)) return;
    const std::byte* const* blocks = args_.blocks + block - args_.first_block;
    take(blocks[0] + args_.head_offset, has_next && blocks[1] ? blocks[1] + args_.head_offset : nullptr);
  }

  /// Whether a row sees some of the block: the rows [begin_, end_) from the first to the last that do, what each of
  /// them sees, and n_slots_: whole vectors that hold all of it.
  bool sees(std::int64_t block) noexcept {
    int last = 0;
    first_token_ = block * kBlockTokens;
    begin_ = end_ = 0;
    for (std::int64_t r = 0; r < args_.n_rows; ++r) {
      const std::int64_t end = args_.n_keys ? args_.n_keys : query_[r] + 1;
      visible_[r] = VisibleSlots::of(args_.visibility, query_[r], end, block);
      if (visible_[r].empty()) continue;
      if (end_ == 0) begin_ = r;
      end_ = r + 1;
      last = visible_[r].last > last ? visible_[r].last : last;
    }
    n_slots_ = static_cast<int>(round_up(last, 16));
    return end_ > 0;
  }

  /// The block that `sees` was asked of: its raw tiles of one head, and those of the next to be read or null.
  void take(const std::byte* tiles, const std::byte* next) noexcept {
    score(tiles);
    if (next) ask_for(next);
    soften();
    add_values(tiles + kBlockTokens / kPanel * panel_bytes(Format::kFormat, args_.key_dim));
  }

  // The same in steps, where keys or values are not raw.

  /// scores = q k^T
  void score(const std::byte* keys) noexcept {
    score([&](std::int64_t first, std::int64_t n_rows, std::int64_t n_panels, float* scores) {
      Format::product({.x = static_cast<const std::byte*>(args_.q) + first * args_.q_stride,
                       .x_stride = args_.q_stride,
                       .panels = keys,
                       .y = scores,
                       .y_stride = kBlockTokens,
                       .n_rows = n_rows,
                       .inner = args_.key_dim,
                       .n_panels = n_panels});
    });
  }
  /// multiply(first row, n_rows, panels of 16 tokens, scores [n_rows][64])
  template <class Multiply>
  void score(const Multiply& multiply) noexcept requires std::is_class_v<Multiply> {
    multiply(begin_, end_ - begin_, n_slots_ / kPanel, scores_ + begin_ * kBlockTokens);
  }

  /// scores become p.
  void soften() noexcept {
    for (std::int64_t r = begin_; r < end_; ++r) {
      if (!visible_[r].empty()) soften(r);
    }
  }

  /// O = fma(O, c, p v)
  void add_values(const std::byte* values) noexcept {
    const std::int64_t n_rows = end_ - begin_, prepared_bytes = Format::prepared_bytes(n_slots_);
    if (prepared_bytes) Format::prepare(scores_ + begin_ * kBlockTokens, kBlockTokens, n_rows, n_slots_, rounded_);
    // A part-filled block costs only the slots in use. Its panels are then longer than the product takes them for.
    const bool whole = n_slots_ == kBlockTokens;
    add_values(whole ? kPanelsAtOnce : 1, [&](const float* p, std::int64_t panel, std::int64_t n, float* products) {
      Format::product({.x = prepared_bytes ? rounded_ : p,
                       .x_stride = prepared_bytes ? prepared_bytes : kBlockTokens * std::int64_t{sizeof(float)},
                       .panels = values + panel * panel_bytes(Format::kFormat, kBlockTokens),
                       .y = products,
                       .y_stride = n * kPanel,
                       .n_rows = n_rows,
                       .inner = n_slots_,
                       .n_panels = n});
    });
  }
  /// multiply(p [n_rows][64], first panel of channels, n <= at_once, products [n_rows][16 n])
  template <class Multiply>
  void add_values(std::int64_t at_once, const Multiply& multiply) noexcept {
    const std::int64_t n_panels = round_up(args_.value_dim, kPanel) / kPanel;
    for (std::int64_t panel = 0; panel < n_panels; panel += at_once) {
      const std::int64_t n = n_panels - panel < at_once ? n_panels - panel : at_once;
      multiply(scores_ + begin_ * kBlockTokens, panel, n, products_);
      for (std::int64_t r = begin_; r < end_; ++r) {
        if (visible_[r].empty()) continue;
        float* output = state_of(r) + 16 + panel * kPanel;
        const float* product = products_ + (r - begin_) * n * kPanel;
        for (std::int64_t i = 0; i < n * kPanel; i += 16) {
          L::fma(L::load(output + i), corrections_[r], L::load(product + i)).store(output + i);
        }
      }
    }
  }

  std::int64_t n_rows() const { return end_ - begin_; }

  static constexpr std::int64_t kPanelsAtOnce = 8;  ///< of values, so that their products stay near

 private:
  static constexpr int kVectors = kBlockTokens / 16;

  float* state_of(std::int64_t row) noexcept { return states_ + row * attend_state_floats(args_.value_dim); }

  /// Inside a block the products and the processor run ahead of themselves, but neither knows where the next one lies.
  static void ask_for(const std::byte* tile) noexcept {
    for (int line = 0; line < 32; ++line) __builtin_prefetch(tile + 64 * line);
  }

  /// scores become p; updates m and l; remembers c.
  void soften(std::int64_t r) noexcept {
    const VisibleSlots& visible = visible_[r];
    const bool sees_all = visible.first == 0 && visible.last == kBlockTokens;
    L x[kVectors];
    if (sees_all && args_.softcap == 0 && !args_.bias.table) {
      for (int v = 0; v < kVectors; ++v) x[v] = L::load(scores_ + r * kBlockTokens + 16 * v) * L::set1(args_.scale);
    } else {
      mask(r, x);
    }
    float* state = state_of(r);
    const float largest = L::max(L::max(x[0], x[1]), L::max(x[2], x[3])).largest();
    const float maximum = largest > state[0] ? largest : state[0];
    for (int v = 0; v < kVectors; ++v) {
      x[v] = exp<L, false>(x[v] - L::set1(maximum));
      x[v].store(scores_ + r * kBlockTokens + 16 * v);
    }
    const float sum = ((x[0] + x[1]) + (x[2] + x[3])).sum();
    // Mostly an earlier block has the largest score, and exp(0) is 1.
    corrections_[r] = maximum == state[0] ? L::set1(1.0f) : exp<L, false>(L::set1(state[0] - maximum));
    state[1] = __builtin_fmaf(state[1], corrections_[r].first(), sum);
    state[0] = maximum;
  }

  /// x = mask(softcap(scale q k^T) + bias)
  [[gnu::noinline]] void mask(std::int64_t r, L (&x)[kVectors]) noexcept {
    const L scale = L::set1(args_.scale), nothing = L::set1(kMinusInfinity);
    const float* scores = scores_ + r * kBlockTokens;
    const float* bias = nullptr;
    if (args_.bias.table) {
      bias = args_.bias.values((args_.first_row + r) % args_.group, first_token_ - query_[r]);
    }
    for (int v = 0; v < kVectors; ++v) {
      const int slot = 16 * v;
      if (slot >= n_slots_) {
        x[v] = nothing;
        continue;
      }
      L score = L::load(scores + slot) * scale;
      if (args_.softcap != 0) {
        const L cap = L::set1(args_.softcap);
        score = cap * tanh<L>(score / cap);
      }
      if (bias) score = score + L::load(bias + slot);
      x[v] = L::keep(score, visible_[r].first - slot, visible_[r].last - slot, kMinusInfinity);
      if (visible_[r].n_sinks) {
        const L is_sink = L::keep(L::set1(1.0f), 0, visible_[r].n_sinks - slot, 0.0f);
        x[v] = L::if_less(L::zero(), is_sink, score, x[v]);
      }
    }
  }

  const AttendArgs& args_;
  float* states_;
  std::int64_t begin_, end_;
  std::int64_t first_token_;  ///< of the block
  int n_slots_;
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
  for (std::int64_t block = begin; block < end; ++block) attention.take_raw(block, block + 1 < end);
}

/// (m, l, O) of two spans: each is brought to the larger maximum, then they add up. A row's l is 0 only if it saw
/// nothing, since the largest p is 1.
template <class L>
void merge_states(float* total, const float* part, std::int64_t n_rows, std::int64_t value_dim) noexcept {
  const std::int64_t n_floats = attend_state_floats(value_dim);
  for (std::int64_t r = 0; r < n_rows; ++r, total += n_floats, part += n_floats) {
    if (part[1] == 0) continue;
    if (total[1] == 0) {
      for (std::int64_t i = 0; i < n_floats; i += 16) L::load(part + i).store(total + i);
      continue;
    }
    const float maximum = part[0] > total[0] ? part[0] : total[0];
    const L of_total = exp<L>(L::set1(total[0] - maximum)), of_part = exp<L>(L::set1(part[0] - maximum));
    // The first vector merges l in lane 1, and m is written over what becomes of it.
    for (std::int64_t i = 0; i < n_floats; i += 16) {
      L::fma(L::load(part + i), of_part, L::load(total + i) * of_total).store(total + i);
    }
    total[0] = maximum;
  }
}

/// With a sink logit s, m' = max(m, s): out = O exp(m - m') / (l exp(m - m') + exp(s - m')). None is s = -inf.
template <class L>
void finish_states(const float* states, std::int64_t n_rows, std::int64_t first_row, std::int64_t group,
                   std::int64_t value_dim, const float* sinks, float* const* out) noexcept {
  for (std::int64_t r = 0; r < n_rows; ++r) {
    const float* state = states + r * attend_state_floats(value_dim);
    const bool saw_nothing = state[1] == 0;
    const float sink = sinks ? sinks[(first_row + r) % group] : kMinusInfinity;
    const float maximum = sink > state[0] ? sink : state[0];
    const L scale = exp<L>(L::set1(state[0] - maximum));
    const L sum = L::fma(L::set1(state[1]), scale, exp<L>(L::set1(sink - maximum)));
    for (std::int64_t i = 0; i < value_dim; i += 16) {
      const L y = saw_nothing ? L::zero() : L::load(state + 16 + i) * scale / sum;
      y.store_first(out[r] + i, static_cast<int>(value_dim - i < 16 ? value_dim - i : 16));
    }
  }
}

}  // namespace mneme::kernels
