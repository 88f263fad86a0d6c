#pragma once

#include "mneme/kernels/product_coded.h"

namespace mneme::kernels {

/// CodedProduct by AMX's products of bytes: sixteen rows by a panel's run are two or three instructions, since the
/// integers W of a run are two planes of bytes, made once for many rows:
///
///   W = 2 A + B       A from i / 3 and j / 3, to the nearest      4-bit codes: A is multiplied twice
///   W = 256 A + B     A signed, B unsigned                        the others: their sums come together in vectors
///
/// Sums of integers and the chain over runs are those of the definition, so the bits are the same.
///
/// Sums reach vectors through memory, in order behind the stores of y, and y of a long prompt is in no cache near: its
/// lines are asked for kTilesAhead tiles before, as are a panel's weights while the one before it is multiplied.
///
/// Tiles as in product_amx.h; all eight hold sixteen rows of 64 bytes. dot_bytes<Sum, Rows, Plane>() adds products of
/// signed bytes, dot_unsigned those with unsigned bytes of a plane; clear<T>() makes zeros too, and takes no load, but
/// the next product waits for it: here others are under way.
template <class L, class Tiles, WeightFormat kStored>
struct AmxCodedProduct : CodedProduct<L, kStored> {
  static void product(const ProductArgs& args) noexcept {
    const std::int64_t n_runs = Base::n_runs(args.inner);
    const std::int64_t n_tiled = n_runs && args.n_rows >= kFewestRows ? args.n_rows / kTile * kTile : 0;
    if (n_tiled) {
      // Spans of one length, as far as blocks allow: a short one hides nothing.
      const std::int64_t n_spans = (n_runs + kSpan - 1) / kSpan;
      const std::int64_t step = round_up((n_runs + n_spans - 1) / n_spans, Block::kRuns);
      Tiles::configure(kTile, kTile);
      for (std::int64_t p = 0; p < args.n_panels; ++p) {
        for (std::int64_t run = 0; run < n_runs; run += step) span(args, n_tiled, p, run, step);
      }
      Tiles::release();
    }
    if (n_tiled == args.n_rows) return;
    ProductArgs rest = args;
    rest.x = static_cast<const std::byte*>(args.x) + n_tiled * args.x_stride;
    rest.y += n_tiled * args.y_stride;
    rest.n_rows -= n_tiled;
    Base::product(rest);
  }

 private:
  using Base = CodedProduct<L, kStored>;
  using Block = typename Base::Block;
  using Words = typename L::Words;
  static constexpr CodedFormat kCoded = Base::kCoded;
  static constexpr bool kOneSum = kCoded.bits == 4;
  static constexpr int kTile = 16;
  static constexpr std::int64_t kFewestRows = 2 * kTile;  ///< making planes takes as long as a tile of products
  static constexpr std::int64_t kSpan = 12;               ///< runs whose planes stay in the first-level cache
  static constexpr std::int64_t kTilesAhead = 2;
  static_assert(kSpan % Block::kRuns == 0 && kTile * kPanel * 4 == kRun * kPanel);

  /// Runs of a panel: two planes of bytes [quads][16][4] each, and scales [16].
  struct alignas(64) Unpacked {
    std::byte planes[kSpan][2][kRun * kPanel];
    float scales[kSpan][kPanel];
  };

  static void span(const ProductArgs& args, std::int64_t n_rows, std::int64_t p, std::int64_t run, std::int64_t step) {
    const auto* const block = static_cast<const std::byte*>(args.panels) +
                              (p * Block::blocks(args.inner) + run / Block::kRuns) * Block::kBytes;
    const std::int64_t left = Base::n_runs(args.inner) - run, n = left < step ? left : step;
    Unpacked unpacked;
    unpack(block, n, unpacked);
    tiles(args, unpacked, n_rows / kTile, p, run, n, block);
  }

  static void unpack(const std::byte* block, std::int64_t n, Unpacked& out) {
    for (std::int64_t run = 0; run < n; block += Block::kBytes) {
      const L scale = Base::block_scale(block);
      for (int g = 0; g < Block::kGroups && run < n; ++run) {
        scale.store(out.scales[run]);
        for (int i = 0; i < Block::kRunGroups; ++i, ++g) {
          std::byte* const planes = out.planes[run][0] + i * kCoded.group * kPanel;
          if constexpr (kOneSum)
            add_planes(block, g, planes);
          else
            split_planes(block, g, planes);
        }
      }
    }
  }

  /// Calls f with each quad of a group and its number.
  template <int q = 0, class F>
  [[gnu::always_inline]] static void each_quad(const std::byte* block, int g, F f) {
    f(Base::template quad<q>(block + Block::kCodes + g * Block::kGroupBytes), q);
    if constexpr (q + 1 < Block::kQuads) each_quad<q + 1>(block, g, f);
  }

  /// An integer in each half of a word.
  [[gnu::always_inline]] static Words twice(Words x) { return (x & 0xffffu) | x << 16; }

  /// A byte in each byte of a word.
  [[gnu::always_inline]] static Words four_times(Words x) {
    const Words two = twice(x) & 0x00ff00ffu;
    return two | two << 8;
  }
  /// The nearest integer to x / 3, |x| < 1024.
  [[gnu::always_inline]] static Words third(Words x) {
    return ((x + Words::set1(3 * 1024 + 1)) * Words::set1(21846)).halved(16) + Words::set1(-1024);
  }
  /// x - 3 third: -1, 0 or 1.
  [[gnu::always_inline]] static Words rest(Words x, Words third) { return x + third * Words::set1(-3); }

  [[gnu::always_inline]] static void add_planes(const std::byte* block, int g, std::byte* planes) {
    const Words step = Base::step_words(block, g), step_third = third(step), factor = twice(step_third);
    // B = A + (-1, 0 or 1) (q - zero) + (-1, 0 or 1); -x is ~x + 1.
    const Words step_rest = rest(step, step_third), any = (step_rest << 31).halved(31), minus = step_rest.halved(31);
    Words offset = Words::set1(0), more = minus & 1u;
    if constexpr (kCoded.has_min) {
      const Words min = Base::min_words(block, g), min_third = third(min);
      offset = four_times(min_third), more = more + rest(min, min_third);
    }
    more = four_times(more);
    each_quad(
        block, g, [&](Words codes, int q) __attribute__((always_inline)) {
          Words first;
          if constexpr (kCoded.has_min) {
            // Neither is negative and no product above 255: both bytes of a half are multiplied at once.
            first = codes.low_halves(factor).add_bytes(offset);
          } else {
            codes = codes.add_bytes(Words::set1(static_cast<std::int32_t>((256u - kCoded.zero) * 0x01010101u)));
            first = ((codes & 0x00ff00ffu).low_halves(factor) & 0x00ff00ffu) | (codes & 0xff00ff00u).low_halves(factor);
          }
          first.store(planes + q * 64);
          first.add_bytes((codes & any) ^ minus).add_bytes(more).store(planes + kRun * kPanel + q * 64);
        });
  }

  [[gnu::always_inline]] static void split_planes(const std::byte* block, int g, std::byte* planes) {
    const Words factor = Base::step_words(block, g), step = twice(factor);
    Words offset = factor * Words::set1(-Base::kZero);
    if constexpr (kCoded.has_min) offset = Base::min_words(block, g);
    offset = twice(offset);
    each_quad(
        block, g, [&](Words codes, int q) __attribute__((always_inline)) {
          const Words even = (codes & 0x00ff00ffu).low_halves(step).add_halves(offset),
                      odd = (codes >> 8 & 0x00ff00ffu).low_halves(step).add_halves(offset);
          ((even >> 8 & 0x00ff00ffu) | (odd & 0xff00ff00u)).store(planes + q * 64);
          ((even & 0x00ff00ffu) | (odd << 8 & 0xff00ff00u)).store(planes + kRun * kPanel + q * 64);
        });
  }

  /// n_tiles tiles of rows by n runs of panel p, as one chain of products: those of a tile begin while the sums of the
  /// one before it are joined. The runs were unpacked from `block` on; those behind them are next.
  static void tiles(const ProductArgs& args, const Unpacked& unpacked, std::int64_t n_tiles, std::int64_t p,
                    std::int64_t run, std::int64_t n, const std::byte* block) {
    const std::int64_t tile_bytes = kTile * args.x_stride, tile_floats = kTile * args.y_stride;
    const std::int64_t n_products = n_tiles * n, bytes = round_up(n, Block::kRuns) / Block::kRuns * Block::kBytes;
    const std::int64_t lines_ahead = (bytes / n_tiles + 63) / 64, scale_stride = args.x_stride / 4;
    const std::byte* ahead = block + bytes;
    const auto first = Base::row_of(args, 0);
    const std::int8_t* x = first.codes + run * kRun;
    const float* row_scales = first.scales + run;
    float* y = args.y + p * kPanel;
    std::int64_t product = 0, i = 0;  // runs of a tile: the next to multiply, the next to join
    std::int64_t tiles_left = n_tiles;
    L total[kTile];
    alignas(64) std::int32_t sums[2][kTile * kPanel], lower[2][kOneSum ? 1 : kTile * kPanel];
    const auto begin_tile = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int r = 0; r < kTile; ++r) total[r] = run ? L::load(y + r * args.y_stride) : L::zero();
      if (!run) {
        const float* const next = tiles_left > kTilesAhead ? y : y - n_tiles * tile_floats + kPanel;
#pragma GCC unroll 16
        for (int r = 0; r < kTile; ++r) ask(next + kTilesAhead * tile_floats + r * args.y_stride);
      }
      for (std::int64_t line = 0; line < lines_ahead; ++line, ahead += 64) ask(ahead);
    };
    const auto end_tile = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 16
      for (int r = 0; r < kTile; ++r) total[r].store(y + r * args.y_stride);
      i = 0;
      y += tile_floats;
      row_scales += kTile * scale_stride;
      --tiles_left;
    };
    const auto store = [&]<int T>() __attribute__((always_inline)) {
      Tiles::template store<T>(sums[T], 64);
      if constexpr (!kOneSum) Tiles::template store<2 + T>(lower[T], 64);
    };
    // Rows first to last of the sums of a run join their chains.
    const auto join = [&]<int T, int first, int last>() __attribute__((always_inline)) {
      const L scale = L::load(unpacked.scales[i]);
#pragma GCC unroll 16
      for (int r = first; r < last; ++r) {
        Words sum = Words::load(sums[T] + r * kPanel);
        if constexpr (!kOneSum) sum = (sum << 8) + Words::load(lower[T] + r * kPanel);
        total[r] = L::fma(sum.to_floats(), scale * L::set1(row_scales[r * scale_stride + i]), total[r]);
      }
    };
    // The product after next, while the sums of this one join their chains. Those of the next leave the tiles in
    // between: memory gives sums back only when their store is done.
    const auto step = [&]<int T>(std::int64_t number) __attribute__((always_inline)) {
      constexpr int kFirst = kOneSum && T ? 2 : 6;
      const bool multiply = number + 2 < n_products, joins = number >= 0;
      if (joins && i == 0) begin_tile();
      if (multiply) Tiles::template load<4 + T>(x + product * kRun, args.x_stride);
      if (joins) join.template operator()<T, 0, 4>();
      if (multiply) Tiles::template load<kFirst>(unpacked.planes[product][0], 64);
      if (joins) join.template operator()<T, 4, 8>();
      if (multiply) {
        Tiles::template load<kFirst + 1>(unpacked.planes[product][1], 64);
        Tiles::template clear<T>();
        Tiles::template dot_bytes<T, 4 + T, kFirst>();
      }
      if (joins) join.template operator()<T, 8, 12>();
      if (multiply) {
        if constexpr (kOneSum) {
          Tiles::template dot_bytes<T, 4 + T, kFirst>();
          Tiles::template dot_bytes<T, 4 + T, kFirst + 1>();
        } else {
          Tiles::template clear<2 + T>();
          Tiles::template dot_unsigned<2 + T, 4 + T, kFirst + 1>();
        }
        if (++product == n) product = 0, x += tile_bytes;
      }
      if (joins) join.template operator()<T, 12, 16>();
      if (number >= -1 && number + 1 < n_products) store.template operator()<1 - T>();
      if (joins && ++i == n) end_tile();
    };
    for (std::int64_t number = -2; number < n_products; number += 2) {
      step.template operator()<0>(number);
      if (number + 1 < n_products) step.template operator()<1>(number + 1);
    }
  }

  /// Into the second-level cache.
  [[gnu::always_inline]] static void ask(const void* line) { __builtin_prefetch(line, 0, 2); }
};

}  // namespace mneme::kernels
