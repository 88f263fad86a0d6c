#pragma once

#include <cstdint>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MNEME_COUNTS_ALLOCATIONS
#endif

namespace mneme::testing {

/// Heap allocations of this process so far, by any library and thread. Only where MNEME_COUNTS_ALLOCATIONS is defined:
/// sanitizers have an allocator of their own.
std::int64_t n_allocations();

}  // namespace mneme::testing
