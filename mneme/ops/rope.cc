#include "mneme/ops/rope.h"

#include <cmath>
#include <numbers>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"
#include "mneme/ops/parallel.h"

namespace mneme::ops {
namespace {

// Parity: the reference keeps frequencies in float32, so each step rounds there, powers included.
float base_frequency(std::int64_t pair, std::int64_t dim, double theta) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(dim);
  return 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
}

// Llama 3.1: a wave longer than original/low_freq_factor is stretched by `factor`, one shorter than
// original/high_freq_factor is kept, and between them the two are mixed linearly in original/wavelength.
float llama3_frequency(float frequency, const RopeOptions& o) {
  const double original = static_cast<double>(o.original_max_position_embeddings);
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength > original / o.low_freq_factor) return static_cast<float>(frequency / o.factor);
  if (wavelength < original / o.high_freq_factor) return frequency;
  const double smooth = (original / wavelength - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
  return static_cast<float>((1.0 - smooth) * frequency / o.factor + smooth * frequency);
}

}  // namespace

Rope::Rope(std::int64_t dim, const RopeOptions& options) : dim_(dim) {
  check(dim > 0 && dim % 2 == 0, ErrorKind::kInvalidArgument, "RoPE rotates pairs: a head size of {} is not even", dim);
  check(options.theta > 0 && std::isfinite(options.theta), ErrorKind::kInvalidArgument,
        "rope_theta must be positive, it is {}", options.theta);
  const bool llama3 = options.type == "llama3", linear = options.type == "linear";
  check(llama3 || linear || options.type == "default", ErrorKind::kUnsupported,
        "rope_type \"{}\" is not supported; there are default, linear and llama3", options.type);
  check(options.factor > 0 && std::isfinite(options.factor), ErrorKind::kInvalidArgument,
        "rope factor must be positive, it is {}", options.factor);
  if (llama3) {
    check(options.original_max_position_embeddings > 0 && options.low_freq_factor > 0 &&
              options.high_freq_factor > options.low_freq_factor,
          ErrorKind::kInvalidArgument,
          "rope_type llama3 needs original_max_position_embeddings ({}) above 0 and high_freq_factor ({}) above "
          "low_freq_factor ({})",
          options.original_max_position_embeddings, options.high_freq_factor, options.low_freq_factor);
  }
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const float frequency = base_frequency(i, dim, options.theta);
    frequencies_.push_back(llama3   ? llama3_frequency(frequency, options)
                           : linear ? frequency / static_cast<float>(options.factor)
                                    : frequency);
  }
}

Rope::Table Rope::table(Workspace& workspace, std::span<const std::int64_t> positions) const {
  const std::int64_t n = static_cast<std::int64_t>(positions.size()), half = dim_ / 2;
  Table result{scratch_rows(workspace, n, half), scratch_rows(workspace, n, half)};
  const bool direct = workspace.device().is_cpu();
  std::vector<float> staged(direct ? 0 : static_cast<std::size_t>(2 * n * half));
  float* cosines = direct ? result.cosines.data : staged.data();
  float* sines = direct ? result.sines.data : staged.data() + n * half;
  parallel_rows(n, half * 16, [&](std::int64_t i) noexcept {
    for (std::int64_t j = 0; j < half; ++j) {
      // Parity: the angle is rounded to float32 before its sine is taken.
      const float angle =
          static_cast<float>(positions[static_cast<std::size_t>(i)]) * frequencies_[static_cast<std::size_t>(j)];
      cosines[i * half + j] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sines[i * half + j] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  });
  if (!direct) {
    as_tensor(workspace, result.cosines).copy_(at::from_blob(cosines, {n, half}, at::kFloat));
    as_tensor(workspace, result.sines).copy_(at::from_blob(sines, {n, half}, at::kFloat));
  }
  return result;
}

void Rope::apply(Workspace& workspace, const Table& table, const Rows& x, std::int64_t offset, std::int64_t n_heads,
                 std::int64_t head_dim) const {
  check(offset >= 0 && offset + n_heads * head_dim <= x.width && dim_ <= head_dim && table.cosines.n == x.n,
        ErrorKind::kInvalidArgument, "RoPE: {} heads of {} at {} with {} rotated do not fit rows [{}, {}]", n_heads,
        head_dim, offset, dim_, x.n, x.width);
  if (!workspace.uses_kernels()) {
    const at::Tensor heads =
        as_tensor(workspace, x).narrow(1, offset, n_heads * head_dim).view({x.n, n_heads, head_dim});
    const at::Tensor low = heads.narrow(2, 0, dim_ / 2), high = heads.narrow(2, dim_ / 2, dim_ / 2);
    const at::Tensor cosines = as_tensor(workspace, table.cosines).unsqueeze(1),
                     sines = as_tensor(workspace, table.sines).unsqueeze(1);
    const at::Tensor turned_low = low * cosines - high * sines, turned_high = high * cosines + low * sines;
    low.copy_(turned_low);
    high.copy_(turned_high);
    return;
  }
  const auto kernel = kernels::active().rotate;
  parallel_rows(x.n, n_heads * head_dim, [&](std::int64_t i) noexcept {
    for (std::int64_t h = 0; h < n_heads; ++h) {
      kernel(x.row(i) + offset + h * head_dim, table.cosines.row(i), table.sines.row(i), dim_);
    }
  });
}

}  // namespace mneme::ops
