#include "mneme/kernels/scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mneme/base/flush_denormals.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;

/// Tokens of a few channels, rows further apart than they are long.
struct Tokens {
  std::int64_t n_rows, n_states;
  int n_lanes;
  Vector a, d, u, time_step, bc, gate;
  static constexpr std::int64_t kStride = 19;

  Tokens(std::int64_t rows, std::int64_t states, int lanes)
      : n_rows(rows),
        n_states(states),
        n_lanes(lanes),
        a(random_floats(states * 16, 1)),
        d(random_floats(lanes, 2)),
        u(random_floats(rows * kStride, 3)),
        time_step(random_floats(rows * kStride, 4)),
        bc(random_floats(rows * 2 * states, 5)),
        gate(random_floats(rows * kStride, 6)) {
    for (std::int64_t i = 0; i < states * 16; ++i) a[i] = i % 16 < lanes ? -std::exp(a[i]) : 0.0f;
  }

  /// Rows [first, first + n) from `h`, which they move on.
  Vector run(const Table& table, Vector& h, std::int64_t first, std::int64_t n, bool outputs = true) const {
    Vector y(static_cast<std::size_t>(n) * kStride, 7.0f), after(h.size());
    const bool in_place = first % 2 == 0;
    table.selective_scan({.before = h.data(),
                          .after = in_place ? h.data() : after.data(),
                          .n_rows = n,
                          .n_states = n_states,
                          .n_lanes = n_lanes,
                          .a = a.data(),
                          .d = outputs ? d.data() : nullptr,
                          .u = u.data() + first * kStride,
                          .u_stride = kStride,
                          .time_step = time_step.data() + first * kStride,
                          .time_step_stride = kStride,
                          .b = bc.data() + first * 2 * n_states,
                          .c = bc.data() + first * 2 * n_states + n_states,
                          .bc_stride = 2 * n_states,
                          .gate = outputs ? gate.data() + first * kStride : nullptr,
                          .gate_stride = kStride,
                          .y = outputs ? y.data() : nullptr,
                          .y_stride = kStride});
    if (!in_place) h = after;
    return y;
  }

  Vector zeros() const { return Vector(static_cast<std::size_t>(n_states) * 16, 0.0f); }

  /// The formula in double precision.
  std::vector<double> exact() const {
    std::vector<double> h(static_cast<std::size_t>(n_states) * 16), y;
    for (std::int64_t t = 0; t < n_rows; ++t) {
      for (int lane = 0; lane < n_lanes; ++lane) {
        const double ut = u[t * kStride + lane], z = gate[t * kStride + lane];
        const double delta = std::log1p(std::exp(static_cast<double>(time_step[t * kStride + lane])));
        double sum = ut * d[lane];
        for (std::int64_t j = 0; j < n_states; ++j) {
          double& state = h[j * 16 + lane];
          state = std::exp(delta * a[j * 16 + lane]) * state + delta * ut * bc[t * 2 * n_states + j];
          sum += state * bc[t * 2 * n_states + n_states + j];
        }
        y.push_back(sum * z / (1 + std::exp(-z)));
      }
    }
    return y;
  }
};

TEST(SelectiveScan, IsTheFormulaOnEveryInstructionSet) {
  const FlushDenormals flush;
  for (const std::int64_t n_states : {1, 2, 16, 17}) {
    for (int n_lanes = 1; n_lanes <= 16; ++n_lanes) {
      const Tokens tokens(33, n_states, n_lanes);
      Vector expected_state = tokens.zeros();
      const Vector expected = tokens.run(*tables_under_test().front(), expected_state, 0, 33);
      const std::vector<double> exact = tokens.exact();
      for (std::int64_t t = 0; t < 33; ++t) {
        for (int lane = 0; lane < Tokens::kStride; ++lane) {
          const float y = expected[t * Tokens::kStride + lane];
          if (lane >= n_lanes) {
            ASSERT_EQ(y, 7.0f) << "nothing is written past the channels";
          } else {
            ASSERT_NEAR(y, exact[t * n_lanes + lane], 3e-6 * static_cast<double>(n_states + 4)) << n_states;
          }
        }
      }
      for (const Table* table : tables_under_test()) {
        Vector state = tokens.zeros();
        EXPECT_EQ(bits(tokens.run(*table, state, 0, 33)), bits(expected)) << table->name;
        EXPECT_EQ(bits(state), bits(expected_state)) << table->name;
      }
    }
  }
}

// A prompt in pieces of any length, in place or not, is the prompt at once; without outputs h is the same.
TEST(SelectiveScan, PiecesAreTheWhole) {
  const Tokens tokens(29, 16, 13);
  for (const Table* table : tables_under_test()) {
    Vector whole_state = tokens.zeros();
    const Vector whole = tokens.run(*table, whole_state, 0, 29);
    for (const std::int64_t piece : {1, 2, 5, 7}) {
      Vector state = tokens.zeros(), silent_state = tokens.zeros(), y;
      for (std::int64_t first = 0; first < 29; first += piece) {
        const std::int64_t n = std::min(piece, 29 - first);
        const Vector part = tokens.run(*table, state, first, n);
        y.insert(y.end(), part.begin(), part.end());
        tokens.run(*table, silent_state, first, n, /*outputs=*/false);
      }
      EXPECT_EQ(bits(y), bits(whole)) << table->name << ' ' << piece;
      EXPECT_EQ(bits(state), bits(whole_state)) << table->name << ' ' << piece;
      EXPECT_EQ(bits(silent_state), bits(whole_state)) << table->name << ' ' << piece;
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
