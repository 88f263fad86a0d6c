#pragma once

#include "mneme/kernels/attention.h"

namespace mneme::kernels {

/// Attention of many rows, where products can be made in steps between which the processor has other work
/// (Format::Steps): groups of rows by a block take turns, and while the scores of one turn become p, the tiles multiply
/// the scores of the next and the values of the last. Scores and p are read by the turn after the one that wrote them:
/// a tile that is loaded waits until what was stored there has left the core.
template <class L, class Format>
class SteppedAttention {
 public:
  static constexpr std::int64_t kRows = Format::Steps::kRows;

  explicit SteppedAttention(Attention<L, Format>& attention) noexcept : attention_(attention) {}

  /// The raw blocks [begin, end).
  void take(std::int64_t begin, std::int64_t end) noexcept {
    block_ = begin, end_ = end;
    Part next = next_part(), now{}, last{};
    while (next.end || now.end || last.end) {
      if (last.end) attention_.rescale(last);
      Products products{*this, next, now, last};
      if (now.end) soften(now, products);
      products.finish();
      last = now, now = next;
      if (next.end) next = next_part();
    }
  }

 private:
  using Part = typename Attention<L, Format>::Part;
  using Steps = typename Format::Steps;
  static constexpr std::int64_t kTurns = 3;  ///< under way at a time
  static_assert(kTurns * kRows <= kMaxAttendRows && kRows <= Softmax<L>::kRows);

  /// All rows by a block, group after group, then by the next one. No rows (end is 0) after the last.
  Part next_part() noexcept {
    const std::int64_t n_rows = attention_.args().n_rows;
    while (block_ < end_) {
      const std::int64_t block = block_, first = row_, end = first + kRows < n_rows ? first + kRows : n_rows;
      row_ = end < n_rows ? end : 0;
      if (row_ == 0) ++block_;
      const Part part = attention_.part_of(block, first, end, n_parts_ % kTurns * kRows - first);
      if (part.end) return ++n_parts_, part;
    }
    return {};
  }

  /// A turn's products: called after each row of `now`, it takes so many steps that all are made when the rows are.
  class Products {
   public:
    Products(SteppedAttention& turns, const Part& next, const Part& now, const Part& last) noexcept
        : turns_(turns), next_(next), last_(last), n_rows_(now.n_rows()) {
      auto& attention = turns.attention_;
      const std::int64_t n_values = last.end ? attention.value_panels() : 0,
                         n_keys = next.end ? next.n_slots / kPanel : 0;
      n_steps_ = n_keys * Steps::of_a_panel(attention.args().key_dim) + n_values * Steps::of_a_panel(last.n_slots);
      n_products_ = 1 + (n_values + Steps::kPanels - 1) / Steps::kPanels;
      start();
    }
    void operator()() noexcept {
      for (due_ += n_steps_; due_ >= n_rows_; due_ -= n_rows_) step();
    }
    void finish() noexcept {
      while (!steps_.done()) step();
    }

   private:
    void step() noexcept {
      steps_.step();
      if (steps_.done()) start();
    }
    void start() noexcept {
      while (product_ < n_products_) {
        const std::int64_t product = product_++;
        if (product > 0) return add_values((product - 1) * Steps::kPanels);
        if (next_.end) return score();
      }
    }
    void score() noexcept {
      auto& attention = turns_.attention_;
      steps_ = {attention.format(), attention.scoring(next_, attention.tiles_of(next_)),
                panel_bytes(Format::kFormat, attention.args().key_dim)};
    }
    void add_values(std::int64_t panel) noexcept {
      auto& attention = turns_.attention_;
      const std::int64_t bytes = panel_bytes(Format::kFormat, kBlockTokens), rest = attention.value_panels() - panel;
      const ProductArgs args{.x = turns_.rounded(last_),
                             .x_stride = kRowBytes,
                             .panels = attention.tiles_of(last_) + attention.raw_key_bytes() + panel * bytes,
                             .y = attention.outputs(last_) + panel * kPanel,
                             .y_stride = attention.output_stride(),
                             .n_rows = last_.n_rows(),
                             .inner = last_.n_slots,
                             .n_panels = rest < Steps::kPanels ? rest : Steps::kPanels,
                             .adds = true};
      steps_ = {attention.format(), args, bytes};
    }

    SteppedAttention& turns_;
    const Part &next_, &last_;
    const std::int64_t n_rows_;
    std::int64_t n_steps_, due_ = 0;  ///< due_: of steps, in parts of n_rows_
    std::int64_t product_ = 0, n_products_;
    Steps steps_;
  };

  void soften(const Part& part, Products& products) noexcept {
    int rows[kRows];
    for (int i = 0; i < part.n_rows(); ++i) rows[i] = static_cast<int>(part.begin) + i;
    attention_.mask(part);
    attention_.softmax().template soften<typename Format::Probabilities>(
        rows, static_cast<int>(part.n_rows()), attention_.scores(part), reinterpret_cast<float*>(rounded(part)),
        kRowBytes / std::int64_t{sizeof(float)}, attention_.corrections(part), products);
  }

  static constexpr std::int64_t kRowBytes = Format::prepared_bytes(kBlockTokens);
  std::byte* rounded(const Part& part) noexcept { return attention_.rounded() + (part.shift + part.begin) * kRowBytes; }

  Attention<L, Format>& attention_;
  std::int64_t block_ = 0, end_ = 0, row_ = 0, n_parts_ = 0;
};

/// The raw blocks [block, end).
template <class L, class Format>
void take_raw(Attention<L, Format>& attention, std::int64_t block, std::int64_t end) noexcept {
  if constexpr (requires { typename Format::Steps; }) {
    if (attention.args().n_rows >= Format::Steps::kRows) return SteppedAttention<L, Format>(attention).take(block, end);
  }
  while (block < end) {
    block = attention.look(block, end);
    attention.take_raw_run();
  }
}

template <class L, class Format>
void attend(const AttendArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept {
  Attention<L, Format> attention(args, states);
  attention.clear_states();
  take_raw(attention, begin, end);
  attention.finish_states();
}

}  // namespace mneme::kernels
