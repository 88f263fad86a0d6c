#pragma once

#include <cstddef>
#include <cstdint>

#include "mneme/base/ggml_block.h"
#include "mneme/kernels/kernels.h"

/// Panels of weights that stay integers. A panel holds the blocks of sixteen outputs one after the other:
///
///   block    scales [16] float16, minimums [16] float16 (where the format has them), then scale steps [groups][16] and
///            minimum steps [groups][16] bytes (where it has them; Q6_K's plus 128), then its groups
///   group    quads of inner elements: [quads / 2][16][4] bytes with quad 2i in the lower and 2i + 1 in the upper four
///   bits,
///            or [quads][16][4] bytes for 8 bits; then the bits above: 5-bit codes [16][4] bytes with bit q for quad q,
///            6-bit codes [16][4] bytes with two bits from 2q on for quad q
///
/// so that one 64-byte line is four (or eight) inner elements of sixteen outputs: what integer dot products take.
namespace mneme::kernels {

/// Inner elements that one activation scale covers.
inline constexpr std::int64_t kRowGroup = 32;

/// Where things lie in the block of a panel.
template <WeightFormat kFormat>
struct CodedBlock {
  static constexpr CodedFormat kCoded = coded_format(kFormat);
  static constexpr int kQuads = kCoded.group / 4;
  static constexpr int kScales = 0;
  static constexpr int kMins = 32;
  static constexpr int kScaleSteps = kCoded.has_min ? 64 : 32;
  static constexpr int kMinSteps = kScaleSteps + (kCoded.has_steps ? kCoded.block_groups * 16 : 0);
  static constexpr int kGroups = kMinSteps + (kCoded.has_steps && kCoded.has_min ? kCoded.block_groups * 16 : 0);
  static constexpr int kHighBits = kCoded.bits == 8 ? 0 : kQuads / 2 * 64;  ///< from a group's start
  static constexpr int kGroupBytes = kCoded.bits == 8 ? kQuads * 64 : kHighBits + (kCoded.bits > 4 ? 64 : 0);
  static constexpr int kBytes = kGroups + kCoded.block_groups * kGroupBytes;
};

/// Bytes of one panel in any format. Coded ones need an inner dimension of whole blocks.
std::int64_t panel_bytes(WeightFormat format, std::int64_t inner);

/// Packs n_rows <= 16 rows [inner] of coded blocks as they lie in a file, row_bytes apart, into a panel; rows that are
/// not there become zeros.
void pack_coded_panel(WeightFormat format, const std::byte* rows, std::int64_t row_bytes, std::int64_t n_rows,
                      std::int64_t inner, std::byte* panel) noexcept;

/// The reverse, for what has no kernels for integers: rows [n_rows, inner] of panels that lie one after the other, as
/// the numbers that they stand for.
void decode_coded_panels(WeightFormat format, const std::byte* panels, std::int64_t n_rows, std::int64_t inner,
                         float* rows) noexcept;

}  // namespace mneme::kernels
