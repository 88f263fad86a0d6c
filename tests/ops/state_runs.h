#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "mneme/ops/state_run.h"
#include "tests/support/floats.h"

namespace mneme::testing {

/// Sequences that begin with zeros in their states, cut into runs with marks on the way.
class StateRuns {
 public:
  /// Sequence i has counts[i] new tokens and a mark after every `step` of them and after the last; in_place: the last
  /// mark is where the run begins.
  StateRuns(const std::vector<std::int64_t>& counts, std::int64_t n_floats, std::int64_t step, bool in_place) {
    const auto buffer = [&](float fill) {
      return states_.emplace_back(static_cast<std::size_t>(n_floats), fill).data();
    };
    std::int64_t row = 0;
    for (const std::int64_t n : counts) {
      std::vector<ops::StateMark>& marks = marks_.emplace_back();
      float* before = buffer(0.0f);
      for (std::int64_t done = step; done < n; done += step) marks.push_back({done, buffer(kNan)});
      marks.push_back({n, in_place ? before : buffer(kNan)});
      runs_.push_back({.before = before, .first_row = row, .n_rows = n, .marks = marks});
      row += n;
    }
  }

  std::span<const ops::StateRun> runs() const { return runs_; }
  /// The states of a sequence after all of its tokens.
  std::vector<float> after(std::size_t i) const { return at_mark(i, runs_[i].marks.size() - 1); }
  std::vector<float> at_mark(std::size_t i, std::size_t m) const {
    const float* states = runs_[i].marks[m].states;
    return {states, states + states_.front().size()};
  }

 private:
  std::deque<std::vector<float>> states_;
  std::deque<std::vector<ops::StateMark>> marks_;
  std::vector<ops::StateRun> runs_;
};

}  // namespace mneme::testing
