#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace mneme {

/// While it lives, this thread's floating-point environment is the one that results are defined in: denormals are zero
/// on the way in and out, rounding is to nearest, nothing traps. The destructor restores what was there.
///
/// A chain of multiply-adds on denormals is a hundred times slower, and AMX knows no other mode.
class FlushDenormals {
 public:
  FlushDenormals() noexcept : saved_(get()) { set(kMode); }
  ~FlushDenormals() { set(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  using Register = unsigned;
  static constexpr Register kMode = 0x9fc0;  // MXCSR: FTZ, DAZ, all exceptions masked, to nearest
  static Register get() noexcept { return _mm_getcsr(); }
  static void set(Register mode) noexcept { _mm_setcsr(mode); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kMode = 1u << 24;  // FPCR: FZ
  static Register get() noexcept {
    Register mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(Register mode) noexcept { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#else
#error "Say how this processor flushes denormals"
#endif
  Register saved_;
};

}  // namespace mneme
