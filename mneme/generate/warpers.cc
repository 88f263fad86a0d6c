#include "mneme/generate/warpers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "mneme/generate/logits.h"

namespace mneme {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr std::size_t kTopHCandidates = 100;  // Parity: transformers' number, as in the paper

/// The k-th largest score; the smallest if there are fewer.
float kth_largest(std::span<const float> scores, std::int64_t k) {
  thread_local std::vector<float> sorted;  // kept, as all that is thread_local here: a token is drawn without the heap
  sorted.assign(scores.begin(), scores.end());
  const std::int64_t place = std::min(k, std::ssize(sorted)) - 1;
  std::nth_element(sorted.begin(), sorted.begin() + place, sorted.end(), std::greater<>());
  return sorted[static_cast<std::size_t>(place)];
}

/// Ids by falling score, equals by rising id (transformers leaves their order open). Good until the next call.
std::span<const std::int32_t> by_score(std::span<const float> scores) {
  thread_local std::vector<std::int32_t> order;
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  return order;
}

/// -sum p log p of softmax(scores).
double entropy(std::span<const float> scores) {
  const double norm = log_sum_exp(scores);
  double sum = 0;
  for (const float score : scores) {
    if (score > kBanned) sum -= std::exp(score - norm) * (score - norm);
  }
  return sum;
}

/// Bans ids below a log-probability, unless they are among the `keep` largest.
void cut_below(std::span<float> scores, double log_limit, std::int64_t keep) {
  const double norm = log_sum_exp(scores);
  const float kept = kth_largest(scores, keep);
  for (float& score : scores) {
    if (score - norm < log_limit && score < kept) score = kBanned;
  }
}

bool nothing_left(std::span<const float> scores) { return !(largest(scores) > kBanned); }

}  // namespace

void apply_temperature(std::span<float> scores, double temperature) {
  if (temperature == 1.0) return;
  const auto divisor = static_cast<float>(temperature);
  float magnitude = 0;
  for (const float score : scores) {
    if (std::isfinite(score)) magnitude = std::max(magnitude, std::abs(score));
  }
  if (divisor > 0 && std::isfinite(magnitude / divisor)) {
    for (float& score : scores) score /= divisor;
    return;
  }
  const float top = largest(scores);
  for (float& score : scores) {
    if (score != kBanned) score = static_cast<float>((static_cast<double>(score) - top) / temperature);
  }
}

void keep_top_k(std::span<float> scores, std::int64_t k, std::int64_t keep) {
  if (k <= 0 || std::max(k, keep) >= std::ssize(scores)) return;
  const float limit = kth_largest(scores, std::max(k, keep));
  for (float& score : scores) {
    if (score < limit) score = kBanned;
  }
}

void keep_top_p(std::span<float> scores, double p, std::int64_t keep) {
  if (p >= 1.0 || nothing_left(scores)) return;
  const double top = largest(scores);
  double total = 0;
  for (const float score : scores) total += std::exp(score - top);
  // Parity: an id is banned when the ids from it downwards sum to at most 1 - p.
  double reached = 0;
  bool banned = false;
  std::int64_t n = 0;
  for (const std::int32_t id : by_score(scores)) {
    float& score = scores[static_cast<std::size_t>(id)];
    banned = banned || (n++ >= keep && reached / total >= p);
    reached += std::exp(score - top);
    if (banned) score = kBanned;
  }
}

void keep_min_p(std::span<float> scores, double min_p, std::int64_t keep) {
  if (min_p <= 0.0 || nothing_left(scores)) return;
  cut_below(scores, largest(scores) - log_sum_exp(scores) + std::log(min_p), keep);
}

void keep_top_h(std::span<float> scores, double top_h) {
  if (nothing_left(scores)) return;
  const auto order = by_score(scores).first(std::min(scores.size(), kTopHCandidates));
  thread_local std::vector<float> candidates;
  candidates.clear();
  for (const std::int32_t id : order) candidates.push_back(scores[static_cast<std::size_t>(id)]);
  const double norm = log_sum_exp(candidates), limit = entropy(candidates) * top_h;
  double reached = 0;
  std::size_t n = 0;
  for (; n < candidates.size() && candidates[n] > kBanned; ++n) {
    reached -= std::exp(candidates[n] - norm) * (candidates[n] - norm);
    if (n > 0 && reached > limit) break;
  }
  std::ranges::fill(scores, kBanned);
  for (std::size_t i = 0; i < n; ++i) scores[static_cast<std::size_t>(order[i])] = candidates[i];
}

void keep_typical(std::span<float> scores, double mass, std::int64_t keep) {
  if (mass >= 1.0 || nothing_left(scores)) return;
  const double norm = log_sum_exp(scores), h = entropy(scores);
  thread_local std::vector<float> distance;  // float: ties of equal scores must stay ties
  thread_local std::vector<std::int32_t> order;
  distance.resize(scores.size());
  order.resize(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) distance[i] = static_cast<float>(std::abs(-(scores[i] - norm) - h));
  std::iota(order.begin(), order.end(), 0);
  const auto distance_of = [&](std::int32_t id) { return distance[static_cast<std::size_t>(id)]; };
  std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return distance_of(a) < distance_of(b) || (distance_of(a) == distance_of(b) && a < b);
  });
  double reached = 0;
  std::size_t last = 0;  // ids that together stay below the mass
  for (; last < order.size(); ++last) {
    reached += std::exp(scores[static_cast<std::size_t>(order[last])] - norm);
    if (reached >= mass) break;
  }
  const float limit = distance_of(order[std::min(last, order.size() - 1)]);
  for (std::size_t i = static_cast<std::size_t>(std::min(keep, std::ssize(order))); i < order.size(); ++i) {
    if (distance_of(order[i]) > limit) scores[static_cast<std::size_t>(order[i])] = kBanned;
  }
}

void cut_epsilon(std::span<float> scores, double epsilon, std::int64_t keep) {
  if (epsilon <= 0.0 || epsilon >= 1.0 || nothing_left(scores)) return;
  cut_below(scores, std::log(epsilon), keep);
}

void cut_eta(std::span<float> scores, double epsilon, std::int64_t keep) {
  if (epsilon <= 0.0 || epsilon >= 1.0 || nothing_left(scores)) return;
  cut_below(scores, std::min(std::log(epsilon), std::log(epsilon) / 2 - entropy(scores)), keep);
}

}  // namespace mneme
