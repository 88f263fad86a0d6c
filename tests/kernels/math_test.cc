#include "mneme/kernels/math.h"

#include <gtest/gtest.h>

#include "mneme/kernels/lanes_scalar.h"
#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::kInfinity;
using testing::kNan;
using Kernel = void (*)(const float*, std::int64_t, float*) noexcept;

struct Function {
  const char* name;
  Kernel Table::*kernel;
  double (*exact)(double);
  double max_ulps;  // as the header states
};

const Function kFunctions[] = {
    {"exp", &Table::exp, [](double x) { return std::exp(x); }, 0.94},
    {"tanh", &Table::tanh, [](double x) { return std::tanh(x); }, 1.37},
    {"erf", &Table::erf, [](double x) { return std::erf(x); }, 1.09},
    {"sigmoid", &Table::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 2.48},
    {"softplus", &Table::softplus, [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }, 2.7},
};

std::vector<float> apply(const Table& table, const Function& function, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  (table.*function.kernel)(x.data(), static_cast<std::int64_t>(x.size()), y.data());
  return y;
}

/// Every 4,099th float of all that are normal or zero, both signs.
std::vector<float> samples() {
  std::vector<float> x = {0.0f, -0.0f};
  for (std::uint32_t magnitude = 0x00800000u; magnitude < 0x7f800000u; magnitude += 4099) {
    x.push_back(std::bit_cast<float>(magnitude));
    x.push_back(-x.back());
  }
  return x;
}

TEST(Math, ErrorsAreAsStated) {
  const std::vector<float> x = samples();
  for (const Function& function : kFunctions) {
    const std::vector<float> y = apply(*tables_under_test().front(), function, x);
    double worst = 0;
    float at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = function.exact(x[i]);
      if (exact > 0x1.fffffefp127 || std::abs(exact) < 0x1p-126) continue;
      if (const double error = testing::ulps(y[i], exact); !(error <= worst)) worst = error, at = x[i];
    }
    EXPECT_LE(worst, function.max_ulps) << function.name << " at " << at;
    RecordProperty(function.name, std::to_string(worst));
  }
}

/// exp2, which attention uses, is of no table. Its steps are the same on all instruction sets (lanes_operations.h).
TEST(Math, PowersOfTwo) {
  const auto power = [](float x) { return exp2<LanesScalar>(LanesScalar::set1(x)).first(); };
  double worst = 0;
  for (float x = 0x1p-30f; x < 126; x *= 1.0001f) worst = std::max(worst, testing::ulps(power(-x), std::exp2(-x)));
  EXPECT_LE(worst, 2.0);
  for (int n = 0; n <= 126; ++n) EXPECT_EQ(power(static_cast<float>(-n)), std::exp2(-static_cast<float>(n)));
  EXPECT_EQ(power(-0.0f), 1.0f);
  EXPECT_EQ(power(-126.5f), 0.0f);
  EXPECT_EQ(power(-1e30f), 0.0f);
  EXPECT_EQ(power(-kInfinity), 0.0f);
  EXPECT_TRUE(std::isnan(power(kNan)));
}

TEST(Math, EveryInstructionSetGivesTheSameBits) {
  std::vector<float> x = samples();
  x.insert(x.end(), {kInfinity, -kInfinity, 88.72283f, 88.72284f, -87.33654f, -87.33655f, -104.0f, 0.625f, 0.9f});
  for (const Function& function : kFunctions) {
    const std::vector<std::uint32_t> expected = bits(apply(*tables_under_test().front(), function, x));
    for (const Table* table : tables_under_test()) EXPECT_EQ(bits(apply(*table, function, x)), expected) << table->name;
  }
}

TEST(Math, SpecialValues) {
  for (const Table* table : tables_under_test()) {
    const auto at = [&](int function, float x) { return apply(*table, kFunctions[function], {x}).front(); };
    EXPECT_EQ(at(0, 0.0f), 1.0f);
    EXPECT_EQ(at(0, -0.0f), 1.0f);
    EXPECT_EQ(at(0, -kInfinity), 0.0f);
    EXPECT_EQ(at(0, kInfinity), kInfinity);
    EXPECT_EQ(at(0, 88.73f), kInfinity);
    EXPECT_LT(at(0, 88.7228f), kInfinity);
    EXPECT_EQ(at(0, -87.3366f), 0.0f) << "flushed, whatever the mode of the processor";
    EXPECT_GE(at(0, -87.33654f), 0x1p-126f);
    EXPECT_EQ(at(1, kInfinity), 1.0f);
    EXPECT_EQ(at(1, -kInfinity), -1.0f);
    EXPECT_EQ(at(2, kInfinity), 1.0f);
    EXPECT_EQ(at(2, -kInfinity), -1.0f);
    EXPECT_EQ(at(3, kInfinity), 1.0f);
    EXPECT_EQ(at(3, -kInfinity), 0.0f);
    EXPECT_EQ(at(3, 0.0f), 0.5f);
    EXPECT_EQ(at(4, kInfinity), kInfinity);
    EXPECT_EQ(at(4, -kInfinity), 0.0f);
    EXPECT_EQ(at(4, 100.0f), 100.0f);
    for (int f = 0; f < 5; ++f) EXPECT_TRUE(std::isnan(at(f, kNan))) << kFunctions[f].name;
  }
}

TEST(Math, OddFunctionsAreOdd) {
  std::vector<float> x = testing::random_floats(1000, 1), minus = x;
  for (float& value : minus) value = -value;
  for (const Function* function : {&kFunctions[1], &kFunctions[2]}) {
    std::vector<float> y = apply(active(), *function, minus);
    for (float& value : y) value = -value;
    EXPECT_EQ(bits(apply(active(), *function, x)), bits(y)) << function->name;
  }
}

}  // namespace
}  // namespace mneme::kernels
