#include "mneme/generate/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "mneme/base/error.h"
#include "mneme/kernels/kernels.h"

namespace mneme {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

}  // namespace

void check_finite(std::span<const float> logits) {
  const float most = kernels::active().largest(logits.data(), std::ssize(logits));
  check(most < std::numeric_limits<float>::infinity(), ErrorKind::kFailedPrecondition,
        "the model's logits are not finite: its weights hold NaN, or numbers overflow in this dtype; try float32 or "
        "bfloat16");
}

std::int64_t argmax(std::span<const float> scores) {
  constexpr std::size_t kPart = 1024;
  float best = kBanned;
  std::size_t id = 0;
  for (std::size_t first = 0; first < scores.size(); first += kPart) {
    const auto part = scores.subspan(first, std::min(kPart, scores.size() - first));
    if (!(kernels::active().largest(part.data(), std::ssize(part)) > best)) continue;  // NaN is looked at, never taken
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] > best) best = part[i], id = first + i;
    }
  }
  return static_cast<std::int64_t>(id);
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
