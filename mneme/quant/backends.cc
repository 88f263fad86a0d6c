#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "mneme/base/error.h"
#include "mneme/quant/block_codec.h"

namespace mneme::quant {
namespace {

using kernels::BlockCodes;
using kernels::BlockLayout;
using kernels::CodeKind;
using kernels::Grouping;
using kernels::TileCodes;

void check_one_of(std::string_view backend, std::string_view key, int value, std::initializer_list<int> allowed) {
  check(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), ErrorKind::kInvalidArgument,
        "{}: {} {} is not one of {}", backend, key, value, fmt::join(allowed, ", "));
}

TileCodes affine(int bits, Grouping grouping, std::int64_t group) {
  return {.kind = CodeKind::kAffine, .bits = bits, .has_offset = true, .grouping = grouping, .group = group};
}

}  // namespace

std::shared_ptr<const BlockCodec> make_quanto(const QuantoOptions& options, const BlockLayout& raw) {
  check_one_of("quanto", "nbits", options.nbits, {2, 4});
  check_one_of("quanto", "axis_key", options.axis_key, {0, -1});
  check_one_of("quanto", "axis_value", options.axis_value, {0, -1});
  const auto tile = [&](int axis) {
    return affine(options.nbits, axis == 0 ? Grouping::kRowMajor : Grouping::kTokens, options.q_group_size);
  };
  return std::make_shared<BlockCodec>(
      fmt::format("quanto{}", options.nbits), Method::kMinMax,
      BlockCodes{.keys = tile(options.axis_key), .values = tile(options.axis_value), .raw = raw});
}

std::shared_ptr<const BlockCodec> make_hqq(const HqqOptions& options, const BlockLayout& raw) {
  check_one_of("hqq", "nbits", options.nbits, {1, 2, 3, 4, 8});
  check_one_of("hqq", "axis_key", options.axis_key, {0, 1});
  check_one_of("hqq", "axis_value", options.axis_value, {0, 1});
  // Parity: the package reshapes to [G, -1], so that the tokens of a group are 64 / G apart.
  const auto tile = [&](int axis) {
    return affine(options.nbits, axis == 1 ? Grouping::kRowMajor : Grouping::kStridedTokens, options.q_group_size);
  };
  return std::make_shared<BlockCodec>(
      fmt::format("hqq{}", options.nbits), Method::kHalfQuadratic,
      BlockCodes{.keys = tile(options.axis_key), .values = tile(options.axis_value), .raw = raw});
}

std::shared_ptr<const BlockCodec> make_kivi(const KiviOptions& options, const BlockLayout& raw) {
  check_one_of("kivi", "nbits_key", options.nbits_key, {2, 3, 4, 8});
  check_one_of("kivi", "nbits_value", options.nbits_value, {2, 3, 4, 8});
  return std::make_shared<BlockCodec>(
      fmt::format("kivi{}+{}", options.nbits_key, options.nbits_value), Method::kLeastSquares, Method::kMinMax,
      BlockCodes{.keys = affine(options.nbits_key, Grouping::kTokens, options.q_group_size),
                 .values = affine(options.nbits_value, Grouping::kChannels, options.q_group_size),
                 .raw = raw,
                 .sink_length = options.sink_length});
}

std::shared_ptr<const BlockCodec> make_int8(const BlockLayout& raw) {
  const auto tile = [](std::int64_t dim) { return TileCodes{.grouping = Grouping::kChannels, .group = dim}; };
  return std::make_shared<BlockCodec>("int8", Method::kSymmetric,
                                      BlockCodes{.keys = tile(raw.key_dim), .values = tile(raw.value_dim), .raw = raw});
}

std::shared_ptr<const BlockCodec> make_fp8(const BlockLayout& raw) {
  const TileCodes tile{.kind = CodeKind::kFloat8, .grouping = Grouping::kTile};
  return std::make_shared<BlockCodec>("fp8", Method::kFloat8, BlockCodes{.keys = tile, .values = tile, .raw = raw});
}

}  // namespace mneme::quant
