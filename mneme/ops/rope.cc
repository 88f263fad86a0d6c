#include "mneme/ops/rope.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
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

// YaRN: pairs that turn more often than beta_fast in the original length are kept, those that turn less often than
// beta_slow are stretched.
std::vector<float> yarn_frequencies(std::int64_t dim, const RopeOptions& o) {
  const auto pair_of_turns = [&](double turns) {
    const double waves = static_cast<double>(o.original_max_position_embeddings) / (turns * 2 * std::numbers::pi);
    return static_cast<double>(dim) * std::log(waves) / (2 * std::log(o.theta));
  };
  double low = pair_of_turns(o.beta_fast), high = pair_of_turns(o.beta_slow);
  if (o.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f, 1.0f);
    const float kept = base_frequency(i, dim, o.theta), stretched = kept / static_cast<float>(o.factor);
    frequencies.push_back(stretched * ramp + kept * (1.0f - ramp));
  }
  return frequencies;
}

float yarn_attention_factor(const RopeOptions& o) {
  const auto magnitude = [&](double scale) { return o.factor <= 1 ? 1.0 : 0.1 * scale * std::log(o.factor) + 1.0; };
  const double factor =
      o.mscale && o.mscale_all_dim ? magnitude(*o.mscale) / magnitude(*o.mscale_all_dim) : magnitude(1);
  return static_cast<float>(o.attention_factor.value_or(factor));
}

float longrope_attention_factor(const RopeOptions& o) {
  const double original = static_cast<double>(o.original_max_position_embeddings);
  const double factor = o.factor <= 1 ? 1.0 : std::sqrt(1 + std::log(o.factor) / std::log(original));
  return static_cast<float>(o.attention_factor.value_or(factor));
}

std::vector<float> divided(std::int64_t dim, double theta, const std::vector<double>& factors, const char* name) {
  check(std::ssize(factors) == dim / 2, ErrorKind::kInvalidArgument, "rope: {} has {} numbers, {} pairs are rotated",
        name, factors.size(), dim / 2);
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < dim / 2; ++i) {
    const float wave = 1.0f / base_frequency(i, dim, theta);
    frequencies.push_back(1.0f / (static_cast<float>(factors[static_cast<std::size_t>(i)]) * wave));
  }
  return frequencies;
}

bool is_one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::ranges::find(types, type) != types.end();
}

}  // namespace

Rope::Rope(std::int64_t dim, const RopeOptions& options) : dim_(dim), options_(options) {
  const RopeOptions& o = options_;
  check(dim > 0 && dim % 2 == 0, ErrorKind::kInvalidArgument, "RoPE rotates pairs: a head size of {} is not even", dim);
  check(o.theta > 0 && std::isfinite(o.theta), ErrorKind::kInvalidArgument, "rope_theta must be positive, it is {}",
        o.theta);
  check(
      is_one_of(o.type, {"default", "linear", "llama3", "yarn", "longrope", "dynamic", "proportional"}),
      ErrorKind::kUnsupported,
      "rope_type \"{}\" is not supported; there are default, linear, llama3, yarn, longrope, dynamic and proportional",
      o.type);
  check(o.factor > 0 && std::isfinite(o.factor), ErrorKind::kInvalidArgument, "rope factor must be positive, it is {}",
        o.factor);
  check(!is_one_of(o.type, {"llama3", "yarn", "longrope"}) || o.original_max_position_embeddings > 0,
        ErrorKind::kInvalidArgument, "rope_type {} needs original_max_position_embeddings ({}) above 0", o.type,
        o.original_max_position_embeddings);
  if (o.type == "llama3") {
    check(o.low_freq_factor > 0 && o.high_freq_factor > o.low_freq_factor, ErrorKind::kInvalidArgument,
          "rope_type llama3 needs high_freq_factor ({}) above low_freq_factor ({}) above 0", o.high_freq_factor,
          o.low_freq_factor);
  }
  if (o.type == "dynamic") {
    check(o.max_position_embeddings > 0 && dim > 2, ErrorKind::kInvalidArgument,
          "rope_type dynamic needs max_position_embeddings ({}) above 0 and more than 2 rotated elements ({})",
          o.max_position_embeddings, dim);
  }
  if (o.type == "yarn") {
    frequencies_ = yarn_frequencies(dim, o);
    attention_factor_ = yarn_attention_factor(o);
  } else if (o.type == "longrope") {
    frequencies_ = divided(dim, o.theta, o.short_factor, "short_factor");
    long_frequencies_ = divided(dim, o.theta, o.long_factor, "long_factor");
    attention_factor_ = longrope_attention_factor(o);
  } else {
    const bool divides = is_one_of(o.type, {"linear", "proportional"});
    const auto n_turning = static_cast<std::int64_t>(o.type == "proportional" ? o.part * static_cast<double>(dim / 2)
                                                                              : static_cast<double>(dim / 2));
    for (std::int64_t i = 0; i < dim / 2; ++i) {
      const float frequency = i < n_turning ? base_frequency(i, dim, o.theta) : 0.0f;
      frequencies_.push_back(o.type == "llama3" ? llama3_frequency(frequency, o)
                             : divides          ? frequency / static_cast<float>(o.factor)
                                                : frequency);
    }
  }
}

const float* Rope::frequencies(std::int64_t length, std::vector<float>& computed) const {
  if (!long_frequencies_.empty()) {
    return (length > options_.original_max_position_embeddings ? long_frequencies_ : frequencies_).data();
  }
  if (options_.type != "dynamic" || length <= options_.max_position_embeddings) return frequencies_.data();
  const double stretch =
      options_.factor * static_cast<double>(length) / static_cast<double>(options_.max_position_embeddings) -
      (options_.factor - 1);
  const double d = static_cast<double>(dim_), theta = options_.theta * std::pow(stretch, d / (d - 2));
  computed.clear();
  for (std::int64_t i = 0; i < dim_ / 2; ++i) computed.push_back(base_frequency(i, dim_, theta));
  return computed.data();
}

std::vector<float> Rope::frequencies(std::int64_t length) const {
  std::vector<float> computed;
  const float* first = frequencies(length, computed);
  return {first, first + dim_ / 2};
}

Rope::Table Rope::table(Workspace& workspace, std::span<const std::int64_t> positions,
                        std::span<const std::int64_t> lengths) const {
  const std::int64_t n = static_cast<std::int64_t>(positions.size()), half = dim_ / 2;
  Table result{scratch_rows(workspace, n, half), scratch_rows(workspace, n, half)};
  const bool direct = workspace.device().is_cpu();
  std::vector<float> staged(direct ? 0 : static_cast<std::size_t>(2 * n * half));
  float* cosines = direct ? result.cosines.data : staged.data();
  float* sines = direct ? result.sines.data : staged.data() + n * half;
  const bool varies = by_length();
  parallel_rows(n, half * 16, [&](std::int64_t i) noexcept {
    const std::int64_t position = positions[static_cast<std::size_t>(i)];
    const float* turns = frequencies_.data();
    if (varies) {
      thread_local std::vector<float> computed;
      turns = frequencies(lengths.empty() ? position + 1 : lengths[static_cast<std::size_t>(i)], computed);
    }
    for (std::int64_t j = 0; j < half; ++j) {
      // Parity: the angle is rounded to float32 before its sine is taken.
      const float angle = static_cast<float>(position) * turns[j];
      cosines[i * half + j] = static_cast<float>(std::cos(static_cast<double>(angle))) * attention_factor_;
      sines[i * half + j] = static_cast<float>(std::sin(static_cast<double>(angle))) * attention_factor_;
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
