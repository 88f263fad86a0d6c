#include "mneme/models/relative_bias.h"

#include <cmath>

#include "mneme/base/error.h"
#include "mneme/kernels/visibility.h"

namespace mneme {
namespace {

/// Parity: in float32 and by ATen's logarithm, as transformers does it, since the border of a bucket is a rounding
/// away.
///
///   n < exact      n
///   else           min(exact + log(n / exact) / log(max_distance / exact) (buckets - exact), buckets - 1)
at::Tensor bucket_of(const at::Tensor& n, std::int64_t buckets, std::int64_t max_distance) {
  const std::int64_t exact = buckets / 2;
  const double scale = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const at::Tensor large = ((n.to(at::kFloat) / exact).log() / scale * (buckets - exact)).to(at::kLong) + exact;
  return at::where(n < exact, n, large.clamp_max(buckets - 1));
}

}  // namespace

at::Tensor relative_bias_table(const at::Tensor& values, const RelativeBiasOptions& options) {
  constexpr std::int64_t kFarthest = 65536;
  const std::int64_t one_sided = options.bidirectional ? values.size(0) / 2 : values.size(0), exact = one_sided / 2;
  check(exact >= 1, ErrorKind::kCorruptData, "relative_attention_num_buckets is {}, it must be {} at least",
        values.size(0), options.bidirectional ? 4 : 2);
  check(options.max_distance > exact && options.max_distance <= kFarthest, ErrorKind::kCorruptData,
        "relative_attention_max_distance is {}, with {} buckets it must be {} to {}", options.max_distance,
        values.size(0), exact + 1, kFarthest);
  const std::int64_t reach = options.max_distance, rest = kernels::kBlockTokens - 1;
  const at::Tensor later = at::arange(-(reach + rest), reach + rest + 1, at::kLong).clamp(-reach, reach);
  at::Tensor buckets = bucket_of(options.bidirectional ? later.abs() : (-later).clamp_min(0), one_sided, reach);
  if (options.bidirectional) buckets = buckets + (later > 0).to(at::kLong) * one_sided;
  return values.index_select(0, buckets.to(values.device())).t().contiguous();
}

}  // namespace mneme
