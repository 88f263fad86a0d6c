#include "mneme/generate/watermark.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace mneme {
namespace {

constexpr std::int64_t kTableSize = 1'000'003;
constexpr std::size_t kCandidates = 40;  // Parity: transformers' number for "selfhash"

at::Tensor permutation(std::int64_t n, std::uint64_t seed) {
  return at::randperm(n, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(at::kLong));
}

}  // namespace

Watermark::Watermark(WatermarkingConfig config, std::int64_t vocab_size)
    : config_(std::move(config)), vocab_size_(vocab_size) {
  if (config_.seeding_scheme == "selfhash")
    table_ = permutation(kTableSize, static_cast<std::uint64_t>(config_.hashing_key));
}

std::uint64_t Watermark::seed_of(std::span<const std::int64_t> tokens) const {
  // Products wrap around as PyTorch's do; the seed is what Python's % (2^64 - 1) makes of the signed number.
  const auto key = static_cast<std::uint64_t>(config_.hashing_key);
  auto number = static_cast<std::int64_t>(key * static_cast<std::uint64_t>(tokens.back()));
  if (table_.defined()) {
    const auto* table = table_.const_data_ptr<std::int64_t>();
    const auto hash = [&](std::int64_t id) { return static_cast<std::uint64_t>(table[id % kTableSize] + 1); };
    const std::size_t width = std::min(tokens.size(), static_cast<std::size_t>(config_.context_width));
    number = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t id : tokens.last(width)) {
      number = std::min(number, static_cast<std::int64_t>(key * hash(id) * hash(tokens.back())));
    }
  }
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? bits - 1 : bits;
}

std::vector<std::int64_t> Watermark::green_ids(std::span<const std::int64_t> tokens) const {
  const at::Tensor shuffled = permutation(vocab_size_, seed_of(tokens));
  const auto n = static_cast<std::int64_t>(static_cast<double>(vocab_size_) * config_.greenlist_ratio);
  const auto* ids = shuffled.const_data_ptr<std::int64_t>();
  return {ids, ids + n};
}

/// Each of the likeliest ids that is on the list which it would itself decide about.
std::vector<std::int64_t> Watermark::own_green_ids(std::span<const float> scores,
                                                   std::span<const std::int64_t> tokens) const {
  std::vector<std::int64_t> order(scores.size()), text(tokens.begin(), tokens.end()), own;
  std::iota(order.begin(), order.end(), 0);
  const std::size_t n = std::min(kCandidates, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      const float x = scores[static_cast<std::size_t>(a)], y = scores[static_cast<std::size_t>(b)];
                      return x > y || (x == y && a < b);
                    });
  text.push_back(0);
  for (std::size_t i = 0; i < n; ++i) {
    text.back() = order[i];
    const std::vector<std::int64_t> green = green_ids(text);
    if (std::ranges::find(green, order[i]) != green.end()) own.push_back(order[i]);
  }
  return own;
}

void Watermark::apply(std::span<float> scores, std::span<const std::int64_t> tokens) const {
  if (std::ssize(tokens) < config_.context_width) return;
  for (const std::int64_t id : table_.defined() ? own_green_ids(scores, tokens) : green_ids(tokens)) {
    scores[static_cast<std::size_t>(id)] += static_cast<float>(config_.bias);
  }
}

}  // namespace mneme
