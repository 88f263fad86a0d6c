#include "mneme/kernels/fit_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "mneme/base/flush_denormals.h"
#include "mneme/kernels/lanes_scalar.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;

/// What a fit leaves behind, as floats.
struct Fitted {
  std::vector<float> codes, scales, offsets;

  double squared_error(const std::vector<float>& x, std::size_t lane) const {
    double sum = 0;
    for (std::size_t i = lane; i < x.size(); i += 16) {
      const double miss = x[i] - (static_cast<double>(codes[i]) * scales[lane] + offsets[lane]);
      sum += miss * miss;
    }
    return sum;
  }
};

enum class Fit { kMinMax, kLeastSquares, kSymmetric, kHalfQuadratic };

std::ostream& operator<<(std::ostream& out, Fit fit) { return out << "fit " << static_cast<int>(fit); }

Fitted fit(const Table& table, Fit how, int n_bits, const std::vector<float>& x) {
  const FlushDenormals mode;
  const CodeKernels& kernels = *table.codes;
  Fitted result{std::vector<float>(x.size(), -1.0f), std::vector<float>(16), std::vector<float>(16)};
  alignas(64) std::uint16_t scales[16] = {}, offsets[16] = {};
  const FitArgs args{.x = x.data(),
                     .n = static_cast<std::int64_t>(x.size()) / 16,
                     .bits = n_bits,
                     .codes = result.codes.data(),
                     .scales = scales,
                     .offsets = offsets};
  switch (how) {
    case Fit::kMinMax: kernels.fit_min_max(args); break;
    case Fit::kLeastSquares: kernels.fit_least_squares(args); break;
    case Fit::kSymmetric: kernels.fit_symmetric(args); break;
    case Fit::kHalfQuadratic: {
      float state[32];
      const HalfQuadraticArgs all{.fit = args, .inverse_scales = state, .zeros = state + 16};
      kernels.start_half_quadratic(all);
      for (int step = 0; step < 4; ++step) EXPECT_TRUE(std::isfinite(kernels.step_half_quadratic(all)));
      kernels.finish_half_quadratic(all);
    }
  }
  for (int i = 0; i < 16; ++i) {
    result.scales[i] = from_float16(scales[i]);
    result.offsets[i] = from_float16(offsets[i]);
  }
  return result;
}

/// Sixteen groups: ordinary, constant, zero, huge, tiny, with an outlier.
std::vector<float> groups(std::int64_t n, unsigned seed) {
  std::vector<float> x = random_floats(n * 16, seed);
  for (std::int64_t i = 0; i < n; ++i) {
    float* lanes = x.data() + i * 16;
    lanes[1] = 0.0f;
    lanes[2] = -1.25f;
    lanes[3] *= 65504.0f / 8;
    lanes[4] *= 1e-7f;
    lanes[5] = i % 2 ? 65504.0f : -65504.0f;
    lanes[6] *= 1e-42f;
    if (i == n / 2) lanes[7] = 300.0f;
  }
  return x;
}

TEST(FitCodes, TheSameBitsOnEveryInstructionSet) {
  for (const Fit how : {Fit::kMinMax, Fit::kLeastSquares, Fit::kSymmetric, Fit::kHalfQuadratic}) {
    for (const int n_bits : {1, 2, 3, 4, 8}) {
      if (how == Fit::kSymmetric && n_bits != 8) continue;
      for (const std::int64_t n : {1, 7, 32, 64}) {
        const std::vector<float> x = groups(n, static_cast<unsigned>(n));
        const Fitted expected = fit(*tables_under_test().front(), how, n_bits, x);
        for (const Table* table : tables_under_test()) {
          const Fitted result = fit(*table, how, n_bits, x);
          ASSERT_EQ(bits(result.codes), bits(expected.codes)) << table->name << ' ' << how << ' ' << n_bits;
          ASSERT_EQ(bits(result.scales), bits(expected.scales)) << table->name << ' ' << how << ' ' << n_bits;
          ASSERT_EQ(bits(result.offsets), bits(expected.offsets)) << table->name << ' ' << how << ' ' << n_bits;
        }
      }
    }
  }
}

TEST(FitCodes, EveryCodeIsOneAndEveryScaleIsFinite) {
  for (const Fit how : {Fit::kMinMax, Fit::kLeastSquares, Fit::kSymmetric, Fit::kHalfQuadratic}) {
    for (const int n_bits : {1, 2, 3, 4, 8}) {
      if (how == Fit::kSymmetric && n_bits != 8) continue;
      const std::vector<float> x = groups(32, 5);
      const Fitted result = fit(*tables_under_test().front(), how, n_bits, x);
      for (const float code : result.codes) {
        ASSERT_TRUE(code >= 0 && code < static_cast<float>(1 << n_bits) && code == std::floor(code)) << how << code;
      }
      for (int i = 0; i < 16; ++i) ASSERT_TRUE(std::isfinite(result.scales[i]) && std::isfinite(result.offsets[i]));
    }
  }
}

// Half a step, and the rounding of scale and offset.
TEST(FitCodes, MinMaxIsWithinHalfAStep) {
  const std::vector<float> x = groups(32, 6);
  for (const int n_bits : {2, 4, 8}) {
    const Fitted result = fit(*tables_under_test().front(), Fit::kMinMax, n_bits, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      float least = x[i % 16], most = least;
      for (std::size_t j = i % 16; j < x.size(); j += 16) least = std::min(least, x[j]), most = std::max(most, x[j]);
      const float step = (most - least) / static_cast<float>((1 << n_bits) - 1);
      const float value = result.codes[i] * result.scales[i % 16] + result.offsets[i % 16];
      const float rounding = ((most - least) + std::fabs(least)) / 2048 + 1e-5f;
      ASSERT_NEAR(value, x[i], step / 2 + rounding) << n_bits << ' ' << i % 16;
    }
  }
}

TEST(FitCodes, LeastSquaresIsNeverWorseThanMinMaxAndMuchBetterWithTwoBits) {
  const std::vector<float> x = random_floats(32 * 16, 7);
  for (const int n_bits : {2, 3, 4, 8}) {
    const Fitted min_max = fit(*tables_under_test().front(), Fit::kMinMax, n_bits, x);
    const Fitted best = fit(*tables_under_test().front(), Fit::kLeastSquares, n_bits, x);
    double sum = 0, sum_min_max = 0;
    for (std::size_t lane = 0; lane < 16; ++lane) {
      ASSERT_LE(best.squared_error(x, lane), min_max.squared_error(x, lane) * 1.01) << n_bits;
      sum += best.squared_error(x, lane);
      sum_min_max += min_max.squared_error(x, lane);
    }
    if (n_bits == 2) {
      EXPECT_LT(sum, 0.75 * sum_min_max);
    }
  }
}

// |x|^-0.3, on which the half-quadratic steps lean.
TEST(FitCodes, PowerIsRightToSixDigits) {
  for (float x = 0.16f; x < 1e5f; x *= 1.0173f) {
    EXPECT_NEAR(to_minus_three_tenths<LanesScalar>(LanesScalar::set1(x)).first() / std::pow(x, -0.3), 1.0, 1e-6) << x;
  }
}

}  // namespace
}  // namespace mneme::kernels
