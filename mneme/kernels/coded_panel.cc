#include "mneme/kernels/coded_panel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mneme::kernels {
namespace {

constexpr std::uint16_t kLargestFloat16 = 0x7bff;

/// The least float16 that is not below x >= 0, or the largest number.
std::uint16_t float16_from_above(float x) {
  if (x >= from_float16(kLargestFloat16)) return kLargestFloat16;
  const std::uint16_t nearest = to_float16(x);
  return from_float16(nearest) < x ? static_cast<std::uint16_t>(nearest + 1) : nearest;
}

/// To the nearest integer, of magnitudes below 2^22: a form that compilers make vectors of.
float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

/// The block of an output's row in the file that was read last: those of K-quants make four runs each.
struct FileBlock {
  GgmlBlock block;
  std::int64_t index = -1;
};

/// Sixteen outputs' groups that share scales: those of a panel's block.
template <WeightFormat kFormat>
struct Columns {
  using Block = CodedBlock<kFormat>;
  static constexpr CodedFormat kCoded = Block::kCoded;
  static constexpr float kMiddle = 0.5f * Block::kLargestCode;

  float d[Block::kGroups][16] = {}, m[Block::kGroups][16] = {};
  std::uint8_t codes[16][Block::kGroups * kCoded.group] = {};
  std::uint16_t scaled_up[16] = {};  ///< kScaleUp S
  std::int16_t steps[Block::kGroups][16] = {}, mins[Block::kGroups][16] = {};

  /// Takes output n's blocks of the file. Groups beyond the row stay zero.
  void take(const std::byte* row, std::int64_t inner, std::int64_t first, std::int64_t n, FileBlock& read) {
    GgmlBlock& block = read.block;
    for (int g = 0; g < Block::kGroups && first + g * kCoded.group < inner; ++g) {
      const std::int64_t element = first + g * kCoded.group, index = element / kCoded.block_elements();
      const auto in_block = static_cast<int>(element % kCoded.block_elements()), group = in_block / kCoded.group;
      if (index != read.index) unpack(kFormat, row + index * kCoded.block_bytes, block);
      read.index = index;
      std::memcpy(codes[n] + g * kCoded.group, block.codes + in_block, kCoded.group);
      d[g][n] = from_float16(block.scale);
      if constexpr (kCoded.signed_steps) steps[g][n] = static_cast<std::int8_t>(block.scale_steps[group]);
      if constexpr (kCoded.has_min) {
        m[g][n] = from_float16(block.min);
        if constexpr (kCoded.has_steps) {
          d[g][n] *= static_cast<float>(block.scale_steps[group]);
          m[g][n] *= static_cast<float>(block.min_steps[group]);
        }
        if (d[g][n] < 0) {  // counted from the other end
          for (int i = 0; i < kCoded.group; ++i) codes[n][g * kCoded.group + i] ^= Block::kLargestCode;
          m[g][n] += d[g][n] * Block::kLargestCode;
          d[g][n] = -d[g][n];
        }
      }
    }
  }

  /// Finds S, i and j.
  void fit() {
    if constexpr (kCoded.signed_steps) {
      for (int n = 0; n < 16; ++n) {
        const float up = d[0][n] * Block::kScaleUp, most = from_float16(kLargestFloat16);
        scaled_up[n] = to_float16(std::isfinite(d[0][n]) ? std::clamp(up, -most, most) : up);
      }
      return;
    }
    // The least S with which W is within its bounds, whatever is rounded; then the best of a few that are a little
    // larger and have the largest d as a multiple.
    constexpr float kLimit = kCoded.has_min ? Block::kLargest - 0.5f - 0.5f * kMiddle
                                            : static_cast<float>(Block::kLargest / Block::kLargestCode);
    constexpr int kTried = 8;
    float largest_d[16], most_steps[16], scale[16], smallest[16];
    for (int n = 0; n < 16; ++n) {
      const float end = largest(n);
      largest_d[n] = 0;
      for (int g = 0; g < Block::kGroups; ++g) largest_d[n] = std::max(largest_d[n], std::fabs(d[g][n]));
      scale[n] = end / kLimit;
      most_steps[n] = end > 0 ? std::floor(largest_d[n] / scale[n] * (1 + 1e-6f)) : 0.0f;
      smallest[n] = error_of(scale[n], n);
    }
    for (int c = 0; c < kTried; ++c) {
      float tried[16], error[16];
      for (int n = 0; n < 16; ++n) {
        const float most = most_steps[n] - static_cast<float>(c);
        tried[n] = most >= 1 ? largest_d[n] / most : scale[n];
      }
      for (int n = 0; n < 16; ++n) error[n] = error_of(tried[n], n);
      for (int n = 0; n < 16; ++n) {
        scale[n] = error[n] < smallest[n] ? tried[n] : scale[n];
        smallest[n] = error[n] < smallest[n] ? error[n] : smallest[n];
      }
    }
    for (int n = 0; n < 16; ++n) round(scale[n], n);
  }

 private:
  float largest(int n) const {
    float result = 0;
    for (int g = 0; g < Block::kGroups; ++g) {
      const float end = kCoded.has_min ? m[g][n] + d[g][n] * Block::kLargestCode : d[g][n];
      result = std::max({result, std::fabs(m[g][n]), std::fabs(end)});
    }
    return result;
  }

  /// The minimum with which the middle of the codes stays where it is, so that errors of a step have both signs.
  static float min_of(float s, float step, float min) { return nearest(min + (s - step) * kMiddle); }

  /// Squared errors of weights; an error that all codes share counts four times more, since it does not average out.
  float error_of(float scale, int n) const {
    const float inverse = 1.0f / scale;
    float sum = 0;
    for (int g = 0; g < Block::kGroups; ++g) {
      const float s = d[g][n] * inverse, step = nearest(s), off = s - step;
      sum += off * off * (kMiddle * kMiddle / 3);
      if constexpr (kCoded.has_min) {
        const float min = m[g][n] * inverse, shared = min + off * kMiddle - min_of(s, step, min);
        sum += 5 * shared * shared;
      }
    }
    return sum * scale * scale;
  }

  void round(float wanted, int n) {
    float poison = 0;
    for (int g = 0; g < Block::kGroups; ++g) poison += d[g][n] * 0.0f + m[g][n] * 0.0f;
    if (std::isnan(poison)) {  // no finite scale: nothing that is multiplied with it is a number
      scaled_up[n] = 0x7e00;
      steps[0][n] = 1;
      return;
    }
    scaled_up[n] = float16_from_above(wanted * Block::kScaleUp);
    const float scale = std::max(wanted, from_float16(scaled_up[n]) / Block::kScaleUp);
    if (scale == 0) return;
    for (int g = 0; g < Block::kGroups; ++g) {
      const float s = d[g][n] / scale, step = nearest(s);
      steps[g][n] = static_cast<std::int16_t>(step);
      if constexpr (kCoded.has_min) mins[g][n] = static_cast<std::int16_t>(min_of(s, step, m[g][n] / scale));
    }
  }
};

/// Four codes at once: those of a quad, or what of them belongs into a line.
std::uint32_t quad_at(const std::uint8_t* codes) {
  std::uint32_t quad;
  std::memcpy(&quad, codes, sizeof quad);
  return quad;
}
void put_quad(std::uint32_t quad, std::int64_t n, std::byte* line) { std::memcpy(line + 4 * n, &quad, sizeof quad); }

/// Writes a group's codes for output n.
template <WeightFormat kFormat>
void write_codes(const std::uint8_t* codes, std::int64_t n, std::byte* group) {
  using Block = CodedBlock<kFormat>;
  constexpr int kBits = Block::kCoded.bits;
  std::uint32_t high = 0;
  for (int q = 0; q < Block::kQuads; ++q) {
    const std::uint32_t quad = quad_at(codes + 4 * q);
    if constexpr (kBits == 8) {
      put_quad(quad, n, group + q * 64);
    } else {
      if (q % 2) {
        const std::uint32_t before = quad_at(codes + 4 * q - 4);
        put_quad((before & 0x0f0f0f0fu) | (quad & 0x0f0f0f0fu) << 4, n, group + q / 2 * 64);
      }
      if constexpr (kBits > 4) high |= (quad >> 4 & 0x0f0f0f0fu) << (kBits - 4) * q;
    }
  }
  if constexpr (kBits == 5 || kBits == 6) put_quad(high, n, group + Block::kHighBits);
}

/// Writes a panel's block.
template <WeightFormat kFormat>
void write(const Columns<kFormat>& columns, std::byte* out) {
  using Block = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Block::kCoded;
  std::memcpy(out + Block::kScales, columns.scaled_up, sizeof columns.scaled_up);
  for (int g = 0; g < Block::kGroups; ++g) {
    std::byte* const steps = out + Block::kSteps + g * Block::kStepBytes;
    for (int n = 0; n < 16; ++n) {
      if constexpr (kCoded.has_min) {
        const auto both = static_cast<std::int16_t>(columns.steps[g][n] + 64 * columns.mins[g][n]);
        std::memcpy(steps + 2 * n, &both, sizeof both);
      } else {
        steps[n] = static_cast<std::byte>(columns.steps[g][n]);
      }
      write_codes<kFormat>(columns.codes[n] + g * kCoded.group, n, out + Block::kCodes + g * Block::kGroupBytes);
    }
  }
}

/// The code of inner element i of a group for output n.
template <WeightFormat kFormat>
int code_at(const std::byte* group, std::int64_t n, int i) {
  using Layout = CodedBlock<kFormat>;
  const int quad = i / 4;
  const std::int64_t byte = n * 4 + i % 4;
  if constexpr (Layout::kCoded.bits == 8) {
    return static_cast<std::int8_t>(group[quad * 64 + byte]);
  } else {
    const int low = std::to_integer<int>(group[quad / 2 * 64 + byte]) >> quad % 2 * 4 & 15;
    if constexpr (Layout::kCoded.bits == 4) return low;
    constexpr int kWidth = Layout::kCoded.bits - 4;
    const int high = std::to_integer<int>(group[Layout::kHighBits + byte]) >> kWidth * quad & ((1 << kWidth) - 1);
    return low | high << 4;
  }
}

/// The numbers of output n of one block of a panel, n_elements of them.
template <WeightFormat kFormat>
void decode_column(const std::byte* block, std::int64_t n, std::int64_t n_elements, float* out) {
  using Block = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Block::kCoded;
  std::uint16_t scaled_up;
  std::memcpy(&scaled_up, block + Block::kScales + 2 * n, 2);
  const float scale = from_float16(scaled_up) / Block::kScaleUp;
  for (int e = 0; e < n_elements; ++e) {
    const int g = e / kCoded.group;
    const int code = code_at<kFormat>(block + Block::kCodes + g * Block::kGroupBytes, n, e % kCoded.group);
    int weight;
    if constexpr (kCoded.has_min) {
      std::int16_t both;
      std::memcpy(&both, block + Block::kSteps + g * Block::kStepBytes + 2 * n, sizeof both);
      weight = (both & 63) * code + (both >> 6);
    } else {
      weight = static_cast<std::int8_t>(block[Block::kSteps + g * Block::kStepBytes + n]) * (code - kCoded.zero);
    }
    out[e] = scale * static_cast<float>(weight);
  }
}

}  // namespace

std::int64_t panel_bytes(WeightFormat format, std::int64_t inner) {
  if (!is_coded(format)) return panel_bytes(static_cast<DType>(format), inner);
  return with_format(format, [inner]<WeightFormat kFormat>() -> std::int64_t {
    return CodedBlock<kFormat>::blocks(inner) * CodedBlock<kFormat>::kBytes;
  });
}

void pack_coded_panel(WeightFormat format, const std::byte* rows, std::int64_t row_bytes, std::int64_t n_rows,
                      std::int64_t inner, std::byte* panel) noexcept {
  with_format(format, [&]<WeightFormat kFormat>() {
    using Block = CodedBlock<kFormat>;
    FileBlock read[16];
    for (std::int64_t b = 0; b < Block::blocks(inner); ++b) {
      Columns<kFormat> columns;
      for (std::int64_t n = 0; n < n_rows; ++n)
        columns.take(rows + n * row_bytes, inner, b * kRun * Block::kRuns, n, read[n]);
      columns.fit();
      write<kFormat>(columns, panel + b * Block::kBytes);
    }
  });
}

void decode_coded_panels(WeightFormat format, const std::byte* panels, std::int64_t n_rows, std::int64_t inner,
                         float* rows) noexcept {
  with_format(format, [&]<WeightFormat kFormat>() {
    using Block = CodedBlock<kFormat>;
    constexpr std::int64_t kElements = kRun * Block::kRuns;
    for (std::int64_t r = 0; r < n_rows; ++r) {
      const std::byte* const panel = panels + r / kPanel * panel_bytes(kFormat, inner);
      for (std::int64_t b = 0; b < Block::blocks(inner); ++b) {
        decode_column<kFormat>(panel + b * Block::kBytes, r % kPanel, std::min(kElements, inner - b * kElements),
                               rows + r * inner + b * kElements);
      }
    }
  });
}

}  // namespace mneme::kernels
