#include "mneme/kernels/product_coded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "mneme/base/flush_denormals.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/coded_weights.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::CodedMatrix;
using testing::kCodedFormats;
using testing::random_floats;
using Vector = std::vector<float>;

/// y = x W^T by one table: all rows at once, or one by one.
Vector product(const Table& table, const CodedMatrix& w, const Vector& x, bool one_by_one = false) {
  const FlushDenormals flush;
  const ProductKernels& kernels = table.of(w.format);
  const std::int64_t n_rows = std::ssize(x) / w.columns, prepared = kernels.prepared_bytes(w.columns);
  const std::int64_t n_panels = (w.rows + kPanel - 1) / kPanel, bytes = panel_bytes(w.format, w.columns);
  std::vector<std::byte> panels(static_cast<std::size_t>(n_panels * bytes)),
      rows(static_cast<std::size_t>(n_rows * prepared));
  for (std::int64_t p = 0; p < n_panels; ++p) {
    pack_coded_panel(w.format, w.blocks.data() + p * kPanel * w.row_bytes, w.row_bytes,
                     std::min(kPanel, w.rows - p * kPanel), w.columns, panels.data() + p * bytes);
  }
  kernels.prepare(x.data(), w.columns, n_rows, w.columns, rows.data());
  Vector y(static_cast<std::size_t>(n_rows * w.rows), testing::kNan);
  const std::int64_t step = one_by_one ? 1 : n_rows;
  for (std::int64_t m = 0; m < n_rows; m += step) {
    kernels.linear({.x = rows.data() + m * prepared,
                    .x_stride = prepared,
                    .panels = panels.data(),
                    .bias = nullptr,
                    .y = y.data() + m * w.rows,
                    .y_stride = w.rows,
                    .n_rows = step,
                    .inner = w.columns,
                    .n_columns = w.rows});
  }
  return y;
}

class CodedProducts : public ::testing::TestWithParam<WeightFormat> {};

/// The formula of product_coded.h with nothing shared but the panel's scales and numbers.
TEST_P(CodedProducts, AreTheChainThatTheyAreDefinedAs) {
  const CodedMatrix w(GetParam(), 16, GetParam() == WeightFormat::kQ4_1 ? 544 : 512);  // eight runs, and half a one
  const Vector x = random_floats(3 * w.columns, 5);
  const Vector got = product(*tables_under_test().front(), w, x);
  std::vector<std::byte> panel(static_cast<std::size_t>(panel_bytes(GetParam(), w.columns)));
  pack_coded_panel(GetParam(), w.blocks.data(), w.row_bytes, 16, w.columns, panel.data());
  Vector numbers(w.numbers.size());
  decode_coded_panels(GetParam(), panel.data(), 16, w.columns, numbers.data());
  const std::int64_t block_runs = GetParam() == WeightFormat::kQ6_K ? 4 : 1;
  const std::int64_t block_bytes = std::ssize(panel) / ((w.columns + 64 * block_runs - 1) / (64 * block_runs));
  for (std::int64_t m = 0; m < 3; ++m) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      float y = 0;
      for (std::int64_t k = 0; k < w.columns; k += 64) {
        std::uint16_t half;
        std::memcpy(&half, panel.data() + k / (64 * block_runs) * block_bytes + 2 * n, sizeof half);
        const float scaled_up = from_float16(half) / (GetParam() == WeightFormat::kQ8_0 ? 16.0f : 1.0f);
        const std::int64_t end = std::min(k + 64, w.columns);
        float largest = 0;
        for (std::int64_t i = k; i < end; ++i) largest = std::fmax(largest, std::fabs(x[m * w.columns + i]));
        std::int64_t sum = 0;
        for (std::int64_t i = k; i < end; ++i) {
          const std::int64_t weight = std::lrint(numbers[n * w.columns + i] / (scaled_up / 16.0f));
          sum += weight * std::lrint(x[m * w.columns + i] * (127.0f / largest));
        }
        y = std::fma(static_cast<float>(sum), scaled_up * (largest / 2032.0f), y);
      }
      ASSERT_EQ(got[m * w.rows + n], y) << m << " " << n;
    }
  }
}

TEST_P(CodedProducts, SameBitsOnEveryInstructionSetAndForAnyNumberOfRows) {
  for (const std::int64_t columns : {768, 32, 96, 1056, 1280}) {  // half a run too, and two spans
    if (columns % coded_format(GetParam()).block_elements()) continue;
    const CodedMatrix w(GetParam(), 37, columns, 7);
    for (const std::int64_t n_rows : {1, 2, 3, 4, 5, 16, 35, 67}) {  // with no tile of rows, two and four
      const Vector x = random_floats(n_rows * w.columns, 11);
      const Vector want = product(*tables_under_test().front(), w, x);
      for (const Table* table : tables_under_test()) {
        ASSERT_EQ(product(*table, w, x), want) << table->name << ", " << n_rows << " rows of " << columns;
        ASSERT_EQ(product(*table, w, x, /*one_by_one=*/true), want) << table->name;
      }
    }
  }
}

/// Codes and values at their ends: sums that would not fit sixteen bits if they were taken in a row.
TEST_P(CodedProducts, DoNotOverflow) {
  CodedMatrix w(GetParam(), 16, 512);
  const CodedFormat layout = coded_format(GetParam());
  for (const int way : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const std::byte fill = std::array{std::byte{0xff}, std::byte{0x00}, std::byte{0x80}, std::byte{0x7f}}[way % 4];
    for (std::byte& byte : w.blocks) byte = fill;
    const std::uint16_t scale = to_float16(0.5f), min = to_float16(way < 4 ? 0.5f : -8.0f);
    for (std::size_t at = 0; at < w.blocks.size(); at += static_cast<std::size_t>(layout.block_bytes)) {
      std::memcpy(w.blocks.data() + at + (GetParam() == WeightFormat::kQ6_K ? 208 : 0), &scale, 2);
      if (layout.has_min) std::memcpy(w.blocks.data() + at + 2, &min, 2);
    }
    Vector x(static_cast<std::size_t>(19 * w.columns), 127.0f);  // rows for tiles, and a few more
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = fill == std::byte{0x80} ? -127.0f : 127.0f;
    const Vector want = product(*tables_under_test().front(), w, x);
    for (const Table* table : tables_under_test()) ASSERT_EQ(product(*table, w, x), want) << table->name;
  }
}

TEST_P(CodedProducts, AreCloseToTheProductOfNumbers) {
  const CodedMatrix w(GetParam(), 16, 1024, 3);
  const Vector x = random_floats(8 * w.columns, 13), got = product(*tables_under_test().front(), w, x);
  double error = 0, size = 0;
  for (std::int64_t m = 0; m < 8; ++m) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double want = 0;
      for (std::int64_t k = 0; k < w.columns; ++k)
        want += static_cast<double>(x[static_cast<std::size_t>(m * w.columns + k)]) *
                w.numbers[static_cast<std::size_t>(n * w.columns + k)];
      const double difference = want - got[static_cast<std::size_t>(m * w.rows + n)];
      error += difference * difference;
      size += want * want;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.012);  // values of [-1, 1] in 255 steps
}

TEST_P(CodedProducts, WhatIsNotANumberStaysSo) {
  const CodedMatrix w(GetParam(), 16, 512);
  for (const float bad : {testing::kNan, HUGE_VALF}) {
    Vector x = random_floats(w.columns, 2);
    x[40] = bad;
    for (const Table* table : tables_under_test()) {
      for (const float y : product(*table, w, x)) ASSERT_TRUE(std::isnan(y)) << table->name;
    }
  }
}

TEST_P(CodedProducts, OfZerosAreZero) {
  const CodedMatrix w(GetParam(), 16, 512);
  for (const Table* table : tables_under_test()) {
    for (const float y : product(*table, w, Vector(512, 0.0f))) ASSERT_EQ(y, 0.0f) << table->name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodedProducts, ::testing::ValuesIn(kCodedFormats),
                         [](const auto& param) { return std::string(name_of(param.param)); });

}  // namespace
}  // namespace mneme::kernels
