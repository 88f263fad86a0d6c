#pragma once

#include "mneme/kernels/codes.h"

namespace mneme::kernels {

/// Attention over blocks of which the first are encoded: block b < n_sealed lies in `sealed`, the others in `raw`.
struct AttendCodesArgs {
  AttendArgs raw;  ///< its head_offset is that of raw blocks; null entries where a block is encoded
  const float* q;  ///< [raw.n_rows, key_dim], as they were before raw.q was prepared
  const BlockCodes* codes;
  std::int64_t head;               ///< key/value head
  const std::byte* const* sealed;  ///< sealed[b - raw.first_block]; null where nothing is visible
  std::int64_t n_sealed;
  std::byte* scratch;  ///< [decode_scratch_bytes(*codes)], 64-byte aligned, nobody else's during the call
};

/// Bytes that decoding one head needs besides its output.
[[gnu::always_inline]] constexpr std::int64_t scale_scratch_bytes(const BlockCodes& codes) {
  const std::int64_t dim = codes.raw.key_dim > codes.raw.value_dim ? codes.raw.key_dim : codes.raw.value_dim;
  return 4 * kBlockTokens * round_up(dim, kPanel) * static_cast<std::int64_t>(sizeof(float));
}
/// Bytes of scratch of an attention over encoded blocks: one head decoded, and what decoding it needs.
[[gnu::always_inline]] constexpr std::int64_t decode_scratch_bytes(const BlockCodes& codes) {
  return codes.raw.head_bytes() + scale_scratch_bytes(codes);
}

/// Decoders for one raw format.
struct CodeFormatKernels {
  /// Decodes one head into its raw tiles: every number rounded once to the format (to the nearest; bfloat16 takes the
  /// larger magnitude of two that are as near), float16 saturated, padding zero.
  ///
  /// tiles    the head's key tile, its value tile after it
  /// sinks    the head's raw tokens where the block is the first of its sequence, else null
  /// raw      [codes.raw.head_bytes()]
  /// scratch  [scale_scratch_bytes(codes)], 64-byte aligned
  void (*decode_head)(const BlockCodes& codes, const std::byte* tiles, const std::byte* sinks, std::byte* raw,
                      float* scratch) noexcept;
  /// FormatKernels::attend where blocks are encoded. Integer tiles that are multiplied (codes.h) round queries and
  /// probabilities to 8 bits for each product (code_product.h); others are decoded once for all rows of the call, and
  /// give the bits that raw blocks of the decoded numbers would.
  void (*attend)(const AttendCodesArgs& args, std::int64_t begin, std::int64_t end, float* states) noexcept;
};

/// Sixteen groups of n > 0 finite numbers within float16's range, one in each lane, and what becomes of them.
struct FitArgs {
  const float* x;  ///< [n][16]
  std::int64_t n;
  int bits;
  float* codes;                     ///< [n][16], whole numbers
  std::uint16_t *scales, *offsets;  ///< [16] float16; no offsets of symmetric codes
};

/// The same while its zero points are looked for: codes and scales are written at the end.
struct HalfQuadraticArgs {
  FitArgs fit;
  float *inverse_scales, *zeros;  ///< [16]
};

/// One instruction set's kernels for encoded blocks, the same bits on all of them.
struct CodeKernels {
  CodeFormatKernels formats[3];  ///< by DType

  /// How codes, scales and offsets of groups are found (quant/block_codec.h, Method).
  void (*fit_min_max)(const FitArgs& args) noexcept;
  void (*fit_least_squares)(const FitArgs& args) noexcept;
  void (*fit_symmetric)(const FitArgs& args) noexcept;
  void (*start_half_quadratic)(const HalfQuadraticArgs& args) noexcept;
  float (*step_half_quadratic)(const HalfQuadraticArgs& args) noexcept;  ///< gives the sum of absolute errors before it
  void (*finish_half_quadratic)(const HalfQuadraticArgs& args) noexcept;

  /// One row of n channels by an orthonormal Hadamard matrix, in place; twice is as before but for rounding
  /// (hadamard.h).
  void (*hadamard)(float* x, std::int64_t n) noexcept;

  const CodeFormatKernels& of(DType format) const { return formats[static_cast<int>(format)]; }
};

}  // namespace mneme::kernels
