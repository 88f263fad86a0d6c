#include "mneme/kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;

std::int64_t size(const Vector& x) { return static_cast<std::int64_t>(x.size()); }

/// One kernel as y = f(x, z), and its formula in double precision.
struct Kernel {
  const char* name;
  std::function<void(const Table&, const float* x, const float* z, std::int64_t n, float* y)> run;
  std::function<double(double x, double z)> exact;
};

const Kernel kKernels[] = {
    {"add",
     [](const Table& t, const float* x, const float* z, std::int64_t n, float* y) {
       std::copy(x, x + n, y);
       t.add(z, n, y);
     },
     [](double x, double z) { return x + z; }},
    {"relu",
     [](const Table& t, const float* x, const float* z, std::int64_t n, float* y) { t.relu_multiply(x, z, n, y); },
     [](double x, double z) { return x > 0 ? x * z : 0.0; }},
    {"relu alone",
     [](const Table& t, const float* x, const float*, std::int64_t n, float* y) { t.relu_multiply(x, nullptr, n, y); },
     [](double x, double) { return x > 0 ? x : 0.0; }},
    {"gelu_tanh alone",
     [](const Table& t, const float* x, const float*, std::int64_t n, float* y) {
       t.gelu_tanh_multiply(x, nullptr, n, y);
     },
     [](double x, double) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    {"silu",
     [](const Table& t, const float* x, const float* z, std::int64_t n, float* y) { t.silu_multiply(x, z, n, y); },
     [](double x, double z) { return x / (1 + std::exp(-x)) * z; }},
    {"gelu_tanh",
     [](const Table& t, const float* x, const float* z, std::int64_t n, float* y) { t.gelu_tanh_multiply(x, z, n, y); },
     [](double x, double z) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) * z; }},
    {"gelu_erf",
     [](const Table& t, const float* x, const float* z, std::int64_t n, float* y) { t.gelu_erf_multiply(x, z, n, y); },
     [](double x, double z) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))) * z; }},
    {"exp", [](const Table& t, const float* x, const float*, std::int64_t n, float* y) { t.exp(x, n, y); },
     [](double x, double) { return std::exp(x); }},
};

/// Every length up to three steps and one, misaligned, on every instruction set: right, the same bits as one element
/// alone, and nothing written past the end.
TEST(Elementwise, AllLengthsAllPlaces) {
  const Vector x = random_floats(52, 1, 3.0f), z = random_floats(52, 2);
  for (const Kernel& kernel : kKernels) {
    for (const Table* table : tables_under_test()) {
      for (std::int64_t n = 0; n <= 49; ++n) {
        const std::int64_t start = n % 3;
        Vector y(52, 7.0f);
        kernel.run(*table, x.data() + start, z.data() + start, n, y.data());
        for (std::int64_t i = 0; i < n; ++i) {
          const float a = x[start + i], b = z[start + i];
          float alone;
          kernel.run(*tables_under_test().front(), &a, &b, 1, &alone);
          ASSERT_EQ(bits({y[i]}), bits({alone})) << kernel.name << ' ' << table->name << " n " << n << " i " << i;
          const double exact = kernel.exact(a, b);
          ASSERT_NEAR(y[i], exact, 4e-7 * std::max(1.0, std::abs(exact))) << kernel.name << " of " << a << ", " << b;
        }
        for (std::int64_t i = n; i < 52; ++i) ASSERT_EQ(y[i], 7.0f) << kernel.name << ' ' << table->name << " n " << n;
      }
    }
  }
}

TEST(Elementwise, ActivationsOfLargeArguments) {
  const Vector gate = {-1e30f, -200.0f, -90.0f, 90.0f, 200.0f, 1e10f}, up(6, 1.0f);
  for (const Table* table : tables_under_test()) {
    for (const auto kernel :
         {table->relu_multiply, table->silu_multiply, table->gelu_tanh_multiply, table->gelu_erf_multiply}) {
      Vector y(6);
      kernel(gate.data(), up.data(), 6, y.data());
      for (int i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0.0f, 1e-30f) << gate[i];
      for (int i = 3; i < 6; ++i) EXPECT_EQ(y[i], gate[i]);
    }
  }
}

TEST(Largest, WhereverItIs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Table* table : tables_under_test()) {
    EXPECT_EQ(table->largest(nullptr, 0), -kInfinity);
    for (std::int64_t n : {1, 2, 15, 16, 17, 63, 64, 65, 83, 130, 200}) {
      Vector x(static_cast<std::size_t>(n), -kInfinity);
      EXPECT_EQ(table->largest(x.data(), n), -kInfinity) << table->name << ' ' << n;
      for (float& of : x) of = -7.5f;
      for (float& of : x) {
        of = -3.25f;
        ASSERT_EQ(table->largest(x.data(), n), -3.25f) << table->name << ' ' << n << ' ' << &of - x.data();
        of = kNan;
        ASSERT_EQ(table->largest(x.data(), n), kInfinity) << table->name << ' ' << n << ' ' << &of - x.data();
        of = -8.0f;
        ASSERT_EQ(table->largest(x.data(), n), *std::ranges::max_element(x)) << table->name << ' ' << n;
      }
    }
  }
}

Vector rms_norm_exact(const Vector& x, const Vector& weight, double eps) {
  double squares = 0;
  for (float value : x) squares += static_cast<double>(value) * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Vector y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(static_cast<float>(x[i] * scale * weight[i]));
  return y;
}

TEST(RmsNorm, EveryLengthOnEveryInstructionSet) {
  for (std::int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 48, 49, 64, 576, 577, 4096}) {
    const Vector x = random_floats(n, 3, 2.0f), weight = random_floats(n, 4);
    const Vector exact = rms_norm_exact(x, weight, 1e-5);
    Vector expected(n);
    tables_under_test().front()->rms_norm(x.data(), weight.data(), 1e-5f, n, expected.data());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_NEAR(expected[i], exact[i], 1e-6 * std::abs(exact[i])) << n << ' ' << i;
    for (const Table* table : tables_under_test()) {
      Vector y = x;
      y.push_back(7.0f);
      table->rms_norm(y.data(), weight.data(), 1e-5f, n, y.data());  // in place
      EXPECT_EQ(y.back(), 7.0f);
      y.pop_back();
      EXPECT_EQ(bits(y), bits(expected)) << table->name << ' ' << n;
    }
  }
}

TEST(LayerNorm, EveryLengthOnEveryInstructionSet) {
  for (std::int64_t n : {1, 2, 15, 16, 17, 31, 33, 64, 577}) {
    const Vector x = random_floats(n, 3, 2.0f), weight = random_floats(n, 4), bias = random_floats(n, 5);
    double mean = 0, squares = 0;
    for (float value : x) mean += value / static_cast<double>(n);
    for (float value : x) squares += (value - mean) * (value - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    Vector expected(n);
    tables_under_test().front()->layer_norm(x.data(), weight.data(), bias.data(), 1e-5f, n, expected.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const double exact = (x[i] - mean) * scale * weight[i] + bias[i];
      ASSERT_NEAR(expected[i], exact, 2e-5 * (1 + std::abs(exact))) << n << ' ' << i;
    }
    for (const Table* table : tables_under_test()) {
      Vector y = x;
      y.push_back(7.0f);
      table->layer_norm(y.data(), weight.data(), bias.data(), 1e-5f, n, y.data());  // in place
      EXPECT_EQ(y.back(), 7.0f);
      y.pop_back();
      EXPECT_EQ(bits(y), bits(expected)) << table->name << ' ' << n;
    }
  }
}

TEST(RmsNorm, OfZerosIsZero) {
  Vector x(40, 0.0f), y(40, 7.0f);
  active().rms_norm(x.data(), x.data(), 1e-6f, 40, y.data());
  EXPECT_EQ(y, x);
}

TEST(Rotate, PairsHalvesOnEveryInstructionSet) {
  for (std::int64_t n : {2, 16, 20, 32, 34, 64, 80, 96, 128, 256}) {
    const Vector x = random_floats(n, 5), angles = random_floats(n / 2, 6, 2.0f);
    Vector cosines, sines;
    for (float angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
    Vector expected = x;
    tables_under_test().front()->rotate(expected.data(), cosines.data(), sines.data(), n);
    for (std::int64_t i = 0; i < n / 2; ++i) {
      const double c = cosines[i], s = sines[i], x1 = x[i], x2 = x[n / 2 + i];
      ASSERT_NEAR(expected[i], x1 * c - x2 * s, 5e-7);
      ASSERT_NEAR(expected[n / 2 + i], x2 * c + x1 * s, 5e-7);
      // Each pair for itself: its place does not matter.
      Vector pair = {x[i], x[n / 2 + i]};
      tables_under_test().front()->rotate(pair.data(), &cosines[i], &sines[i], 2);
      ASSERT_EQ(bits(pair), bits({expected[i], expected[n / 2 + i]}));
    }
    for (const Table* table : tables_under_test()) {
      Vector y = x;
      y.push_back(7.0f);
      table->rotate(y.data(), cosines.data(), sines.data(), n);
      EXPECT_EQ(y.back(), 7.0f);
      y.pop_back();
      EXPECT_EQ(bits(y), bits(expected)) << table->name << ' ' << n;
    }
  }
}

TEST(Rotate, ByNothingChangesNothing) {
  Vector x = random_floats(96, 7), cosines(48, 1.0f), sines(48, 0.0f);
  Vector y = x;
  active().rotate(y.data(), cosines.data(), sines.data(), size(y));
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace mneme::kernels
