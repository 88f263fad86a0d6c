#pragma once

#include <algorithm>
#include <cstdint>

#include "mneme/base/thread_pool.h"

namespace mneme::ops {

/// Calls f(row) for every row, over the threads only where the work (elements touched) outweighs waking them.
template <class F>
void parallel_rows(std::int64_t n_rows, std::int64_t elements_per_row, F&& f) {
  constexpr std::int64_t kElementsPerTask = 16384;  // some 2 to 4 microseconds
  const std::int64_t rows = std::max<std::int64_t>(1, kElementsPerTask / std::max<std::int64_t>(1, elements_per_row));
  ThreadPool::global().run((n_rows + rows - 1) / rows, [&](std::int64_t task) noexcept {
    for (std::int64_t i = task * rows; i < std::min(n_rows, (task + 1) * rows); ++i) f(i);
  });
}

}  // namespace mneme::ops
