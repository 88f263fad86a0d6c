#include "mneme/ops/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/matrix.h"
#include "tests/support/thrown.h"

namespace mneme::ops {
namespace {

using testing::bits;
using testing::Matrix;
using testing::thrown;

const RopeOptions kLlama3{.type = "llama3",
                          .theta = 500000.0,
                          .factor = 8.0,
                          .low_freq_factor = 1.0,
                          .high_freq_factor = 4.0,
                          .original_max_position_embeddings = 8192};

TEST(Rope, DefaultFrequenciesAreThePapers) {
  for (const std::int64_t dim : {2, 16, 64, 80, 128}) {
    for (const double theta : {100.0, 10000.0, 1000000.0}) {
      const Rope rope(dim, {.theta = theta});
      ASSERT_EQ(std::ssize(rope.frequencies()), dim / 2);
      for (std::int64_t i = 0; i < dim / 2; ++i) {
        // The exponent is rounded to float32, which ln theta < 14 magnifies.
        const double exact = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
        EXPECT_NEAR(rope.frequencies()[static_cast<std::size_t>(i)], exact, exact * 16 * 0x1p-24);
      }
    }
  }
}

TEST(Rope, LinearDividesByTheFactor) {
  const Rope plain(32, {}), linear(32, {.type = "linear", .factor = 4.0});
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(linear.frequencies()[i], plain.frequencies()[i] / 4.0f);
}

// Long waves stretched, short ones kept, and in between the mean weighted by where original / wavelength lies.
TEST(Rope, Llama3FollowsTheFormula) {
  const Rope plain(128, {.theta = 500000.0}), scaled(128, kLlama3);
  int kept = 0, stretched = 0, mixed = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    const double f = plain.frequencies()[i], wavelength = 2 * std::numbers::pi / f;
    double exact;
    if (wavelength < 8192.0 / 4) {
      exact = f, ++kept;
    } else if (wavelength > 8192.0) {
      exact = f / 8, ++stretched;
    } else {
      const double smooth = (8192 / wavelength - 1) / (4 - 1);
      exact = (1 - smooth) * f / 8 + smooth * f, ++mixed;
    }
    EXPECT_NEAR(scaled.frequencies()[i], exact, exact * 0x1p-23) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(mixed, 0);
}

// Pairs that turn often in the original length are kept, those that turn seldom are stretched, in between a line.
TEST(Rope, YarnFollowsTheFormula) {
  for (const bool truncate : {false, true}) {
    const Rope plain(64, {.theta = 150000.0});
    const Rope yarn(64, {.type = "yarn",
                         .theta = 150000.0,
                         .factor = 32.0,
                         .truncate = truncate,
                         .original_max_position_embeddings = 4096});
    const auto pair_of = [](double turns) {
      return 64 * std::log(4096 / (turns * 2 * std::numbers::pi)) / (2 * std::log(150000.0));
    };
    const double low = truncate ? std::floor(pair_of(32)) : pair_of(32),
                 high = truncate ? std::ceil(pair_of(1)) : pair_of(1);
    for (std::size_t i = 0; i < 32; ++i) {
      const double f = plain.frequencies()[i];
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      EXPECT_NEAR(yarn.frequencies()[i], f / 32 * ramp + f * (1 - ramp), f * 0x1p-20) << i;
    }
    EXPECT_FLOAT_EQ(yarn.attention_factor(), static_cast<float>(0.1 * std::log(32.0) + 1));
    EXPECT_FALSE(yarn.by_length());
  }
  const RopeOptions deepseek{.type = "yarn",
                             .factor = 40,
                             .attention_factor = {},
                             .mscale = 0.7,
                             .mscale_all_dim = 1.0,
                             .original_max_position_embeddings = 4096};
  EXPECT_FLOAT_EQ(Rope(64, deepseek).attention_factor(),
                  static_cast<float>((0.07 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1)));
}

TEST(Rope, LongropeAndDynamicGoByTheLengthOfTheText) {
  const Rope plain(8, {});
  const Rope longrope(8, {.type = "longrope",
                          .factor = 4.0,
                          .short_factor = {1, 2, 3, 4},
                          .long_factor = {2, 4, 8, 16},
                          .original_max_position_embeddings = 64});
  EXPECT_TRUE(longrope.by_length());
  for (std::size_t i = 0; i < 4; ++i) {
    const float f = plain.frequencies()[i];
    EXPECT_FLOAT_EQ(longrope.frequencies(64)[i], f / static_cast<float>(i + 1));
    EXPECT_FLOAT_EQ(longrope.frequencies(65)[i], f / static_cast<float>(2 << i));
  }
  EXPECT_FLOAT_EQ(longrope.attention_factor(), static_cast<float>(std::sqrt(1 + std::log(4.0) / std::log(64.0))));

  const Rope dynamic(8, {.type = "dynamic", .factor = 2.0, .max_position_embeddings = 64});
  EXPECT_EQ(dynamic.frequencies(64), plain.frequencies());
  const double theta = 10000 * std::pow(2.0 * 128 / 64 - 1, 8.0 / 6);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(dynamic.frequencies(128)[i], std::pow(theta, -2.0 * static_cast<double>(i) / 8), 1e-6);
  }

  // A table takes each row's length, or that of the text up to its position.
  Workspace workspace(at::kCPU);
  const std::int64_t positions[] = {10, 70}, lengths[] = {100, 100};
  const Rope::Table alone = longrope.table(workspace, positions), known = longrope.table(workspace, positions, lengths);
  EXPECT_NE(alone.sines.row(0)[1], known.sines.row(0)[1]);
  EXPECT_EQ(alone.sines.row(1)[1], known.sines.row(1)[1]);
  EXPECT_FLOAT_EQ(known.sines.row(0)[1], std::sin(10 * longrope.frequencies(100)[1]) * longrope.attention_factor());
}

TEST(Rope, TableIsCosineAndSineOfTheRoundedAngle) {
  Workspace workspace(at::kCPU);
  const Rope rope(16, {});
  const std::int64_t positions[] = {0, 1, 77, 8191, 131071, 2000000};
  const Rope::Table table = rope.table(workspace, positions);
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t j = 0; j < 8; ++j) {
      const float angle = static_cast<float>(positions[i]) * rope.frequencies()[static_cast<std::size_t>(j)];
      EXPECT_NEAR(table.cosines.row(i)[j], std::cos(static_cast<double>(angle)), 0x1p-24);
      EXPECT_NEAR(table.sines.row(i)[j], std::sin(static_cast<double>(angle)), 0x1p-24);
    }
  }
}

TEST(Rope, AnEntryDependsOnItsPositionAlone) {
  Workspace workspace(at::kCPU);
  const Rope rope(64, kLlama3);
  std::vector<std::int64_t> many(3000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i);
  const Rope::Table all = rope.table(workspace, many);
  for (const std::int64_t position : {0, 1, 1023, 2999}) {
    const Rope::Table one = rope.table(workspace, {&position, 1});
    EXPECT_TRUE(std::equal(one.cosines.data, one.cosines.data + 32, all.cosines.row(position)));
    EXPECT_TRUE(std::equal(one.sines.data, one.sines.data + 32, all.sines.row(position)));
  }
}

// Pairs are half a head apart. Two products and a sum of float32: at most 3 u (|x| + |y|).
TEST(Rope, RotatesPairsOfEveryHeadOnBothPaths) {
  for (const std::int64_t dim : {2, 16, 24, 64}) {
    const std::int64_t head_dim = dim + (dim == 16 ? 8 : 0);  // 16 of 24: the rest is not rotated
    const Rope rope(dim, {});
    const std::int64_t positions[] = {0, 3, 100, 4095};
    const Matrix before = Matrix::random(4, 5 + 3 * head_dim + 2, 1);
    for (const bool through_aten : {false, true}) {
      Workspace workspace(at::kCPU);
      workspace.set_through_aten(through_aten);
      Matrix x = before;
      const Rope::Table table = rope.table(workspace, positions);
      rope.apply(workspace, table, x.rows(), 5, 3, head_dim);
      for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t column = 0; column < x.width; ++column) {
          const std::int64_t k = (column - 5) % head_dim, j = k % (dim / 2);
          const float* const row = before.row(i);
          if (column < 5 || column >= 5 + 3 * head_dim || k >= dim) {
            ASSERT_EQ(x.row(i)[column], row[column]);
            continue;
          }
          const std::int64_t low = column - k + j, high = low + dim / 2;
          const double angle = static_cast<float>(positions[i]) * rope.frequencies()[static_cast<std::size_t>(j)];
          const double exact = k < dim / 2 ? row[low] * std::cos(angle) - row[high] * std::sin(angle)
                                           : row[high] * std::cos(angle) + row[low] * std::sin(angle);
          ASSERT_NEAR(x.row(i)[column], exact, 4 * 0x1p-24 * (std::abs(row[low]) + std::abs(row[high])));
        }
      }
    }
  }
}

TEST(Rope, PositionZeroChangesNothing) {
  Workspace workspace(at::kCPU);
  const Rope rope(32, {});
  const Matrix before = Matrix::random(1, 64, 2);
  Matrix x = before;
  const std::int64_t zero = 0;
  rope.apply(workspace, rope.table(workspace, {&zero, 1}), x.rows(), 0, 2, 32);
  EXPECT_EQ(bits(x.values), bits(before.values));
}

TEST(Rope, RefusesWhatCannotBe) {
  const auto refused = [](ErrorKind kind, std::int64_t dim, const RopeOptions& options) {
    return thrown(kind, [&] { Rope(dim, options); });
  };
  EXPECT_THAT(refused(ErrorKind::kInvalidArgument, 7, {}), ::testing::HasSubstr("7"));
  refused(ErrorKind::kInvalidArgument, 0, {});
  EXPECT_THAT(refused(ErrorKind::kUnsupported, 8, {.type = "spiral"}), ::testing::HasSubstr("spiral"));
  refused(ErrorKind::kInvalidArgument, 8, {.type = "yarn", .factor = 4});
  refused(ErrorKind::kInvalidArgument, 8, {.type = "dynamic", .factor = 4});
  EXPECT_THAT(refused(ErrorKind::kInvalidArgument, 8,
                      {.type = "longrope",
                       .short_factor = {1, 2, 3},
                       .long_factor = {1, 2, 3, 4},
                       .original_max_position_embeddings = 64}),
              ::testing::HasSubstr("short_factor has 3 numbers, 4 pairs"));
  for (const double bad : {0.0, -1.0, static_cast<double>(testing::kNan), static_cast<double>(testing::kInfinity)}) {
    refused(ErrorKind::kInvalidArgument, 8, {.theta = bad});
    refused(ErrorKind::kInvalidArgument, 8, {.type = "linear", .factor = bad});
  }
  RopeOptions swapped = kLlama3;
  std::swap(swapped.low_freq_factor, swapped.high_freq_factor);
  refused(ErrorKind::kInvalidArgument, 8, swapped);
  RopeOptions unknown = kLlama3;
  unknown.original_max_position_embeddings = 0;
  refused(ErrorKind::kInvalidArgument, 8, unknown);
}

TEST(Rope, ApplyRefusesOtherShapes) {
  Workspace workspace(at::kCPU);
  const Rope rope(16, {});
  const std::int64_t positions[] = {0, 1};
  const Rope::Table table = rope.table(workspace, positions);
  Matrix x(2, 32), longer(3, 32);
  thrown(ErrorKind::kInvalidArgument, [&] { rope.apply(workspace, table, x.rows(), 8, 2, 16); });
  thrown(ErrorKind::kInvalidArgument, [&] { rope.apply(workspace, table, x.rows(), 0, 2, 8); });
  thrown(ErrorKind::kInvalidArgument, [&] { rope.apply(workspace, table, longer.rows(), 0, 2, 16); });
}

}  // namespace
}  // namespace mneme::ops
