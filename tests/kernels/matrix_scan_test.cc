#include "mneme/kernels/matrix_scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;

/// Tokens of a few channels of one head, rows further apart than they are long.
struct Tokens {
  std::int64_t n_rows, n_keys;
  int n_lanes;
  Vector gates, k, q, v;
  static constexpr std::int64_t kStride = 19;

  Tokens(std::int64_t rows, std::int64_t keys, int lanes)
      : n_rows(rows),
        n_keys(keys),
        n_lanes(lanes),
        gates(random_floats(rows * 3, 1, 0.3f)),
        k(random_floats(rows * (keys + 1), 2, 0.3f)),
        q(random_floats(rows * (keys + 2), 3)),
        v(random_floats(rows * kStride, 4)) {}

  /// Rows [first, first + n) from `h`, which they move on.
  Vector run(const Table& table, bool delta, Vector& h, std::int64_t first, std::int64_t n, bool outputs = true) const {
    Vector y(static_cast<std::size_t>(n) * kStride, 7.0f), after(h.size());
    const bool in_place = first % 2 == 0;
    const auto kernel = delta ? table.delta_rule : table.linear_attention;
    kernel({.before = h.data(),
            .after = in_place ? h.data() : after.data(),
            .n_rows = n,
            .n_keys = n_keys,
            .n_lanes = n_lanes,
            .decay_weight = gates.data() + first * 3,
            .decay_weight_stride = 3,
            .k = k.data() + first * (n_keys + 1),
            .k_stride = n_keys + 1,
            .q = outputs ? q.data() + first * (n_keys + 2) : nullptr,
            .q_stride = n_keys + 2,
            .v = v.data() + first * kStride,
            .v_stride = kStride,
            .y = outputs ? y.data() : nullptr,
            .y_stride = kStride});
    if (!in_place) h = after;
    return y;
  }

  Vector zeros() const { return Vector(static_cast<std::size_t>(n_keys) * 16, 0.0f); }

  /// The formula in double precision: y of each row and lane.
  std::vector<double> exact(bool delta) const {
    std::vector<double> h(static_cast<std::size_t>(n_keys) * 16), result;
    for (std::int64_t t = 0; t < n_rows; ++t) {
      const double decay = gates[t * 3], weight = gates[t * 3 + 1];
      for (int lane = 0; lane < n_lanes; ++lane) {
        double value = v[t * kStride + lane], out = 0;
        for (std::int64_t j = 0; j < n_keys; ++j) h[j * 16 + lane] *= decay;
        if (delta) {
          for (std::int64_t j = 0; j < n_keys; ++j) value -= h[j * 16 + lane] * k[t * (n_keys + 1) + j];
        }
        for (std::int64_t j = 0; j < n_keys; ++j) {
          h[j * 16 + lane] += k[t * (n_keys + 1) + j] * weight * value;
          out += h[j * 16 + lane] * q[t * (n_keys + 2) + j];
        }
        result.push_back(out);
      }
    }
    return result;
  }
};

TEST(MatrixScan, IsTheFormula) {
  for (const bool delta : {false, true}) {
    for (const std::int64_t keys : {1, 2, 3, 4, 5, 16, 67}) {
      for (const int lanes : {1, 15, 16}) {
        const Tokens tokens(9, keys, lanes);
        const std::vector<double> exact = tokens.exact(delta);
        for (const Table* table : tables_under_test()) {
          Vector h = tokens.zeros();
          const Vector y = tokens.run(*table, delta, h, 0, 9);
          for (std::int64_t t = 0; t < 9; ++t) {
            for (int lane = 0; lane < lanes; ++lane) {
              ASSERT_NEAR(y[t * Tokens::kStride + lane], exact[t * lanes + lane], 2e-5)
                  << table->name << " " << keys << " " << lanes << " row " << t;
            }
            for (int lane = lanes; lane < Tokens::kStride; ++lane) ASSERT_EQ(y[t * Tokens::kStride + lane], 7.0f);
          }
        }
      }
    }
  }
}

TEST(MatrixScan, PiecesAndInstructionSetsChangeNoBit) {
  for (const bool delta : {false, true}) {
    const Tokens tokens(12, 37, 13);
    Vector expected_h = tokens.zeros();
    const Vector expected = tokens.run(*tables_under_test().front(), delta, expected_h, 0, 12);
    for (const Table* table : tables_under_test()) {
      for (const std::int64_t piece : {1, 5, 12}) {
        Vector h = tokens.zeros(), silent = tokens.zeros(), y;
        for (std::int64_t i = 0; i < 12; i += piece) {
          const std::int64_t n = std::min<std::int64_t>(piece, 12 - i);
          const Vector part = tokens.run(*table, delta, h, i, n);
          y.insert(y.end(), part.begin(), part.end());
          tokens.run(*table, delta, silent, i, n, /*outputs=*/false);
        }
        EXPECT_EQ(bits(y), bits(expected)) << table->name << " pieces of " << piece;
        EXPECT_EQ(bits(h), bits(expected_h)) << table->name;
        EXPECT_EQ(bits(silent), bits(expected_h)) << table->name << " without outputs";
      }
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
