#pragma once

#include <cstring>
#include <type_traits>

#include "mneme/kernels/coded_panel.h"
#include "mneme/kernels/tiles.h"

namespace mneme::kernels {

/// Panels of integers times rows of integers. A row is rounded to int8 in runs of 64, x = a c with a = max|x| / 127.
/// Sums of integers are exact in any order, so what fixes an output's bits is the chain over runs, from zero:
///
///   y <- fma(float(sum W c), (16 S) (a / 16), y)
///
/// with S and W as in coded_panel.h; float() rounds to the nearest where a sum has more than 24 bits.
template <class L, WeightFormat kStored>
struct CodedProduct {
  using Block = CodedBlock<kStored>;
  using Words = typename L::Words;
  static constexpr CodedFormat kCoded = Block::kCoded;
  static constexpr WeightFormat kFormat = kStored;

  /// A prepared row: codes [runs][64] int8, a / 16 [runs] float, sums of 32 codes [runs][2] float, of 16
  /// [runs][4] int32.
  static std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return spread_row_bytes(round_up(n_runs(inner) * (kRun + 7 * 4), 64));
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    const std::int64_t bytes = prepared_bytes(inner);
    for (std::int64_t m = 0; m < n_rows; ++m) {
      const Row row(static_cast<std::byte*>(out) + m * bytes, inner);
      const float* const from = x + m * x_stride;
      std::int64_t run = 0;
      for (; run + 4 <= inner / kRun; run += 4) round_runs<4, 4>(from + run * kRun, row, run);
      for (; run < inner / kRun; ++run) round_runs<1, 4>(from + run * kRun, row, run);
      if (inner % kRun) round_runs<1, 2>(from + run * kRun, row, run);
    }
  }

  static void product(const ProductArgs& args) noexcept {
    constexpr std::int64_t kRowBlock = 64;  // rows that stay in the second-level cache while panels pass by
    const std::int64_t bytes = Block::blocks(args.inner) * Block::kBytes;
    for (std::int64_t m = 0; m < args.n_rows; m += kRowBlock) {
      const std::int64_t end = m + kRowBlock < args.n_rows ? m + kRowBlock : args.n_rows;
      for (std::int64_t p = 0; p < args.n_panels; ++p) {
        const auto* panel = static_cast<const std::byte*>(args.panels) + p * bytes;
        for (std::int64_t r = m; r < end;) {
          const std::int64_t n = rows_of_tile<kTileRows>(end - r);
          with_constant<kTileRows>(n, [&]<int R>() { tile<R>(args, panel, r, p, r == m); });
          r += n;
        }
      }
    }
  }

 protected:
  static constexpr int kTileRows = L::kDotRows;
  static constexpr int kTerms = L::template kDotTerms<kCoded.bits>;

  static std::int64_t n_runs(std::int64_t inner) noexcept { return (inner + kRun - 1) / kRun; }

  /// A prepared row's parts.
  struct Row {
    std::int8_t* codes;
    float *scales, *sums;
    std::int32_t* half_sums;

    Row(std::byte* data, std::int64_t inner)
        : codes(reinterpret_cast<std::int8_t*>(data)),
          scales(reinterpret_cast<float*>(data + n_runs(inner) * kRun)),
          sums(scales + n_runs(inner)),
          half_sums(reinterpret_cast<std::int32_t*>(sums + 2 * n_runs(inner))) {}
  };

  /// Of those that a product takes, and only reads.
  static Row row_of(const ProductArgs& args, std::int64_t m) {
    return {static_cast<std::byte*>(const_cast<void*>(args.x)) + m * args.x_stride, args.inner};
  }

  /// G runs, of 16 n numbers each; the others are zero. What crosses lanes does so for all of them at once.
  template <int G, int n>
  static void round_runs(const float* x, const Row& row, std::int64_t run) {
    L most[G], zeros[G];
    for (int g = 0; g < G; ++g) {
      most[g] = zeros[g] = L::zero();
      for (int i = 0; i < n; ++i) {
        const L v = L::load(x + g * kRun + 16 * i);
        most[g] = L::max_magnitude(most[g], v);
        zeros[g] = L::fma(v, L::zero(), zeros[g]);
      }
    }
    alignas(64) float inverses[16], sums[16];
    const L largest = L::template largest<G>(most);
    // What is not a number stays so: 0 * x is 0 for all others.
    (largest / L::set1(127.0f * kRowScaleDown) + L::template sums<G>(zeros)).store_first(row.scales + run, G);
    L::if_less(L::set1(0x1p-100f), largest, L::set1(127.0f) / largest, L::zero()).store(inverses);
    L codes[4 * G];
    for (int v = 0; v < 4 * G; ++v) {
      const L scaled = v % 4 < n ? L::load(x + 16 * v) * L::set1(inverses[v / 4]) : L::zero();
      // max() takes its second operand for what is no number: codes stay in their range whatever x is.
      codes[v] = L::min(L::max(L::round(scaled), L::set1(-127.0f)), L::set1(127.0f));
      codes[v].store_int8(row.codes + run * kRun + 16 * v);
    }
    L::template sums<4 * G>(codes).store(sums);  // exact in any order
    for (int v = 0; v < 4 * G; ++v) row.half_sums[4 * run + v] = static_cast<std::int32_t>(sums[v]);
    for (int v = 0; v < 2 * G; ++v) row.sums[2 * run + v] = sums[2 * v] + sums[2 * v + 1];
  }

  /// What codes count from. Where dot products want signed bytes made unsigned, those count from the middle.
  static constexpr bool kShifted = kCoded.bits == 8 && !L::kSignedDots;
  static constexpr int kZero = kShifted ? kCoded.zero + 128 : kCoded.zero;

  template <int q>
  [[gnu::always_inline]] static Words quad(const std::byte* group) {
    const Words codes = stored_quad<q>(group);
    return kShifted ? codes ^ 0x80808080u : codes;
  }

  /// Codes of quad q of a group, a byte each.
  template <int q>
  [[gnu::always_inline]] static Words stored_quad(const std::byte* group) {
    if constexpr (kCoded.bits == 8) {
      return Words::load(group + q * 64);
    } else {
      const Words pair = Words::load(group + q / 2 * 64);
      const Words low = (q % 2 ? pair >> 4 : pair) & 0x0f0f0f0fu;
      if constexpr (kCoded.bits == 4) return low;
      constexpr int kShift = kCoded.bits == 5 ? 4 - q : 4 - 2 * q;
      constexpr std::uint32_t kMask = kCoded.bits == 5 ? 0x10101010u : 0x30303030u;
      const Words high = Words::load(group + Block::kHighBits);
      return low | ((kShift >= 0 ? high << (kShift & 31) : high >> (-kShift & 31)) & kMask);
    }
  }

  /// Sums of a group's products for R rows: quads are taken in parts that the instruction set's form of a sum can hold.
  template <int R, int q = 0>
  [[gnu::always_inline]] static void dot(const std::byte* group, const std::int8_t* const* x, Words (&partial)[R],
                                         Words (&total)[R]) {
    const Words codes = quad<q>(group);
    for (int r = 0; r < R; ++r) {
      std::int32_t four;
      std::memcpy(&four, x[r] + 4 * q, sizeof four);
      partial[r] = q % kTerms == 0 ? L::template dot<kCoded.bits>(codes, four)
                                   : L::template dot_add<kCoded.bits>(partial[r], codes, four);
      if constexpr ((q + 1) % kTerms == 0 || q + 1 == Block::kQuads) {
        total[r] = q < kTerms ? L::dot_sums(partial[r]) : total[r] + L::dot_sums(partial[r]);
      }
    }
    if constexpr (q + 1 < Block::kQuads) dot<R, q + 1>(group, x, partial, total);
  }

  /// The first rows wait for memory, and ask for weights this many bytes ahead: all lines of a run.
  static constexpr int kAhead = 4096;
  [[gnu::always_inline]] static void prefetch(const std::byte* from) {
    for (int i = 0; i < Block::kBytes / Block::kRuns; i += 64) __builtin_prefetch(from + kAhead + i);
  }

  template <int R>
  [[gnu::noinline]] static void tile(const ProductArgs& args, const std::byte* block, std::int64_t m, std::int64_t p,
                                     bool is_first) {
    Run<R> run;
    const float* scales[R];
    for (int r = 0; r < R; ++r) {
      const Row row = row_of(args, m + r);
      run.x[r] = row.codes;
      run.sums[r] = row.sums;
      run.half_sums[r] = row.half_sums;
      scales[r] = row.scales;
    }
    L y[R];
    for (int r = 0; r < R; ++r) y[r] = L::zero();
    const std::int64_t n = n_runs(args.inner);
    for (std::int64_t i = 0; i < n; block += Block::kBytes) {
      const L scale = block_scale(block);
      for (int g = 0; g < Block::kGroups && i < n; g += Block::kRunGroups, ++i) {
        if (is_first) prefetch(block + g * (Block::kBytes / Block::kGroups));
        add_groups<R>(block, g, run);
        for (int r = 0; r < R; ++r) y[r] = L::fma(to_floats(run.total[r]), scale * L::set1(*scales[r]++), y[r]);
      }
    }
    for (int r = 0; r < R; ++r) y[r].store(args.y + (m + r) * args.y_stride + p * kPanel);
  }

  /// Sums of a run are floats where those hold them exactly, whatever of them comes first.
  static constexpr bool kFloats = kCoded.bits <= 5;
  static_assert(!kFloats || Block::kLargestStep * ((1 << kCoded.bits) - 1) * 127 * kRun < 1 << 24);
  using Total = std::conditional_t<kFloats, L, Words>;
  static L to_floats(L sum) { return sum; }
  static L to_floats(Words sum) { return sum.to_floats(); }

  /// Where R rows are, and their sums of one run.
  template <int R>
  struct Run {
    const std::int8_t* x[R];
    const float* sums[R];
    const std::int32_t* half_sums[R];
    Total total[R];
  };

  /// Sums the run whose first group is g, from its group i on, and leaves the rows at the next run.
  template <int R, int i = 0>
  [[gnu::always_inline]] static void add_groups(const std::byte* block, int g, Run<R>& run) {
    Words partial[R], dots[R];
    dot<R>(block + Block::kCodes + (g + i) * Block::kGroupBytes, run.x, partial, dots);
    const Words factor = step_words(block, g + i);
    if constexpr (kFloats) {
      const L step = factor.to_floats();
      L offset = step * L::set1(static_cast<float>(-kZero));
      if constexpr (kCoded.has_min) offset = min_words(block, g + i).to_floats();
      for (int r = 0; r < R; ++r) {
        const L sum = dots[r].to_floats();
        run.total[r] = i ? L::fma(step, sum, run.total[r]) : step * sum;
        if constexpr (kCoded.has_min || kZero) run.total[r] = L::fma(offset, L::set1(run.sums[r][i]), run.total[r]);
      }
    } else {
      for (int r = 0; r < R; ++r) {
        const std::int32_t* const halves = run.half_sums[r];
        const std::int32_t sum = kCoded.group == 16 ? halves[i] : halves[2 * i] + halves[2 * i + 1];
        const Words product = factor * (dots[r] + Words::set1(-kZero * sum));
        run.total[r] = i ? run.total[r] + product : product;
      }
    }
    for (int r = 0; r < R; ++r) run.x[r] += kCoded.group;
    if constexpr (i + 1 < Block::kRunGroups) return add_groups<R, i + 1>(block, g, run);
    for (int r = 0; r < R; ++r) {
      run.sums[r] += 2;
      run.half_sums[r] += 4;
    }
  }

  /// 16 S
  [[gnu::always_inline]] static L block_scale(const std::byte* block) {
    const L stored = L::load_float16(reinterpret_cast<const std::uint16_t*>(block + Block::kScales));
    return Block::kScaleUp == kRowScaleDown ? stored : stored * L::set1(kRowScaleDown / Block::kScaleUp);
  }
  /// i and j of a group as integers in each lane; j only where the format has minimums.
  [[gnu::always_inline]] static Words step_words(const std::byte* block, int g) {
    const std::byte* const from = block + Block::kSteps + g * Block::kStepBytes;
    if constexpr (kCoded.has_min) return Words::load_int16(reinterpret_cast<const std::int16_t*>(from)) & 63u;
    return Words::load_int8(reinterpret_cast<const std::int8_t*>(from));
  }
  [[gnu::always_inline]] static Words min_words(const std::byte* block, int g) {
    const std::byte* const from = block + Block::kSteps + g * Block::kStepBytes;
    return Words::load_int16(reinterpret_cast<const std::int16_t*>(from)).halved(6);
  }
};

}  // namespace mneme::kernels
