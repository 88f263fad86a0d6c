#pragma once

#include <cstring>

#include "mneme/kernels/coded_panel.h"
#include "mneme/kernels/tiles.h"

namespace mneme::kernels {

/// Panels of integers times rows of integers. A row is rounded to int8 in groups of 32, x = a c with a = max|x| / 127;
/// sums of integers are exact in any order, so what fixes an output's bits is the chain over groups, from zero:
///
///   y <- fma(float(sum (q - zero) c), s a, y),   then where there is a minimum   y <- fma(m, a float(sum c), y)
///
/// with s and m as the format's scale and minimum of the group in float32 (base/ggml_block.h). Q6_K's groups of 16 are
/// two steps of the chain for each group of the row.
template <class L, WeightFormat kStored>
struct CodedProduct {
  using Block = CodedBlock<kStored>;
  using Words = typename L::Words;
  static constexpr CodedFormat kCoded = Block::kCoded;
  static constexpr WeightFormat kFormat = kStored;

  /// A prepared row: codes [inner] int8, scales a [groups], sums a sum(c) [groups], sums of 16 codes [2 groups] floats.
  static std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return spread_row_bytes(round_up(inner + inner / kRowGroup * 16, 64));
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    const std::int64_t bytes = prepared_bytes(inner);
    for (std::int64_t m = 0; m < n_rows; ++m) {
      const Row row(static_cast<std::byte*>(out) + m * bytes, inner);
      for (std::int64_t g = 0; g < inner / kRowGroup; ++g) round_group(x + m * x_stride + g * kRowGroup, row, g);
    }
  }

  static void product(const ProductArgs& args) noexcept {
    constexpr std::int64_t kRowBlock = 64;  // rows that stay in the second-level cache while panels pass by
    const std::int64_t bytes = args.inner / kCoded.block_elements() * Block::kBytes;
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

  /// A prepared row's parts.
  struct Row {
    std::int8_t* codes;
    float *scales, *sums, *half_sums;

    Row(std::byte* data, std::int64_t inner)
        : codes(reinterpret_cast<std::int8_t*>(data)),
          scales(reinterpret_cast<float*>(data + inner)),
          sums(scales + inner / kRowGroup),
          half_sums(sums + inner / kRowGroup) {}
  };

  static void round_group(const float* x, const Row& row, std::int64_t g) {
    const L low = L::load(x), high = L::load(x + 16);
    const L zero = L::zero();
    const float largest = L::max(L::max(low, zero - low), L::max(high, zero - high)).largest();
    // What is not a number stays so: 0 * x is 0 for all others.
    const float poison = ((low + high) * zero).sum();
    const float scale = largest / 127.0f + poison, inverse = largest > 0x1p-120f ? 127.0f / largest : 0.0f;
    const L low_codes = L::round(low * L::set1(inverse)), high_codes = L::round(high * L::set1(inverse));
    const float first = low_codes.sum(), second = high_codes.sum();  // exact in any order
    low_codes.store_int8(row.codes + g * kRowGroup);
    high_codes.store_int8(row.codes + g * kRowGroup + 16);
    row.scales[g] = scale;
    row.sums[g] = scale * (first + second);
    row.half_sums[2 * g] = first;
    row.half_sums[2 * g + 1] = second;
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

  /// Sums of a group's products for R rows: quads are taken in runs that the instruction set's form of a sum can hold.
  template <int R, int q = 0>
  [[gnu::always_inline]] static void dot(const std::byte* group, const std::int8_t* const* x, Words (&run)[R],
                                         Words (&total)[R]) {
    const Words codes = quad<q>(group);
    for (int r = 0; r < R; ++r) {
      std::int32_t four;
      std::memcpy(&four, x[r] + 4 * q, sizeof four);
      run[r] = q % kTerms == 0 ? L::template dot<kCoded.bits>(codes, four)
                               : L::template dot_add<kCoded.bits>(run[r], codes, four);
      if constexpr ((q + 1) % kTerms == 0 || q + 1 == Block::kQuads) {
        total[r] = q < kTerms ? L::dot_sums(run[r]) : total[r] + L::dot_sums(run[r]);
      }
    }
    if constexpr (q + 1 < Block::kQuads) dot<R, q + 1>(group, x, run, total);
  }

  /// The first rows wait for memory, and ask for weights this many bytes ahead: all lines of the block, or of the
  /// group.
  static constexpr int kAhead = 4096;
  [[gnu::always_inline]] static void prefetch(const std::byte* from) {
    constexpr int kBytes = kCoded.block_groups == 1 ? Block::kBytes : Block::kGroupBytes;
    for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(from + kAhead + i);
  }

  template <int R>
  [[gnu::noinline]] static void tile(const ProductArgs& args, const std::byte* panel, std::int64_t m, std::int64_t p,
                                     bool is_first) {
    constexpr std::int64_t kGroup = kCoded.group;
    const std::int8_t* x[R];
    const float* scales[R];
    const std::int64_t n_groups = args.inner / kRowGroup;
    for (int r = 0; r < R; ++r) {
      x[r] = static_cast<const std::int8_t*>(args.x) + (m + r) * args.x_stride;
      scales[r] = reinterpret_cast<const float*>(x[r] + args.inner);
    }
    L y[R];
    for (int r = 0; r < R; ++r) y[r] = L::zero();
    std::int64_t k = 0;
    for (const std::byte* block = panel; k < args.inner; block += Block::kBytes) {
      const L d = block_scale(block);
      for (int g = 0; g < kCoded.block_groups; ++g, k += kGroup) {
        const std::byte* const group = block + Block::kGroups + g * Block::kGroupBytes;
        if (is_first) prefetch(kCoded.block_groups == 1 ? block : group);
        Words run[R], total[R];
        dot<R>(group, x, run, total);
        const L scale = group_scale(block, d, g);
        for (int r = 0; r < R; ++r) {
          L sum = total[r].to_floats();
          if constexpr (kZero != 0) {  // exact: integers below 2^24
            const float* half_sums = scales[r] + 2 * n_groups + k / 16;
            const float c = kGroup == 16 ? half_sums[0] : half_sums[0] + half_sums[1];
            sum = sum - L::set1(static_cast<float>(kZero) * c);
          }
          y[r] = L::fma(sum, scale * L::set1(scales[r][k / kRowGroup]), y[r]);
          x[r] += kGroup;
        }
        if constexpr (kCoded.has_min) {
          const L min = group_min(block, g);
          for (int r = 0; r < R; ++r) y[r] = L::fma(min, L::set1(scales[r][n_groups + k / kRowGroup]), y[r]);
        }
      }
    }
    for (int r = 0; r < R; ++r) y[r].store(args.y + (m + r) * args.y_stride + p * kPanel);
  }

  [[gnu::always_inline]] static L block_scale(const std::byte* block) {
    return L::load_float16(reinterpret_cast<const std::uint16_t*>(block + Block::kScales));
  }
  /// s and m of group g, d being the block's scale.
  [[gnu::always_inline]] static L group_scale(const std::byte* block, L d, int g) {
    if constexpr (!kCoded.has_steps) return d;
    const L steps = L::load_bytes(reinterpret_cast<const std::uint8_t*>(block + Block::kScaleSteps + g * 16));
    return d * (kCoded.signed_steps ? steps - L::set1(128.0f) : steps);
  }
  [[gnu::always_inline]] static L group_min(const std::byte* block, int g) {
    const L min = L::load_float16(reinterpret_cast<const std::uint16_t*>(block + Block::kMins));
    if constexpr (!kCoded.has_steps) return min;
    return min * L::load_bytes(reinterpret_cast<const std::uint8_t*>(block + Block::kMinSteps + g * 16));
  }
};

}  // namespace mneme::kernels
