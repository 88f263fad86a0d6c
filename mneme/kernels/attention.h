#pragma once

#include "mneme/kernels/softmax.h"
#include "mneme/kernels/tiles.h"

/// Attention over blocks with a running softmax (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022,
/// arXiv:2205.14135). A row's state is (m, l, O); each block that it sees, in order, does
///
///   s = log2(e) mask(softcap(scale q k^T) + bias)     m' = max(m, max s)     c = 2^(m - m')     p = 2^(s - m')
///   l = fma(l, c, sum p)                              O  = O c + p v         m = m'
///
/// where log2(e) scale is one factor if neither softcap nor bias follows. The product p v begins with O c and goes on
/// from there in its format's order; one of codes is added as code_product.h says. What a row gets depends on its query
/// and on the blocks alone: every product has its fixed order, the 64 p are summed in a fixed tree, and a block of
/// finite numbers that the row cannot see changes nothing.
///
/// `attend`, for all formats, is in attention_stepped.h.
namespace mneme::kernels {

/// The rows of one call. Few rows take a **run** of blocks at a time, all scores first, then all p, then all values:
/// what one block has to wait for, the others fill.
template <class L, class Format>
class Attention {
 public:
  /// Some rows and a block: [begin, end) from the first to the last that see some of it, and n_slots, whole vectors
  /// that hold all that they see. Row r's visible slots, scores and correction are those of index shift + r.
  struct Part {
    std::int64_t block, begin, end, shift;
    int n_slots;
    bool whole;  ///< all rows see all of it, and nothing is added to scores

    [[gnu::always_inline]] std::int64_t n_rows() const { return end - begin; }
  };

  Attention(const AttendArgs& args, float* states) noexcept
      : args_(args),
        states_(states),
        softmax_(args),
        most_parts_(kMaxAttendRows / (args.n_rows > 0 ? args.n_rows : 1)) {
    for (std::int64_t r = 0; r < args.n_rows; ++r) query_[r] = args.first_query + (args.first_row + r) / args.group;
  }

  void clear_states() noexcept {
    const std::int64_t n = args_.n_rows * attend_state_floats(args_.value_dim);
    for (std::int64_t i = 0; i < n; i += 16) L::zero().store(states_ + i);
  }
  /// Once all blocks are taken: m and l into the states.
  void finish_states() noexcept {
    for (std::int64_t r = 0; r < args_.n_rows; ++r) {
      state_of(r)[0] = softmax_.maximum(r);
      state_of(r)[1] = softmax_.sum(r);
    }
  }

  /// Makes the run of those blocks from `block` on of which a row sees something. Returns the block after it, or `end`.
  std::int64_t look(std::int64_t block, std::int64_t end) noexcept {
    n_parts_ = 0;
    for (; block < end && n_parts_ < most_parts_; ++block) {
      const Part part = part_of(block, 0, args_.n_rows, n_parts_ * args_.n_rows);
      if (part.end) parts_[n_parts_++] = part;
    }
    return block;
  }
  int n_parts() const { return n_parts_; }
  const Part& part(int i) const { return parts_[i]; }

  /// The run, of raw blocks.
  void take_raw_run() noexcept {
    const std::int64_t key_bytes = raw_key_bytes();
    for (int i = 0; i < n_parts_; ++i) {
      score(parts_[i], tiles_of(parts_[i]));
      ask_for(i + 1 < n_parts_ ? tiles_of(parts_[i + 1]) : tiles_of(parts_[0]) + key_bytes, kAhead);
    }
    soften();
    for (int i = 0; i < n_parts_; ++i) {
      if (i + 1 < n_parts_) ask_for(tiles_of(parts_[i + 1]) + key_bytes, kAhead);
      add_values(parts_[i], tiles_of(parts_[i]) + key_bytes);
    }
  }
  /// The run, of one block whose raw tiles lie elsewhere.
  void take_raw_run(const std::byte* tiles) noexcept {
    score(parts_[0], tiles);
    soften();
    add_values(parts_[0], tiles + raw_key_bytes());
  }

  // The same one by one, where keys or values are not raw, or not all rows go at once.

  /// A block and those of the rows [begin, end) that see something of it; no rows (end is 0) if none does.
  Part part_of(std::int64_t block, std::int64_t begin, std::int64_t end, std::int64_t shift) noexcept {
    Part part{.block = block, .begin = 0, .end = 0, .shift = shift, .n_slots = 0, .whole = !softmax_.has_terms()};
    // Unless two limits take turns, rows between two that see everything do so too.
    if (part.whole && begin < end && !(args_.visibility.window && args_.visibility.chunk) &&
        visible_to(begin, block).whole() && visible_to(end - 1, block).whole()) {
      part.begin = begin, part.end = end, part.n_slots = kBlockTokens;
      return part;
    }
    int last = 0;
    VisibleSlots visible{};
    for (std::int64_t r = begin; r < end; ++r) {
      if (r == begin || query_[r] != query_[r - 1]) {  // the rows of a group are one query's
        visible = visible_to(r, block);
        part.whole = part.whole && visible.whole();
      }
      visible_[shift + r] = visible;
      if (visible.empty()) continue;
      if (part.end == 0) part.begin = r;
      part.end = r + 1;
      last = visible.last > last ? visible.last : last;
    }
    part.n_slots = static_cast<int>(round_up(last, 16));
    return part;
  }

  /// [part.n_rows()][64]: scores, then p.
  float* scores(const Part& part) { return scores_ + (part.shift + part.begin) * kBlockTokens; }

  /// scores = q k^T
  void score(const Part& part, const std::byte* keys) noexcept { format_.product(scoring(part, keys)); }
  ProductArgs scoring(const Part& part, const std::byte* keys) noexcept {
    return {.x = static_cast<const std::byte*>(args_.q) + part.begin * args_.q_stride,
            .x_stride = args_.q_stride,
            .panels = keys,
            .y = scores(part),
            .y_stride = kBlockTokens,
            .n_rows = part.n_rows(),
            .inner = args_.key_dim,
            .n_panels = part.n_slots / kPanel};
  }

  /// The run's scores become p.
  void soften() noexcept {
    int rows[Softmax<L>::kRows], n = 0;
    std::int64_t first = 0;  // index of the waiting ones
    const auto soften_waiting = [&] {
      float* const from = scores_ + first * kBlockTokens;
      if (n) softmax_.template soften<FloatProbabilities<L>>(rows, n, from, from, kBlockTokens, corrections_ + first);
      n = 0;
    };
    for (int i = 0; i < n_parts_; ++i) {
      const Part& part = parts_[i];
      mask(part);
      for (std::int64_t r = part.begin; r < part.end; ++r) {
        if (n == Softmax<L>::kRows || first + n != part.shift + r) soften_waiting();
        if (n == 0) first = part.shift + r;
        rows[n++] = static_cast<int>(r);
      }
    }
    soften_waiting();
  }

  void mask(const Part& part) noexcept {
    if (part.whole) return;
    for (std::int64_t r = part.begin; r < part.end; ++r) {
      const VisibleSlots& visible = visible_[part.shift + r];
      if (!softmax_.has_terms() && visible.whole()) continue;
      float* const row = scores_ + (part.shift + r) * kBlockTokens;
      softmax_.mask(row, visible, part.n_slots, r, query_[r], part.block);
    }
  }

  /// O <- O c + p v
  void add_values(const Part& part, const std::byte* values) noexcept {
    rescale(part);
    const std::int64_t prepared_bytes = Format::prepared_bytes(part.n_slots);
    if (prepared_bytes) Format::prepare(scores(part), kBlockTokens, part.n_rows(), part.n_slots, rounded_);
    // A part-filled block costs only the slots in use. Its panels are then longer than the product takes them for.
    const std::int64_t n_panels = value_panels(), at_once = part.n_slots == kBlockTokens ? n_panels : 1;
    for (std::int64_t panel = 0; panel < n_panels; panel += at_once) {
      format_.product({.x = prepared_bytes ? static_cast<const void*>(rounded_) : scores(part),
                       .x_stride = prepared_bytes ? prepared_bytes : kBlockTokens * std::int64_t{sizeof(float)},
                       .panels = values + panel * panel_bytes(Format::kFormat, kBlockTokens),
                       .y = outputs(part) + panel * kPanel,
                       .y_stride = output_stride(),
                       .n_rows = part.n_rows(),
                       .inner = part.n_slots,
                       .n_panels = at_once,
                       .adds = true});
    }
  }

  /// O <- O c. Mostly c is 1.
  void rescale(const Part& part) noexcept {
    for (std::int64_t r = part.begin; r < part.end; ++r) {
      const float correction = corrections_[part.shift + r];
      if (correction == 1) continue;
      float* const output = state_of(r) + 16;
      for (std::int64_t i = 0; i < args_.value_dim; i += 16) {
        (L::load(output + i) * L::set1(correction)).store(output + i);
      }
    }
  }

  /// Where a part's O are, floats from row to row, and c for each of its rows.
  float* outputs(const Part& part) noexcept { return state_of(part.begin) + 16; }
  std::int64_t output_stride() const noexcept { return attend_state_floats(args_.value_dim); }
  float* corrections(const Part& part) noexcept { return corrections_ + part.shift + part.begin; }

  const AttendArgs& args() const { return args_; }
  Format& format() { return format_; }
  Softmax<L>& softmax() { return softmax_; }
  std::int64_t value_panels() const noexcept { return round_up(args_.value_dim, kPanel) / kPanel; }
  std::int64_t raw_key_bytes() const noexcept {
    return kBlockTokens / kPanel * panel_bytes(Format::kFormat, args_.key_dim);
  }
  /// A raw block's keys; its values lie raw_key_bytes() after them.
  const std::byte* tiles_of(const Part& part) const noexcept {
    return args_.blocks[part.block - args_.first_block] + args_.head_offset;
  }
  /// Room for p as Format prepares it: [kMaxAttendRows] rows of up to 64 floats.
  std::byte* rounded() noexcept { return reinterpret_cast<std::byte*>(rounded_); }

 private:
  /// Inside a block the products and the processor run ahead of themselves, but neither knows where the next one lies:
  /// its beginning is asked for.
  static constexpr std::int64_t kAhead = 2048;

  float* state_of(std::int64_t row) noexcept { return states_ + row * output_stride(); }

  VisibleSlots visible_to(std::int64_t row, std::int64_t block) const noexcept {
    const std::int64_t end = args_.n_keys ? args_.n_keys : query_[row] + 1;
    return VisibleSlots::of(args_.visibility, query_[row], end, block);
  }

  const AttendArgs& args_;
  float* const states_;
  [[no_unique_address]] Format format_;
  Softmax<L> softmax_;
  const std::int64_t most_parts_;
  int n_parts_ = 0;
  Part parts_[kMaxAttendRows];
  std::int64_t query_[kMaxAttendRows];
  VisibleSlots visible_[kMaxAttendRows];
  float corrections_[kMaxAttendRows];
  alignas(64) float scores_[kMaxAttendRows * kBlockTokens];
  alignas(64) float rounded_[kMaxAttendRows * kBlockTokens];  ///< no format takes more than a float
};

}  // namespace mneme::kernels
