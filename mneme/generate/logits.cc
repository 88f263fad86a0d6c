#include "mneme/generate/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mneme/base/error.h"

namespace mneme {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

float largest(std::span<const float> scores) {
  return scores.empty() ? kBanned : scores[static_cast<std::size_t>(argmax(scores))];
}

}  // namespace

void penalize_repetition(std::span<float> scores, std::span<const std::int64_t> tokens, double penalty) {
  if (penalty == 1.0) return;
  std::vector<std::int64_t> seen(tokens.begin(), tokens.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const std::int64_t id : seen) {
    float& score = scores[static_cast<std::size_t>(id)];
    score = score < 0 ? score * factor : score / factor;
  }
}

void apply_temperature(std::span<float> scores, double temperature) {
  if (temperature == 1.0) return;
  const float top = largest(scores);
  for (float& score : scores) {
    if (score != kBanned) score = static_cast<float>((static_cast<double>(score) - top) / temperature);
  }
}

void keep_top_k(std::span<float> scores, std::int64_t k) {
  if (k <= 0 || k >= std::ssize(scores)) return;
  std::vector<float> sorted(scores.begin(), scores.end());
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const float limit = sorted[static_cast<std::size_t>(k - 1)];
  for (float& score : scores) {
    if (score < limit) score = kBanned;
  }
}

void keep_top_p(std::span<float> scores, double p) {
  if (p >= 1.0) return;
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score_of = [&](std::int32_t id) { return scores[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return score_of(a) > score_of(b); });
  const double top = largest(scores);
  double total = 0;
  for (const float score : scores) total += std::exp(score - top);
  // Parity: an id is banned when the ids from it downwards sum to at most 1 - p; the likeliest always stays.
  double reached = 0;
  bool banned = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    banned = banned || (i > 0 && reached / total >= p);
    reached += std::exp(score_of(order[i]) - top);
    if (banned) scores[static_cast<std::size_t>(order[i])] = kBanned;
  }
}

void keep_min_p(std::span<float> scores, double min_p) {
  if (min_p <= 0.0) return;
  const double limit = largest(scores) + std::log(min_p);
  for (float& score : scores) {
    if (score < limit) score = kBanned;
  }
}

void check_finite(std::span<const float> logits) {
  bool finite = true;
  for (const float x : logits) finite &= x <= std::numeric_limits<float>::max();  // false for NaN too
  check(finite, ErrorKind::kFailedPrecondition,
        "the model's logits are not finite: its weights hold NaN, or numbers overflow in this dtype; try float32 or "
        "bfloat16");
}

std::int64_t argmax(std::span<const float> scores) {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (best < 0 ? scores[i] > kBanned : scores[i] > scores[static_cast<std::size_t>(best)])
      best = static_cast<std::int64_t>(i);
  }
  return std::max<std::int64_t>(best, 0);
}

float top_gap(std::span<const float> scores) {
  float first = kBanned, second = kBanned;
  for (const float score : scores) {
    if (score > first) {
      second = std::exchange(first, score);
    } else if (score > second) {
      second = score;
    }
  }
  return second == kBanned ? std::numeric_limits<float>::infinity() : first - second;
}

void process_logits(std::span<float> scores, std::span<const std::int64_t> tokens, std::int64_t n_new,
                    const GenerationSettings& s) {
  penalize_repetition(scores, tokens, s.repetition_penalty);
  if (n_new < s.min_new_tokens) {
    for (const std::int64_t id : s.eos_token_id) {
      if (id >= 0 && id < std::ssize(scores)) scores[static_cast<std::size_t>(id)] = kBanned;
    }
  }
  if (!s.do_sample || s.temperature == 0.0) return;
  apply_temperature(scores, s.temperature);
  keep_top_k(scores, s.top_k);
  keep_top_p(scores, s.top_p);
  keep_min_p(scores, s.min_p);
}

}  // namespace mneme
