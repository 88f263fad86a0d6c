#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "mneme/base/flush_denormals.h"
#include "mneme/kernels/kernels.h"
#include "mneme/kernels/lanes_scalar.h"
#include "tests/kernels/fake_avx512.h"
#include "tests/kernels/lanes_operations.h"

namespace mneme::kernels {
namespace {

bool is_nan(std::uint32_t word) { return (word & 0x7fffffffu) > 0x7f800000u; }
bool is_nan16(std::uint32_t half) { return (half & 0x7fffu) > 0x7c00u; }

/// The same bits; of NaN only that it is one (a processor may keep its payload), in one word or, from store_float16, in
/// two halves.
bool same(std::uint32_t x, std::uint32_t y) {
  if (x == y || (is_nan(x) && is_nan(y))) return true;
  for (const int shift : {0, 16}) {
    const std::uint32_t a = x >> shift & 0xffffu, b = y >> shift & 0xffffu;
    if (a != b && !(is_nan16(a) && is_nan16(b))) return false;
  }
  return true;
}

/// Holds `apply` against LanesScalar over ordinary and extraordinary lanes.
void expect_scalar_results(ApplyAll apply) {
  const FlushDenormals flush;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, 20.0f);
  std::uniform_int_distribution<std::uint32_t> word;
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNone = std::numeric_limits<float>::quiet_NaN();
  const float special[] = {0.0f,   -0.0f,   1.0f,     -0.5f,   0.5f,     1.5f,       2.5f,
                           kInf,   -kInf,   kNone,    -kNone,  65504.f,  65520,      65519.996f,
                           1e-40f, -1e-40f, 5.97e-8f, 2.9e-8f, 3.39e38f, 1.00390625f};
  for (int round = 0; round < 3000; ++round) {
    alignas(64) float lanes[3][17];
    std::uint16_t halves[33];
    for (auto& values : lanes) {
      for (float& x : values) {
        const std::uint32_t pick = word(generator);
        x = round % 3 == 0               ? normal(generator)
            : round % 3 == 1 && pick % 2 ? special[pick / 2 % std::size(special)]
                                         : std::bit_cast<float>(word(generator));
      }
    }
    for (std::uint16_t& half : halves) half = static_cast<std::uint16_t>(word(generator));
    const int offset = round % 2;  // misaligned every other time
    const int i = static_cast<int>(word(generator) % 24) - 4, j = static_cast<int>(word(generator) % 24) - 4;

    std::uint32_t expected[kLanesResults][16] = {}, actual[kLanesResults][16] = {};
    const auto run = [&](ApplyAll f, std::uint32_t(*out)[16]) {
      return f(lanes[0] + offset, lanes[1] + offset, lanes[2] + offset, halves + offset, i, j, out);
    };
    const int n = run(apply_all<LanesScalar>, expected);
    ASSERT_EQ(run(apply, actual), n);
    for (int k = 0; k < n; ++k) {
      for (int lane = 0; lane < 16; ++lane) {
        ASSERT_TRUE(same(actual[k][lane], expected[k][lane]))
            << "result " << k << " lane " << lane << " of " << std::hex << lanes[0][lane + offset] << ' '
            << lanes[1][lane + offset] << ": " << actual[k][lane] << ", not " << expected[k][lane];
      }
    }
  }
}

TEST(LanesAvx2, EqualScalarLanes) {
  if (!kApplyAvx2 || available().size() < 2) GTEST_SKIP() << "no AVX2 here";
  expect_scalar_results(kApplyAvx2);
}

TEST(LanesAvx512, EqualScalarLanesOnInstructionsInPlainCpp) {
  expect_scalar_results(apply_all<LanesFakeAvx512>);
  expect_scalar_results(apply_all<LanesFakeAvx512Vnni>);
}

TEST(LanesScalar, SumIsATreeOfHalves) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = i < 8 ? 1.0f : 1e-8f;
  lanes[0] = 1e8f, lanes[8] = -1e8f;  // neighbours in the tree: they vanish first
  EXPECT_EQ(LanesScalar::load(lanes).sum(), 7.0f);
}

TEST(LanesScalar, MaskedLoadsAndStoresTouchOnlyTheirLanes) {
  const float one[1] = {3.0f};
  const LanesScalar lanes = LanesScalar::load_first(one, 1);
  EXPECT_EQ(lanes.v[0], 3.0f);
  EXPECT_EQ(lanes.v[15], 0.0f);
  float out[2] = {0, 9};
  lanes.store_first(out, 1);
  EXPECT_EQ(out[0], 3.0f);
  EXPECT_EQ(out[1], 9.0f);
}

}  // namespace
}  // namespace mneme::kernels
