#pragma once

#include "mneme/kernels/attention_states.h"

/// The running softmax of attention (attention.h) over rows of 64 scores.
namespace mneme::kernels {

/// p as floats, in place of the scores. kFloats: the room of sixteen.
template <class L>
struct FloatProbabilities {
  static constexpr int kFloats = 16;

  static void store(L low, L high, float* p) {
    low.store(p);
    high.store(p + 16);
  }
};

/// The maximum m and the sum l of every row of a call, and what a block's scores do to them. Up to sixteen rows go side
/// by side: what crosses the lanes of a register does so for all of them at once, and no row's exponentials wait for
/// another's maximum.
template <class L>
class Softmax {
 public:
  static constexpr int kRows = 16;

  explicit Softmax(const AttendArgs& args) noexcept
      : args_(args),
        has_terms_(args.softcap != 0 || args.bias.table || !(args.scale > 0)),
        to_log2_(has_terms_ ? kLog2E : args.scale * kLog2E) {
    for (std::int64_t r = 0; r < kMaxAttendRows; r += 16) {
      L::set1(kMinusInfinity).store(m_ + r);
      L::zero().store(l_ + r);
    }
  }

  float maximum(std::int64_t row) const { return m_[row]; }
  float sum(std::int64_t row) const { return l_[row]; }

  /// Whether scores are more than scale q k^T, so that every row has to be masked.
  bool has_terms() const { return has_terms_; }

  /// One row's scores: other terms are added, and those that the query does not see become -infinity.
  [[gnu::noinline]] void mask(float* scores, const VisibleSlots& visible, int n_slots, std::int64_t row,
                              std::int64_t query, std::int64_t block) const noexcept {
    const L scale = L::set1(has_terms_ ? args_.scale : 1.0f);
    const float* bias = nullptr;
    if (args_.bias.table) {
      bias = args_.bias.values((args_.first_row + row) % args_.group, block * kBlockTokens - query);
    }
    for (int slot = 0; slot < kBlockTokens; slot += 16) {
      if (slot >= n_slots) {
        L::set1(kMinusInfinity).store(scores + slot);
        continue;
      }
      L score = L::load(scores + slot) * scale;
      if (args_.softcap != 0) {
        const L cap = L::set1(args_.softcap);
        score = cap * tanh<L>(score / cap);
      }
      if (bias) score = score + L::load(bias + slot);
      L seen = L::keep(score, visible.first - slot, visible.last - slot, kMinusInfinity);
      if (visible.n_sinks) {
        const L is_sink = L::keep(L::set1(1.0f), 0, visible.n_sinks - slot, 0.0f);
        seen = L::if_less(L::zero(), is_sink, score, seen);
      }
      seen.store(scores + slot);
    }
  }

  struct Nothing {
    void operator()() const {}
  };

  /// Of n <= kRows rows, row[i]'s scores [64] become p: one block after another where a row comes several times.
  /// c [n] is what O has to be multiplied with. p_stride: floats from row to row of p. `meanwhile` is called n times.
  template <class Stored, class Meanwhile = Nothing>
  [[gnu::noinline]] void soften(const int* row, int n, const float* scores, float* p, std::int64_t p_stride, float* c,
                                Meanwhile&& meanwhile = {}) noexcept {
    alignas(64) float lanes[kRows][16], largest[kRows], steps[kRows] = {}, minus_m[kRows];
    const int n_taken = side_by_side(n, []<int N>() { return N; });
    for (int i = n; i < n_taken; ++i) L::zero().store(lanes[i]);
    for (int i = 0; i < n; ++i) {
      const float* const s = scores + i * kBlockTokens;
      L::max(L::max(L::load(s), L::load(s + 16)), L::max(L::load(s + 32), L::load(s + 48))).store(lanes[i]);
    }
    across(lanes, n, []<int N>(const L* v) { return L::template largest<N>(v); }).store(largest);
    const bool is_each_once = row[n - 1] - row[0] == n - 1;
    if (is_each_once) {
      float* const m = m_ + row[0];
      const L before = L::load_first(m, n), after = L::max(L::load(largest) * L::set1(to_log2_), before);
      after.store_first(m, n);
      L::if_less(before, after, before - after, L::zero()).store(steps);
      L::if_less(L::set1(kMinusInfinity), after, L::zero() - after, L::zero()).store(minus_m);
    } else {
      for (int i = 0; i < n; ++i) {
        float& m = m_[row[i]];
        const float before = m, here = largest[i] * to_log2_;
        m = here > before ? here : before;
        steps[i] = before < m ? before - m : 0;
        minus_m[i] = kMinusInfinity < m ? -m : 0;  // else the row has seen nothing yet
      }
    }
    const L correction = exp2<L>(L::load(steps)), to_log2 = L::set1(to_log2_);
    for (int i = 0; i < n; ++i, p += p_stride) {
      const float* const s = scores + i * kBlockTokens;
      const L minus = L::set1(minus_m[i]);
      L x[4];
      // The product is rounded as the maximum was: the largest p is 1, whatever the size of scores.
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) x[v] = exp2<L>(L::load(s + 16 * v) * to_log2 + minus);
      Stored::store(x[0], x[1], p);
      Stored::store(x[2], x[3], p + 2 * Stored::kFloats);
      ((x[0] + x[1]) + (x[2] + x[3])).store(lanes[i]);
      meanwhile();
    }
    const L sums = across(lanes, n, []<int N>(const L* v) { return L::template sums<N>(v); });
    correction.store_first(c, n);
    if (is_each_once) {
      float* const l = l_ + row[0];
      L::fma(L::load_first(l, n), correction, sums).store_first(l, n);
    } else {
      sums.store(steps);
      for (int i = 0; i < n; ++i) l_[row[i]] = __builtin_fmaf(l_[row[i]], c[i], steps[i]);
    }
  }

 private:
  /// f for as many rows as n of them are taken for.
  template <class F>
  [[gnu::always_inline]] static auto side_by_side(int n, F f) noexcept {
    if (n <= 4) return f.template operator()<4>();
    return n <= 8 ? f.template operator()<8>() : f.template operator()<kRows>();
  }
  template <class Op>
  [[gnu::always_inline]] static L across(const float (*lanes)[16], int n, Op op) noexcept {
    return side_by_side(
        n, [&]<int N>() __attribute__((always_inline)) {
          L v[N];
          for (int i = 0; i < N; ++i) v[i] = L::load(lanes[i]);
          return op.template operator()<N>(v);
        });
  }

  const AttendArgs& args_;
  const bool has_terms_;
  const float to_log2_;  ///< of what becomes of a score
  alignas(64) float m_[kMaxAttendRows], l_[kMaxAttendRows];
};

}  // namespace mneme::kernels
