#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "mneme/kernels/codes.h"

/// Encoders of full blocks. All compute on float32 copies of what a block holds, one head's [64, D] tile of keys or
/// values at a time, and give the same bits on every thread and instruction set. A scale or offset is float16 and what
/// exceeds its range (65504) is taken as that, so that finite input never decodes to an infinity or NaN; a NaN counts
/// as zero.
namespace mneme::quant {

/// How the codes and scales of a group are found.
enum class Method : std::uint8_t {
  kMinMax,         ///< the group's smallest number is code 0, its largest the last code
  kHalfQuadratic,  ///< min-max, then a zero point that minimizes the p-norm of the error, p = 0.7
  kLeastSquares,   ///< scale and offset that minimize the squared error, from several clippings
  kSymmetric,      ///< 8 bits, largest magnitude is code 127 off the middle
  kFloat8,         ///< e4m3, the tile's largest magnitude is 448
};

/// Turns raw blocks of one layout into encoded ones and back. Constant; shared by threads.
class BlockCodec {
 public:
  /// `codes.raw` names the raw layout. Throws Error(kInvalidArgument) unless its groups fit the tiles: a row-major
  /// group divides 64 dim, a group of tokens divides 64; and unless every size is positive and sink_length is 0 to 64.
  BlockCodec(std::string name, Method method, const kernels::BlockCodes& codes)
      : BlockCodec(std::move(name), method, method, codes) {}
  /// The same with a method for keys and another for values.
  BlockCodec(std::string name, Method keys, Method values, const kernels::BlockCodes& codes);

  /// "quanto4", "hqq2", "kivi4+2" (bits of keys and values), "int8", "fp8".
  const std::string& name() const noexcept { return name_; }
  const kernels::BlockCodes& codes() const noexcept { return codes_; }

  /// Encodes a full raw block of layout codes().raw into out [codes().block_bytes(first)]; `first` says that it is
  /// block 0 of its sequence. Both begin at multiples of 64 bytes. Costs tens of microseconds a head; no allocation
  /// after a thread's first call.
  void encode(const std::byte* raw, bool first, std::byte* out) const;
  /// The same for one head, so that threads may share a block.
  void encode_head(const std::byte* raw, std::int64_t head, bool first, std::byte* out) const;

  /// The reverse: every number rounded once to the raw format. Writes all of raw [codes().raw.block_bytes()].
  void decode(const std::byte* block, bool first, std::byte* raw) const;
  void decode_head(const std::byte* block, std::int64_t head, bool first, std::byte* raw) const;

 private:
  std::string name_;
  Method keys_, values_;
  kernels::BlockCodes codes_;
};

/// Each throws Error(kInvalidArgument) for what its comment does not allow, and as BlockCodec does.

/// Affine min-max codes as optimum-quanto makes them. Axis 0 groups neighbours of the row-major tile, axis -1 tokens of
/// a channel.
struct QuantoOptions {
  int nbits = 4;  ///< 2 or 4
  int axis_key = 0, axis_value = 0;
  std::int64_t q_group_size = 64;
};
std::shared_ptr<const BlockCodec> make_quanto(const QuantoOptions& options, const kernels::BlockLayout& raw);

/// Half-quadratic quantization (Badri & Shaji 2023, mobiusml.github.io/hqq_blog), with the iterations that its package
/// does by default. Axis 1 groups neighbours of the row-major tile, axis 0 tokens of a channel.
struct HqqOptions {
  int nbits = 4;  ///< 1, 2, 3, 4 or 8
  int axis_key = 0, axis_value = 0;
  std::int64_t q_group_size = 64;
};
std::shared_ptr<const BlockCodec> make_hqq(const HqqOptions& options, const kernels::BlockLayout& raw);

/// Keys by channel over groups of tokens, values by token over groups of channels (Liu et al. 2024, arXiv:2402.02750).
/// Scales of keys are a least-squares fit, which with 2 bits halves what is lost; those of values are the range's, for
/// attention averages their errors anyway, and clipped values are worse.
struct KiviOptions {
  int nbits_key = 4, nbits_value = 4;  ///< 2, 3, 4 or 8
  std::int64_t q_group_size = 32;
  std::int64_t sink_length = 4;
};
std::shared_ptr<const BlockCodec> make_kivi(const KiviOptions& options, const kernels::BlockLayout& raw);

/// 8 bits, one scale for each token of a head.
std::shared_ptr<const BlockCodec> make_int8(const kernels::BlockLayout& raw);

/// e4m3, one scale for each tile.
std::shared_ptr<const BlockCodec> make_fp8(const kernels::BlockLayout& raw);

}  // namespace mneme::quant
