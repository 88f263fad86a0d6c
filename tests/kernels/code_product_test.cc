#include "mneme/kernels/code_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "mneme/base/flush_denormals.h"
#include "mneme/kernels/lanes_scalar.h"
#include "tests/kernels/coded_blocks.h"
#include "tests/kernels/fake_avx512.h"
#include "tests/kernels/lanes_operations.h"
#include "tests/support/floats.h"

/// The definition of code_product.h with nothing shared but the codes, and what rounding costs.
namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;

/// What code_product.h says of one row x [inner] and the sixteen outputs of a panel.
class Definition {
 public:
  Definition(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile)
      : codes_(codes), side_(side), dim_(dim), tile_(tile), middle_(1 << (codes.bits - 1)) {}

  float output(const Vector& x, std::int64_t lane) const {
    const std::int64_t inner = std::ssize(x);
    if (codes_.kind == CodeKind::kFloat8) return float8_output(x, lane);
    if (one_scale_for_all_lanes()) {
      Vector scaled(x.size());
      std::array<float, 16> rest = {};
      for (std::int64_t i = 0; i < inner; ++i) {
        const auto [scale, offset] = scale_and_offset(i, lane);
        scaled[i] = x[i] * scale;
        rest[i % 16] = std::fma(x[i], offset, rest[i % 16]);
      }
      return std::fma(scale_of(scaled), sum_of_products(scaled, 0, lane), tree(rest));
    }
    const std::int64_t group = std::min(codes_.group, inner);
    float y = 0;
    for (std::int64_t k = 0; k < inner; k += group) {
      const Vector part(x.begin() + k, x.begin() + std::min(k + group, inner));
      std::array<float, 16> rest = {};
      for (std::size_t i = 0; i < part.size(); ++i) rest[i % 16] += part[i];
      const auto [scale, offset] = scale_and_offset(k, lane);
      y = std::fma(scale_of(part) * scale, sum_of_products(part, k, lane), y);
      y = std::fma(offset, tree(rest), y);
    }
    return y;
  }

 private:
  float float8_output(const Vector& x, std::int64_t lane) const {
    float y = 0;
    for (std::int64_t i = 0; i < std::ssize(x); ++i) {
      const auto [token, channel] = element(i, lane);
      const int code = code_at(codes_, side_, dim_, tile_, token, channel);
      y = std::fma(x[i], float8_value(code) / 256, y);
    }
    return y * (256 * half_at(0, 0, 0));
  }
  float half_at(std::int64_t offset, std::int64_t token, std::int64_t channel) const {
    std::uint16_t stored;
    std::memcpy(&stored,
                tile_ + codes_.code_bytes(side_, dim_) + offset + 2 * codes_.scale_slot(side_, dim_, token, channel),
                2);
    return from_float16(stored);
  }
  bool one_scale_for_all_lanes() const {
    return (codes_.stored_grouping(dim_) == Grouping::kTokens) == (side_ == TileSide::kKeys);
  }
  std::pair<std::int64_t, std::int64_t> element(std::int64_t i, std::int64_t lane) const {
    return side_ == TileSide::kKeys ? std::pair(lane, i) : std::pair(i, lane);
  }
  /// Of an element, whose code counts from the middle.
  std::pair<float, float> scale_and_offset(std::int64_t i, std::int64_t lane) const {
    const auto [token, channel] = element(i, lane);
    const float scale = half_at(0, token, channel), middle = static_cast<float>(middle_);
    const float offset = codes_.has_offset ? half_at(codes_.scale_bytes(side_, dim_), token, channel) : -128.0f * scale;
    return {scale, std::fma(scale, middle, offset)};
  }

  static float scale_of(const Vector& x) {
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::abs(v));
    return largest / 127.0f;
  }
  float sum_of_products(const Vector& x, std::int64_t first, std::int64_t lane) const {
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::abs(v));
    const float inverse = largest > 0x1p-120f ? 127.0f / largest : 0.0f;
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < std::ssize(x); ++i) {
      const auto [token, channel] = element(first + i, lane);
      sum += std::lrint(x[i] * inverse) * (code_at(codes_, side_, dim_, tile_, token, channel) - middle_);
    }
    return static_cast<float>(sum);
  }
  static float tree(std::array<float, 16> t) {
    for (int half = 8; half; half /= 2) {
      for (int i = 0; i < half; ++i) t[i] += t[i + half];
    }
    return t[0];
  }

  const TileCodes& codes_;
  const TileSide side_;
  const std::int64_t dim_;
  const std::byte* tile_;
  const int middle_;
};

struct Product {
  TileCodes codes;
  TileSide side;
  std::int64_t dim, n_rows = 7;
  unsigned seed = 3;

  std::int64_t inner() const { return TileCodes::inner(side, dim); }
  std::int64_t n_lanes() const { return TileCodes::n_panels(side, dim) * kPanel; }
  AlignedBytes tile() const {
    const BlockLayout raw{.format = DType::kFloat32, .n_heads = 1, .key_dim = dim, .value_dim = dim};
    const BlockCodes block{.keys = codes, .values = codes, .raw = raw};
    const AlignedBytes bytes = random_block(block, false, seed);
    AlignedBytes tile(codes.tile_bytes(side, dim));
    std::memcpy(tile.data(), bytes.data() + (side == TileSide::kKeys ? 0 : block.key_bytes()),
                static_cast<std::size_t>(tile.size()));
    return tile;
  }
};

/// Rows in groups of at_once; their products join c y where there is a c.
Vector run(MultiplyCodes multiply, const Product& p, const AlignedBytes& tile, const Vector& x, std::int64_t at_once,
           const Vector& c = {}, Vector y = {}) {
  const FlushDenormals flush;
  AlignedBytes scratch(4 * 64 * round_up(p.dim, 16) * 4);
  if (y.empty()) y.assign(static_cast<std::size_t>(p.n_rows * p.n_lanes()), testing::kNan);
  for (std::int64_t r = 0; r < p.n_rows; r += at_once) {
    multiply(p.codes, p.side, p.dim, tile.data(), reinterpret_cast<float*>(scratch.data()), x.data() + r * p.inner(),
             std::min(at_once, p.n_rows - r), y.data() + r * p.n_lanes(), c.empty() ? nullptr : c.data() + r);
  }
  return y;
}

std::vector<std::pair<const char*, MultiplyCodes>> instruction_sets() {
  std::vector<std::pair<const char*, MultiplyCodes>> all = {{"scalar", multiply_codes<LanesScalar>},
                                                            {"avx512 in C++", multiply_codes<LanesFakeAvx512>},
                                                            {"avx512vnni in C++", multiply_codes<LanesFakeAvx512Vnni>}};
  if (kMultiplyCodesAvx2 && available().size() > 1) all.emplace_back("avx2", kMultiplyCodesAvx2);
  return all;
}

std::vector<Product> products() {
  std::vector<Product> all;
  for (const TileSide side : {TileSide::kKeys, TileSide::kValues}) {
    for (const std::int64_t dim : {16, 32, 64, 80, 96, 256}) {
      const auto add = [&](TileCodes codes) {
        if (codes.is_multiplied(side, dim)) all.push_back({.codes = codes, .side = side, .dim = dim});
      };
      add({.bits = 8, .grouping = Grouping::kChannels, .group = dim});
      add({.kind = CodeKind::kFloat8, .grouping = Grouping::kTile});
      for (const int bits : {1, 2, 3, 4, 8}) {
        for (const std::int64_t group : {64, 32, 16}) {
          add({.bits = bits, .has_offset = true, .grouping = Grouping::kTokens, .group = group});
          add({.bits = bits, .has_offset = true, .grouping = Grouping::kChannels, .group = group});
          add({.bits = bits, .has_offset = true, .grouping = Grouping::kRowMajor, .group = group});
        }
      }
    }
  }
  return all;
}

std::string text_of(const Product& p) {
  std::ostringstream out;
  out << (p.side == TileSide::kKeys ? "keys " : "values ") << p.dim << ' ' << p.codes;
  return out.str();
}

TEST(CodeProduct, IsWhatItIsDefinedAs) {
  ASSERT_GT(products().size(), 100u);
  for (const Product& p : products()) {
    const FlushDenormals flush;
    const AlignedBytes tile = p.tile();
    const Vector x = random_floats(p.n_rows * p.inner(), 5);
    const Definition definition(p.codes, p.side, p.dim, tile.data());
    Vector expected;
    for (std::int64_t r = 0; r < p.n_rows; ++r) {
      const Vector row(x.begin() + r * p.inner(), x.begin() + (r + 1) * p.inner());
      for (std::int64_t lane = 0; lane < p.n_lanes(); ++lane) expected.push_back(definition.output(row, lane));
    }
    for (const auto& [name, multiply] : instruction_sets()) {
      ASSERT_EQ(bits(run(multiply, p, tile, x, p.n_rows)), bits(expected)) << text_of(p) << ' ' << name;
      ASSERT_EQ(bits(run(multiply, p, tile, x, 1)), bits(expected)) << text_of(p) << ' ' << name;
    }
  }
}

/// A row is off by at most half a step of 1/127 of its largest element, or of a group of them, times each code.
TEST(CodeProduct, IsNearTheProductOfWhatTheCodesMean) {
  for (const Product& p : products()) {
    const AlignedBytes tile = p.tile();
    const Vector x = random_floats(p.n_rows * p.inner(), 5);
    const Vector y = run(multiply_codes<LanesScalar>, p, tile, x, p.n_rows);
    for (std::int64_t r = 0; r < p.n_rows; ++r) {
      for (std::int64_t lane = 0; lane < p.n_lanes(); ++lane) {
        double sum = 0, largest = 0, codes = 0, size = 0;
        for (std::int64_t i = 0; i < p.inner(); ++i) {
          const auto [token, channel] = p.side == TileSide::kKeys ? std::pair(lane, i) : std::pair(i, lane);
          const double element = value_at(p.codes, p.side, p.dim, tile.data(), token, channel);
          sum += x[r * p.inner() + i] * element;
          size += std::abs(x[r * p.inner() + i] * element);
          largest = std::max(largest, std::abs(double{x[r * p.inner() + i]}));
          codes += std::abs(code_at(p.codes, p.side, p.dim, tile.data(), token, channel) - (1 << (p.codes.bits - 1)));
        }
        if (p.codes.kind == CodeKind::kFloat8) {  // rounds sums only
          ASSERT_NEAR(y[r * p.n_lanes() + lane], sum, size * 1e-5) << text_of(p);
          continue;
        }
        const double most_scale = p.codes.bits == 8 && !p.codes.has_offset ? 2.0 / 256 : 2.0 / (1 << p.codes.bits);
        ASSERT_NEAR(y[r * p.n_lanes() + lane], sum, largest * most_scale / 254 * codes * 1.01 + 1e-4) << text_of(p);
      }
    }
  }
}

TEST(CodeProduct, JoinsWhatIsThere) {
  for (const Product& p : products()) {
    const AlignedBytes tile = p.tile();
    const Vector x = testing::random_floats(p.n_rows * p.inner(), 5), c = testing::random_floats(p.n_rows, 6),
                 before = testing::random_floats(p.n_rows * p.n_lanes(), 7);
    for (const auto& [name, multiply] : instruction_sets()) {
      Vector expected = run(multiply, p, tile, x, p.n_rows);
      for (std::int64_t i = 0; i < std::ssize(expected); ++i) {
        expected[i] = std::fma(before[i], c[i / p.n_lanes()], expected[i]);
      }
      for (const std::int64_t at_once : {p.n_rows, std::int64_t{3}}) {
        ASSERT_EQ(testing::bits(run(multiply, p, tile, x, at_once, c, before)), testing::bits(expected))
            << text_of(p) << ' ' << name << ' ' << at_once;
      }
    }
  }
}

/// Codes of a group that is all alike have the scale 0, and infinity times 0 is no largest number.
TEST(CodeProduct, InfinityBesideAScaleOfZeroShows) {
  const Product p{.codes = {.bits = 4, .has_offset = true, .grouping = Grouping::kTokens, .group = 32},
                  .side = TileSide::kKeys,
                  .dim = 64};
  AlignedBytes tile = p.tile();
  std::memset(tile.data() + p.codes.code_bytes(p.side, p.dim), 0,
              static_cast<std::size_t>(p.codes.scale_bytes(p.side, p.dim)));
  Vector x = random_floats(p.n_rows * p.inner(), 5);
  x[3] = std::numeric_limits<float>::infinity();
  for (const auto& [name, multiply] : instruction_sets()) {
    const Vector y = run(multiply, p, tile, x, p.n_rows);
    for (std::int64_t i = 0; i < p.n_rows * p.n_lanes(); ++i)
      ASSERT_EQ(std::isnan(y[i]), i < p.n_lanes()) << name << ' ' << i;
  }
}

TEST(CodeProduct, WhatIsNotFiniteShows) {
  for (const Product& p : products()) {
    const AlignedBytes tile = p.tile();
    for (const float odd : {testing::kNan, std::numeric_limits<float>::infinity()}) {
      Vector x = random_floats(p.n_rows * p.inner(), 5);
      x[static_cast<std::size_t>(p.inner() + p.inner() / 2)] = odd;
      for (const auto& [name, multiply] : instruction_sets()) {
        const Vector y = run(multiply, p, tile, x, p.n_rows);
        for (std::int64_t i = 0; i < p.n_rows * p.n_lanes(); ++i)
          ASSERT_EQ(std::isfinite(y[i]), i / p.n_lanes() != 1) << text_of(p) << ' ' << name;
      }
    }
  }
}

}  // namespace
}  // namespace mneme::kernels
