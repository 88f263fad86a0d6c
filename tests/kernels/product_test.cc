#include "mneme/kernels/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "mneme/base/flush_denormals.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::kNan;
using testing::random_floats;
using Vector = std::vector<float>;

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Bytes at a distance of `offset` from 64-byte alignment; NaN in whatever format until they are written.
class Bytes {
 public:
  explicit Bytes(std::int64_t n, std::int64_t offset = 0)
      : storage_(static_cast<std::size_t>(n + 128), std::byte{0xff}), offset_(offset) {}
  std::byte* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    return storage_.data() + (-address & 63) + offset_;
  }

 private:
  std::vector<std::byte> storage_;
  std::int64_t offset_;
};

/// A linear layer with NaN everywhere around what may be read, and marks around what may be written.
struct Layer {
  DType format;
  std::int64_t n_rows, inner, n_columns;
  Vector x, weights, bias;

  Layer(DType f, std::int64_t rows, std::int64_t k, std::int64_t columns, bool with_bias = false)
      : format(f),
        n_rows(rows),
        inner(k),
        n_columns(columns),
        x(random_floats(rows * k, 1)),
        weights(random_floats(columns * k, 2)),
        bias(with_bias ? random_floats(columns, 3) : Vector{}) {}

  /// The weights as stored, widened again.
  float weight(std::int64_t n, std::int64_t k) const {
    const float w = weights[n * inner + k];
    return format == DType::kFloat32    ? w
           : format == DType::kBFloat16 ? from_bfloat16(to_bfloat16(w))
                                        : from_float16(to_float16(w));
  }
  float value(std::int64_t m, std::int64_t k) const {
    const float v = x[m * inner + k];
    return format == DType::kBFloat16 ? from_bfloat16(to_bfloat16(v)) : v;
  }

  /// Rows [first, last) by the columns of panels [first_panel, last_panel), by one table.
  Vector run(const Table& table, std::int64_t first, std::int64_t last, std::int64_t first_panel,
             std::int64_t last_panel, std::int64_t offset = 0) const {
    const FlushDenormals flush;
    const FormatKernels& kernels = table.of(format);
    const std::int64_t rows = last - first, bytes = panel_bytes(format, inner),
                       prepared = kernels.prepared_bytes(inner);
    Bytes panels(bytes * (last_panel - first_panel), offset);
    for (std::int64_t p = first_panel; p < last_panel; ++p) {
      const std::int64_t n = n_columns - p * kPanel < kPanel ? n_columns - p * kPanel : kPanel;
      pack_panel(format, weights.data() + p * kPanel * inner, n, inner, panels.data() + (p - first_panel) * bytes);
    }
    const std::int64_t x_stride = prepared ? prepared : (inner + 3) * 4;
    Bytes rows_bytes(x_stride * rows, offset);
    if (prepared) {
      kernels.prepare(x.data() + first * inner, inner, rows, inner, rows_bytes.data());
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        if (inner) std::memcpy(rows_bytes.data() + r * x_stride, x.data() + (first + r) * inner, inner * 4);
      }
    }
    const std::int64_t last_column = last_panel * kPanel < n_columns ? last_panel * kPanel : n_columns;
    const std::int64_t columns = last_column - first_panel * kPanel, y_stride = columns + 5;
    Vector y(rows * y_stride + 16, kMark), result;
    kernels.linear({.x = rows_bytes.data(),
                    .x_stride = x_stride,
                    .panels = panels.data(),
                    .bias = bias.empty() ? nullptr : bias.data() + first_panel * kPanel,
                    .y = y.data() + offset / 4,
                    .y_stride = y_stride,
                    .n_rows = rows,
                    .inner = inner,
                    .n_columns = columns});
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) - offset / 4;
      const bool written = at >= 0 && at / y_stride < rows && at % y_stride < columns;
      if (written) {
        result.push_back(y[i]);
      } else {
        EXPECT_EQ(y[i], kMark) << table.name << ": written outside at " << at;
      }
    }
    return result;
  }
  std::int64_t n_panels() const { return (n_columns + kPanel - 1) / kPanel; }
  Vector run(const Table& table, std::int64_t offset = 0) const { return run(table, 0, n_rows, 0, n_panels(), offset); }

  static constexpr float kMark = 12345.0f;
};

/// The orders of summation that kernels.h promises.
Vector specified(const Layer& layer) {
  const FlushDenormals flush;
  Vector y;
  for (std::int64_t m = 0; m < layer.n_rows; ++m) {
    for (std::int64_t n = 0; n < layer.n_columns; ++n) {
      float sum = 0;
      if (layer.format == DType::kBFloat16) {
        for (std::int64_t block = 0; block < layer.inner; block += 32) {
          float chains[2] = {0, 0};
          for (std::int64_t k = block; k < block + 32; ++k) {
            const bool inside = k < layer.inner;
            chains[k % 2] = std::fma(inside ? layer.value(m, k) : 0, inside ? layer.weight(n, k) : 0, chains[k % 2]);
          }
          sum = sum + (chains[0] + chains[1]);
        }
      } else {
        for (std::int64_t k = 0; k < layer.inner; ++k) sum = std::fma(layer.value(m, k), layer.weight(n, k), sum);
      }
      y.push_back(layer.bias.empty() ? sum : sum + layer.bias[n]);
    }
  }
  return y;
}

std::string name(const Layer& layer, const Table& table) {
  return std::string(table.name) + ' ' + std::string(name_of(layer.format)) + " rows " + std::to_string(layer.n_rows) +
         " inner " + std::to_string(layer.inner) + " columns " + std::to_string(layer.n_columns);
}

void expect_specified(const Layer& layer, std::int64_t offset = 0) {
  const auto expected = bits(specified(layer));
  for (const Table* table : tables_under_test()) {
    ASSERT_EQ(bits(layer.run(*table, offset)), expected) << name(layer, *table);
  }
}

TEST(Product, EverySizeGivesTheSpecifiedBits) {
  constexpr std::int64_t kColumns[] = {1, 15, 16, 17, 31, 33, 48, 65, 80};
  std::int64_t turn = 0;
  for (const DType format : kFormats) {
    for (std::int64_t inner = 1; inner <= 97; inner += inner % 16 == 1 ? 13 : 1) {
      const std::int64_t n_rows = 1 + turn % 49;
      expect_specified(Layer(format, n_rows, inner, kColumns[turn % 9], turn % 2), turn % 4 * 4);
      ++turn;
    }
    for (std::int64_t n_rows = 1; n_rows <= 49; ++n_rows) {
      expect_specified(Layer(format, n_rows, 1 + turn * 7 % 97, kColumns[turn % 9], turn % 2), turn % 4 * 4);
      ++turn;
    }
  }
}

TEST(Product, LongerThanOneBlockGivesTheSpecifiedBits) {
  for (const DType format : kFormats) {
    for (const std::int64_t inner : {255, 256, 257, 511, 512, 513, 1024}) {
      expect_specified(Layer(format, 1, inner, 33));
      expect_specified(Layer(format, 14, inner, 33));
      expect_specified(Layer(format, inner % 2 ? 70 : 85, inner, 33));  // more tiles of rows than one
    }
    expect_specified(Layer(format, 97, 300, 17));
    expect_specified(Layer(format, 260, 40, 33));
  }
}

TEST(Product, OfNothingIsZeroAndOfNoRowsNothing) {
  for (const DType format : kFormats) {
    for (const std::int64_t n_rows : {0, 1, 2, 9, 40}) expect_specified(Layer(format, n_rows, 0, 17, true));
    expect_specified(Layer(format, 0, 5, 17));
  }
}

TEST(Product, IsNearTheExactResult) {
  for (const DType format : kFormats) {
    const Layer layer(format, 7, 577, 33, true);
    for (const Table* table : tables_under_test()) {
      const Vector y = layer.run(*table);
      for (std::int64_t m = 0; m < layer.n_rows; ++m) {
        for (std::int64_t n = 0; n < layer.n_columns; ++n) {
          double exact = layer.bias[n], magnitude = std::abs(layer.bias[n]);
          for (std::int64_t k = 0; k < layer.inner; ++k) {
            const double product = static_cast<double>(layer.value(m, k)) * layer.weight(n, k);
            exact += product;
            magnitude += std::abs(product);
          }
          // The bound of any order of n roundings is n u sum |x w|; this one is met by the square root.
          EXPECT_NEAR(y[m * layer.n_columns + n], exact, std::sqrt(577.0) * 0x1p-24 * magnitude) << name(layer, *table);
        }
      }
    }
  }
}

TEST(Product, ARowDoesNotDependOnTheOthers) {
  for (const DType format : kFormats) {
    const Layer layer(format, 65, 160, 50, true);
    for (const Table* table : tables_under_test()) {
      Vector alone;
      for (std::int64_t m = 0; m < layer.n_rows; ++m) {
        const Vector row = layer.run(*table, m, m + 1, 0, layer.n_panels());
        alone.insert(alone.end(), row.begin(), row.end());
      }
      for (const std::int64_t n_rows : {1, 2, 3, 5, 6, 7, 12, 13, 48, 64, 65}) {
        const Vector together = layer.run(*table, 0, n_rows, 0, layer.n_panels());
        EXPECT_EQ(bits(together), bits(Vector(alone.begin(), alone.begin() + n_rows * layer.n_columns)))
            << name(layer, *table) << ": " << n_rows << " rows";
      }
    }
  }
}

TEST(Product, AnySplitOfPanelsGivesTheSameBits) {
  for (const DType format : kFormats) {
    const Layer layer(format, 9, 70, 105, true);
    for (const Table* table : tables_under_test()) {
      const Vector whole = layer.run(*table);
      for (std::int64_t split = 1; split < layer.n_panels(); ++split) {
        const Vector left = layer.run(*table, 0, 9, 0, split), right = layer.run(*table, 0, 9, split, layer.n_panels());
        const std::int64_t n_left = split * kPanel, n_right = layer.n_columns - n_left;
        Vector joined;
        for (std::int64_t m = 0; m < 9; ++m) {
          joined.insert(joined.end(), left.begin() + m * n_left, left.begin() + (m + 1) * n_left);
          joined.insert(joined.end(), right.begin() + m * n_right, right.begin() + (m + 1) * n_right);
        }
        EXPECT_EQ(bits(joined), bits(whole)) << name(layer, *table) << ": split at " << split;
      }
    }
  }
}

TEST(Product, TinyNumbersAreZero) {
  for (const DType format : {DType::kFloat32, DType::kBFloat16}) {
    for (const float scale : {1e-38f, 1e-20f, 1e-19f}) {
      Layer layer(format, 18, 70, 33);
      for (float& x : layer.x) x *= scale;
      for (float& w : layer.weights) w *= scale;
      layer.x[3] = layer.weights[3] = 1.0f;
      expect_specified(layer);
    }
  }
}

TEST(Product, InfinityAndNanGoThrough) {
  for (const DType format : kFormats) {
    Layer layer(format, 10, 64, 32);
    layer.x[2 * 64 + 5] = testing::kInfinity;
    layer.x[7 * 64 + 9] = kNan;
    for (const Table* table : tables_under_test()) {
      const Vector y = layer.run(*table);
      for (std::int64_t m = 0; m < 10; ++m) {
        for (std::int64_t n = 0; n < 32; ++n) {
          const float value = y[m * 32 + n];
          EXPECT_EQ(std::isnan(value), m == 7) << name(layer, *table);
          EXPECT_EQ(std::isinf(value), m == 2) << name(layer, *table);
        }
      }
    }
  }
}

TEST(Product, PreparedRowsKeepTheirDistanceInTheCache) {
  for (const Table* table : tables_under_test()) {
    for (const std::int64_t inner : {512, 1024, 2048, 4096}) {
      const std::int64_t bytes = table->of(DType::kBFloat16).prepared_bytes(inner);
      EXPECT_NE(bytes % 1024, 0) << table->name;
      EXPECT_EQ(bytes % 64, 0) << table->name;
    }
    EXPECT_EQ(table->of(DType::kFloat32).prepared_bytes(100), 0);
    EXPECT_EQ(table->of(DType::kFloat16).prepared_bytes(100), 0);
  }
}

}  // namespace
}  // namespace mneme::kernels
