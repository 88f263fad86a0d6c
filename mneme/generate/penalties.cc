#include "mneme/generate/penalties.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mneme/generate/logits.h"

namespace mneme {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

/// Calls visit(score) for each id that the scores have.
template <class Visit>
void for_each_score(std::span<float> scores, Ids ids, const Visit& visit) {
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < std::ssize(scores)) visit(scores[static_cast<std::size_t>(id)]);
  }
}

}  // namespace

void penalize_repetition(std::span<float> scores, Ids tokens, double penalty) {
  if (penalty == 1.0) return;
  std::vector<std::int64_t> seen(tokens.begin(), tokens.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  const auto factor = static_cast<float>(penalty);
  for_each_score(scores, seen, [&](float& score) { score = score < 0 ? score * factor : score / factor; });
}

void ban(std::span<float> scores, Ids ids) {
  for_each_score(scores, ids, [](float& score) { score = kBanned; });
}

void force(std::span<float> scores, Ids ids) {
  std::ranges::fill(scores, kBanned);
  for_each_score(scores, ids, [](float& score) { score = 0; });
}

void allow_only(std::span<float> scores, Ids ids, bool force_if_banned) {
  const std::vector<float> before(scores.begin(), scores.end());
  force(scores, ids);
  bool any = false;
  for (const float score : scores) any = any || score == 0;
  if (!any) return;
  bool all_banned = true;
  for (std::size_t i = 0; i < before.size(); ++i) all_banned = all_banned && (scores[i] != 0 || before[i] == kBanned);
  if (all_banned && force_if_banned) return;
  for (std::size_t i = 0; i < before.size(); ++i) scores[i] += before[i];
}

void ban_ngrams(std::span<float> scores, Ids tokens, Ids text, std::int64_t n) {
  if (n <= 0 || std::ssize(tokens) < n - 1 || std::ssize(text) < n) return;
  const auto known = static_cast<std::size_t>(n - 1);
  const Ids prefix = tokens.last(known);
  for (std::size_t i = 0; i + known < text.size(); ++i) {
    if (std::ranges::equal(prefix, text.subspan(i, known))) ban(scores, text.subspan(i + known, 1));
  }
}

void bias_sequences(std::span<float> scores, Ids tokens, std::span<const SequenceBias> biases) {
  for (const SequenceBias& biased : biases) {
    const Ids ids = biased.ids, before = ids.first(ids.size() - 1);
    if (before.size() > tokens.size() || !std::ranges::equal(before, tokens.last(before.size()))) continue;
    for_each_score(scores, ids.last(1), [&](float& score) { score += static_cast<float>(biased.bias); });
  }
}

void favour(std::span<float> scores, Ids ids, double factor, std::int64_t n) {
  const double more = std::pow(factor, static_cast<double>(n)) - 1;
  for_each_score(scores, ids, [&](float& score) {
    if (std::isfinite(score)) score = static_cast<float>(score + std::abs(score) * more);
  });
}

void remove_invalid(std::span<float> scores) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (float& score : scores) score = std::isnan(score) ? 0.0f : std::clamp(score, -kMost, kMost);
}

}  // namespace mneme
