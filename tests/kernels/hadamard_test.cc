#include "mneme/kernels/hadamard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "mneme/kernels/code_kernels.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;

TEST(Hadamard, IsSylvestersMatrixOnRunsOfAPowerOfTwo) {
  for (const std::int64_t n : {1, 2, 3, 16, 20, 64, 80, 96, 128}) {
    const std::int64_t p = n & -n;
    const std::vector<float> x = random_floats(n, 1);
    std::vector<double> expected(x.size());
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i / p * p; j < i / p * p + p; ++j) {
        const bool minus = std::popcount(static_cast<std::uint64_t>((i % p) & (j % p))) % 2;
        expected[i] += (minus ? -x[j] : x[j]) / std::sqrt(static_cast<double>(p));
      }
    }
    for (const Table* table : tables_under_test()) {
      std::vector<float> y = x;
      table->codes->hadamard(y.data(), n);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], expected[i], 2e-6) << table->name << ' ' << n;
      table->codes->hadamard(y.data(), n);
      for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i], 2e-6) << table->name << ' ' << n;
    }
  }
}

TEST(Hadamard, TheSameBitsOnEveryInstructionSet) {
  for (const std::int64_t n : {16, 20, 64, 96, 128, 256}) {
    std::vector<float> expected = random_floats(n, 2, 30.0f);
    const std::vector<float> x = expected;
    tables_under_test().front()->codes->hadamard(expected.data(), n);
    for (const Table* table : tables_under_test()) {
      std::vector<float> y = x;
      table->codes->hadamard(y.data(), n);
      ASSERT_EQ(bits(y), bits(expected)) << table->name << ' ' << n;
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
