#include "mneme/generate/sampler.h"

#include <cmath>

#include "mneme/generate/logits.h"

namespace mneme {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t step) {
  return static_cast<double>(mix(mix(mix(seed) ^ stream) ^ step) >> 11) * 0x1p-53;
}

std::int64_t draw(std::span<const float> scores, double u) {
  const std::int64_t best = argmax(scores);
  if (scores.empty()) return 0;
  const double top = scores[static_cast<std::size_t>(best)];
  const auto weight = [&](float score) {
    const double w = std::exp(static_cast<double>(score) - top);
    return w > 0 ? w : 0.0;  // NaN too
  };
  double total = 0;
  for (const float score : scores) total += weight(score);
  const double target = u * total;
  double reached = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    reached += weight(scores[i]);
    if (reached > target) return static_cast<std::int64_t>(i);
  }
  return best;  // rounding left a sliver at the end
}

}  // namespace mneme
