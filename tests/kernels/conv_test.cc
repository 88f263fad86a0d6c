#include "mneme/kernels/conv.h"

#include <gtest/gtest.h>

#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;

struct Case {
  std::int64_t n, n_taps;
  bool bias;
  Vector x, weight, bias_values;

  Case(std::int64_t channels, std::int64_t taps, bool with_bias)
      : n(channels),
        n_taps(taps),
        bias(with_bias),
        x(random_floats(channels * taps + 1, 1)),
        weight(random_floats(channels * taps, 2)),
        bias_values(random_floats(channels, 3)) {}

  Vector run(const Table& table) const {
    std::vector<const float*> rows;
    for (std::int64_t k = 0; k < n_taps; ++k) rows.push_back(x.data() + 1 + k * n);  // misaligned
    Vector y(static_cast<std::size_t>(n) + 1, 7.0f);
    table.causal_conv({.taps = rows.data(),
                       .n_taps = n_taps,
                       .weight = weight.data(),
                       .bias = bias ? bias_values.data() : nullptr,
                       .n = n,
                       .y = y.data()});
    EXPECT_EQ(y.back(), 7.0f) << "nothing is written past the end";
    y.pop_back();
    return y;
  }

  double exact(std::int64_t c) const {
    double sum = bias ? bias_values[c] : 0.0;
    for (std::int64_t k = 0; k < n_taps; ++k) sum += static_cast<double>(weight[k * n + c]) * x[1 + k * n + c];
    return sum;
  }
};

TEST(CausalConv, EveryLengthOnEveryInstructionSet) {
  for (std::int64_t n = 1; n <= 49; ++n) {
    for (const std::int64_t n_taps : {1, 3, 4}) {
      for (const bool bias : {false, true}) {
        const Case c(n, n_taps, bias);
        const Vector expected = c.run(*tables_under_test().front());
        for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(expected[i], c.exact(i), 2e-6) << n << ' ' << n_taps;
        for (const Table* table : tables_under_test()) EXPECT_EQ(bits(c.run(*table)), bits(expected)) << table->name;
      }
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
