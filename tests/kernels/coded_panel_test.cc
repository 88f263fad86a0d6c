#include "mneme/kernels/coded_panel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/support/coded_weights.h"

namespace mneme::kernels {
namespace {

using testing::CodedMatrix;
using testing::kCodedFormats;

using Vector = std::vector<float>;

/// What a panel of up to 16 rows of blocks holds.
Vector packed(const CodedMatrix& matrix) {
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(matrix.format, matrix.columns)), std::byte{0xff});
  pack_coded_panel(matrix.format, matrix.blocks.data(), matrix.row_bytes, matrix.rows, matrix.columns, panel.data());
  Vector rows(static_cast<std::size_t>(16 * matrix.columns));
  decode_coded_panels(matrix.format, panel.data(), 16, matrix.columns, rows.data());
  return rows;
}

/// Gives all blocks the scale d and, where there is one, the minimum m.
void set_scales(CodedMatrix& matrix, float d, float m) {
  const CodedFormat layout = coded_format(matrix.format);
  const std::uint16_t scale = to_float16(d), min = to_float16(m);
  for (std::int64_t at = 0; at < std::ssize(matrix.blocks); at += layout.block_bytes) {
    std::byte* const block = matrix.blocks.data() + at;
    std::memcpy(matrix.format == WeightFormat::kQ6_K ? block + 208 : block, &scale, 2);
    if (layout.has_min) std::memcpy(block + 2, &min, 2);
    decode(matrix.format, block, layout.block_elements(),
           matrix.numbers.data() + at / layout.block_bytes * layout.block_elements());
  }
}

class CodedPanel : public ::testing::TestWithParam<WeightFormat> {};

/// A step is off by half a unit at most, and so is a minimum: however different the scales of a run are.
TEST_P(CodedPanel, HoldsWhatTheFileHoldsToHalfAUnit) {
  const CodedFormat layout = coded_format(GetParam());
  for (const std::int64_t columns : {512, 544}) {
    if (columns % layout.block_elements()) continue;
    const CodedMatrix matrix(GetParam(), 16, columns);
    const Vector held = packed(matrix);
    if (GetParam() == WeightFormat::kQ6_K) {
      EXPECT_EQ(held, matrix.numbers);
      continue;
    }
    const int largest_code = layout.bits == 8 ? 128 : layout.zero ? layout.zero : (1 << layout.bits) - 1;
    for (std::int64_t k = 0; k < 16 * columns; ++k) {
      const std::int64_t row = k / columns * columns, run = row + (k - row) / 64 * 64;
      float largest = 0;  // that the run's scales could make
      for (std::int64_t i = run; i < std::min(run + 64, row + columns); i += layout.group) {
        GgmlBlock block;
        const std::int64_t in_row = i - row;
        unpack(GetParam(),
               matrix.blocks.data() + row / columns * matrix.row_bytes +
                   in_row / layout.block_elements() * layout.block_bytes,
               block);
        const auto g = static_cast<int>(in_row % layout.block_elements() / layout.group);
        float d = from_float16(block.scale), m = from_float16(block.min);
        if (layout.has_steps)
          d *= static_cast<float>(block.scale_steps[g]), m *= static_cast<float>(block.min_steps[g]);
        if (!layout.has_min) m = 0;
        largest = std::max({largest, std::fabs(m), std::fabs(m + d * static_cast<float>(largest_code))});
      }
      const float units = static_cast<float>(layout.bits == 8   ? 127 * 128
                                             : layout.bits == 4 ? 340
                                             : layout.zero      ? 1000
                                                                : 500);
      const float unit = 1.1f * largest / units, reach = layout.has_min ? 0.5f : 1.0f;
      ASSERT_NEAR(held[k], matrix.numbers[k], unit * (0.5f * reach * static_cast<float>(largest_code) + 0.51f)) << k;
    }
  }
}

/// What fitting adds to the error of rounding to a step, in squares, where two groups' scales are like those of a
/// model, 0.63 to 1 of each other.
TEST_P(CodedPanel, AddsLittleToTheErrorOfRounding) {
  const CodedFormat layout = coded_format(GetParam());
  if (GetParam() == WeightFormat::kQ6_K) GTEST_SKIP() << "steps are integers already";
  CodedMatrix matrix(GetParam(), 16, 2048, 3);
  double error = 0, rounding = 0;
  for (std::int64_t b = 0; b < std::ssize(matrix.blocks) / layout.block_bytes; ++b) {
    std::byte* const bytes = matrix.blocks.data() + b * layout.block_bytes;
    const float d = 0.004f * (1.0f - 0.37f * static_cast<float>(b * 7919 % 101) / 100.0f);
    const float middle =
        d * (0.5f * static_cast<float>((1 << layout.bits) - 1) + static_cast<float>(b * 31 % 5) - 2.0f);
    const std::uint16_t scale = to_float16(d), min = to_float16(layout.has_steps ? middle : -middle);
    std::memcpy(bytes, &scale, 2);
    if (layout.has_min) std::memcpy(bytes + 2, &min, 2);
    // Steps of 51 to 63.
    for (int i = 4; layout.has_steps && i < 16; ++i) bytes[i] = static_cast<std::byte>(0xf3 + (b * 5 + i * 7) % 4 * 4);
    const int n = layout.block_elements();
    decode(GetParam(), bytes, n, matrix.numbers.data() + b * n);
    GgmlBlock block;
    unpack(GetParam(), bytes, block);
    for (int g = 0; g < layout.block_groups; ++g) {
      const double step = double{from_float16(scale)} * (layout.has_steps ? block.scale_steps[g] : 1);
      rounding += layout.group * step * step / 12;
    }
  }
  const Vector held = packed(matrix);
  for (std::size_t k = 0; k < held.size(); ++k) error += std::pow(double{held[k]} - matrix.numbers[k], 2);
  EXPECT_LT(error / rounding, layout.bits == 8 ? 0.05 : layout.bits == 5 ? 0.03 : 0.005);
}

TEST_P(CodedPanel, ScalesOfAnySizeAndSign) {
  for (const float d : {6e-8f, 1e-5f, -0.25f, 100.0f}) {
    CodedMatrix matrix(GetParam(), 16, 512);
    set_scales(matrix, d, -3 * d);
    const Vector held = packed(matrix);
    float largest = 0;
    for (const float x : matrix.numbers) largest = std::max(largest, std::fabs(x));
    for (std::size_t k = 0; k < held.size(); ++k) ASSERT_NEAR(held[k], matrix.numbers[k], 0.08f * largest) << d;
  }
}

/// As large as no model's: finite all the same. What the file holds as no number is none.
TEST_P(CodedPanel, ExtremeScales) {
  CodedMatrix matrix(GetParam(), 16, 512);
  set_scales(matrix, 65504.0f, -65504.0f);
  for (const float x : packed(matrix)) ASSERT_TRUE(std::isfinite(x));
  for (const float bad : {HUGE_VALF, std::numeric_limits<float>::quiet_NaN()}) {
    set_scales(matrix, bad, 0.0f);
    const Vector held = packed(matrix);
    for (std::int64_t row = 0; row < 16; ++row) ASSERT_FALSE(std::isfinite(held[row * 512])) << row;
  }
}

TEST_P(CodedPanel, RowsThatAreNotThereAreZeros) {
  CodedMatrix matrix(GetParam(), 16, 256);
  const Vector all = packed(matrix);
  matrix.rows = 5;
  const Vector some = packed(matrix);
  const auto border = some.begin() + 5 * 256;
  EXPECT_TRUE(std::equal(some.begin(), border, all.begin()));
  for (auto it = border; it != some.end(); ++it) ASSERT_EQ(*it, 0.0f);
}

/// What a step of decoding reads: at most a quarter of a bit a weight more than the file has.
TEST_P(CodedPanel, IsAsSmallAsTheFile) {
  const CodedFormat layout = coded_format(GetParam());
  const double file_bits = 8.0 * layout.block_bytes / layout.block_elements();
  EXPECT_LE(8.0 * static_cast<double>(panel_bytes(GetParam(), 512)) / (16 * 512), file_bits + 0.251);
}

INSTANTIATE_TEST_SUITE_P(All, CodedPanel, ::testing::ValuesIn(kCodedFormats),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace mneme::kernels
