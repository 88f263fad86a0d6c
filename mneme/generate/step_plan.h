#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mneme/generate/sequence.h"
#include "mneme/models/model.h"

namespace mneme {

/// The step of decoding, laid out once: every sequence of a batch that goes on reads one token. Each token after that
/// replays it with new ids and positions; a replay allocates nothing and asks nothing of ATen. A plan serves as long as
/// the same sequences go on.
class StepPlan {
 public:
  explicit StepPlan(const std::vector<Sequence>& sequences);

  /// Whether these are the sequences that go on.
  bool fits(const std::vector<Sequence>& sequences) const;

  /// What it reads: of sequence i, if it goes on, token `id` at `position`, which makes its text `length` tokens long.
  void set(std::int64_t i, std::int64_t id, std::int64_t position, std::int64_t length);

  /// Indices of the sequences that go on: row r of the batch is sequence rows()[r].
  std::span<const std::int64_t> sequences() const noexcept { return sequences_; }
  /// 0, 1, .. for every row: each has logits.
  std::span<const std::int64_t> rows() const noexcept { return rows_; }
  /// Tokens of each sequence of the batch: one or none.
  std::span<const std::int64_t> counts() const noexcept { return counts_; }
  TokenBatch batch() const noexcept;

 private:
  std::vector<std::int64_t> sequences_, rows_, counts_, row_starts_{0}, ids_, positions_, known_lengths_;
};

}  // namespace mneme
