#include "mneme/generate/common_prefix.h"

#include <algorithm>

#include "mneme/base/error.h"
#include "mneme/cache/prefix_tree.h"

namespace mneme {

std::int64_t keep_common_prefix(Cache& cache, std::span<const std::int64_t> held, std::span<const std::int64_t> text) {
  const std::int64_t length = cache.seq_length();
  check(cache.n_sequences() <= 1 && length == std::ssize(held), ErrorKind::kInvalidArgument,
        "the cache holds {} sequences of {} tokens where {} ids of one sequence were given", cache.n_sequences(),
        length, held.size());
  if (length == 0) return 0;
  const std::int64_t alike = std::ranges::mismatch(held, text).in1 - held.begin();
  const std::int64_t kept = exact_length(cache, std::min(alike, std::ssize(text) - 1));
  if (kept == length) return kept;
  if (kept > 0) {
    cache.crop(kept - length);
  } else {
    cache.reset();
  }
  return kept;
}

}  // namespace mneme
