#include "mneme/generate/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mneme/base/error.h"

namespace mneme {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

}  // namespace

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

float largest(std::span<const float> scores) {
  float best = kBanned;
  for (const float score : scores) best = score > best ? score : best;
  return best;
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

double log_sum_exp(std::span<const float> scores) {
  const double top = largest(scores);
  if (!(top > kBanned)) return kBanned;
  double total = 0;
  for (const float score : scores) total += std::exp(score - top);
  return top + std::log(total);
}

void log_softmax(std::span<float> scores) {
  const double norm = log_sum_exp(scores);
  if (!(norm > kBanned)) return;
  for (float& score : scores) score = static_cast<float>(score - norm);
}

}  // namespace mneme
