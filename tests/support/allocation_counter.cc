#include "tests/support/allocation_counter.h"

#ifdef MNEME_COUNTS_ALLOCATIONS

#include <atomic>
#include <cerrno>
#include <cstddef>

// The program's own definitions come before those of the C library, for every library that is loaded.
extern "C" {
void* __libc_malloc(std::size_t);                 // NOLINT
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT
void* __libc_realloc(void*, std::size_t);         // NOLINT
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT
}

namespace {
std::atomic<std::int64_t> count{0};
}

extern "C" {
void* malloc(std::size_t n) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(n);
}
void* calloc(std::size_t n, std::size_t size) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(n, size);
}
void* realloc(void* old, std::size_t n) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, n);
}
void* aligned_alloc(std::size_t alignment, std::size_t n) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, n);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t n) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  *result = __libc_memalign(alignment, n);
  return *result ? 0 : ENOMEM;
}
}

std::int64_t mneme::testing::n_allocations() { return count.load(std::memory_order_relaxed); }

#endif
