#pragma once

#include <cstddef>
#include <cstdint>

#include "mneme/base/ggml_block.h"
#include "mneme/kernels/kernels.h"

/// Panels of weights that stay integers: runs of 64 inner elements, which share one scale S, and in a run groups, which
/// have a small integer i each and another, j, where the format has a minimum:
///
///   w ~ S W,   W = i (q - zero)  or  W = i q + j
///
/// A run is thus a sum of integers times S, whatever its groups are: what dot products and AMX want. Codes q are those
/// of the file. S, i and j are fitted to its scales d and minimums m (`fit` in coded_panel.cc): with 4 bits i is about
/// 45, and S the best of a few candidates: that adds 1/500 to the squared error that rounding to 4 bits has. Q6_K's
/// scales are integers in the file, and stay what they are.
///
/// A panel holds blocks of sixteen outputs one after the other:
///
///   block    16 S (256 S of Q8_0) [16] float16; i [groups][16] int8 or, where the format has minimums,
///            i + 64 j [groups][16] int16; its groups
///   group    quads of inner elements: [quads / 2][16][4] bytes with quad 2i in the lower four bits and 2i + 1 in the
///            upper, or [quads][16][4] bytes for 8 bits; then the bits above: 5-bit codes [16][4] bytes with bit q for
///            quad q, 6-bit codes [16][4] bytes with two bits from 2q on for quad q
///
/// so that one 64-byte line is four (or eight) inner elements of sixteen outputs: what integer dot products take. A
/// last run of half the length is stored whole, with zeros where it has no weights.
namespace mneme::kernels {

/// Inner elements that share a scale, of weights and of the rows that they are multiplied with.
inline constexpr std::int64_t kRun = 64;
/// Inner dimensions of coded weights are multiples of this.
inline constexpr std::int64_t kCodedStep = 32;
/// A row's scale is stored divided by this, since S is stored multiplied: it is a small part of a scale that float16
/// was enough for, a 45th with 4 bits and a 127th with 8.
inline constexpr float kRowScaleDown = 16.0f;

/// Where things lie in the block of a panel.
template <WeightFormat kFormat>
struct CodedBlock {
  static constexpr CodedFormat kCoded = coded_format(kFormat);
  static constexpr int kQuads = kCoded.group / 4;
  static constexpr int kRunGroups = static_cast<int>(kRun) / kCoded.group;
  static constexpr int kRuns = kCoded.signed_steps ? 4 : 1;  ///< that share S: in Q6_K they all have the file's
  static constexpr int kGroups = kRuns * kRunGroups;
  static constexpr float kScaleUp = kCoded.bits == 8 ? 256.0f : 16.0f;
  static constexpr int kScales = 0;
  static constexpr int kSteps = 32;
  static constexpr int kStepBytes = kCoded.has_min ? 32 : 16;  ///< of a group
  static constexpr int kCodes = kSteps + kGroups * kStepBytes;
  static constexpr int kHighBits = kCoded.bits == 8 ? 0 : kQuads / 2 * 64;  ///< from a group's start
  static constexpr int kGroupBytes = kCoded.bits == 8 ? kQuads * 64 : kHighBits + (kCoded.bits > 4 ? 64 : 0);
  static constexpr int kBytes = kCodes + kGroups * kGroupBytes;

  /// Bounds of |q - zero|, and of |W| and |i| where they are fitted: i + 64 j has 16 bits, and of 4-bit codes W is 2 A
  /// + B with signed bytes A and B of nearly the same size (product_coded_amx.h).
  static constexpr int kLargestCode = kCoded.bits == 8 ? 128 : kCoded.zero ? kCoded.zero : (1 << kCoded.bits) - 1;
  static constexpr int kLargest = kCoded.bits == 4   ? 3 * 127 - 2 * (kLargestCode + kCoded.has_min)
                                  : kCoded.has_min   ? 511
                                  : kCoded.bits == 5 ? 63 * kLargestCode
                                                     : 127 * kLargestCode;
  static constexpr int kLargestStep = kCoded.has_min ? 2 * kLargest / kLargestCode + 1 : kLargest / kLargestCode;
  static_assert(kLargestStep < (kCoded.has_min ? 64 : 128));

  static constexpr std::int64_t blocks(std::int64_t inner) { return (inner + kRun * kRuns - 1) / (kRun * kRuns); }
};

/// Bytes of one panel in any format. Coded ones need an inner dimension of whole blocks of the file.
std::int64_t panel_bytes(WeightFormat format, std::int64_t inner);

/// Packs n_rows <= 16 rows [inner] of coded blocks as they lie in a file, row_bytes apart, into a panel; rows that are
/// not there become zeros.
void pack_coded_panel(WeightFormat format, const std::byte* rows, std::int64_t row_bytes, std::int64_t n_rows,
                      std::int64_t inner, std::byte* panel) noexcept;

/// The reverse, for what has no kernels for integers: rows [n_rows, inner] of panels that lie one after the other, as
/// the numbers S W that they stand for.
void decode_coded_panels(WeightFormat format, const std::byte* panels, std::int64_t n_rows, std::int64_t inner,
                         float* rows) noexcept;

}  // namespace mneme::kernels
