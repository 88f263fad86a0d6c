#include "mneme/quant/block_codec.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/flush_denormals.h"
#include "mneme/quant/code_planes.h"
#include "mneme/quant/tile_encoder.h"

namespace mneme::quant {
namespace {

using kernels::BlockCodes;
using kernels::Grouping;
using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;

constexpr float kLargestFloat16 = 65504;

void check_tile(const std::string& name, const char* what, const TileCodes& codes, std::int64_t dim) {
  const std::int64_t group = codes.group;
  check(group > 0, ErrorKind::kInvalidArgument, "{}: a group of {} {} cannot be; q_group_size is 1 or more", name,
        group, what);
  if (codes.grouping == Grouping::kRowMajor) {
    check(kBlockTokens * dim % group == 0, ErrorKind::kInvalidArgument,
          "{}: groups of {} do not divide the {} numbers of 64 tokens of {} {}; choose a q_group_size that does", name,
          group, kBlockTokens * dim, dim, what);
  }
  if (codes.grouping == Grouping::kTokens || codes.grouping == Grouping::kStridedTokens) {
    check(kBlockTokens % group == 0, ErrorKind::kInvalidArgument,
          "{}: groups of {} tokens do not divide the 64 tokens of a block of {}; choose a q_group_size that does", name,
          group, what);
  }
}

/// One head's keys and values as float32 rows [64, dim], each number finite and within float16's range.
struct HeadRows {
  std::vector<float> keys, values;
};

HeadRows& head_rows(const kernels::BlockLayout& layout) {
  thread_local HeadRows rows;
  rows.keys.resize(static_cast<std::size_t>(kBlockTokens * layout.key_dim));
  rows.values.resize(static_cast<std::size_t>(kBlockTokens * layout.value_dim));
  return rows;
}

void saturate(std::vector<float>& numbers) {
  for (float& x : numbers) x = x == x ? std::min(std::max(x, -kLargestFloat16), kLargestFloat16) : 0.0f;
}

void decode_tile(const TileCodes& codes, TileSide side, std::int64_t dim, const std::byte* tile, float* out) {
  thread_local std::vector<std::uint8_t> bytes;
  bytes.resize(static_cast<std::size_t>(kBlockTokens * dim));
  unpack_codes(codes, side, dim, tile, bytes.data());
  const auto* scales = reinterpret_cast<const std::uint16_t*>(tile + codes.code_bytes(side, dim));
  for (std::int64_t i = 0; i < kBlockTokens * dim; ++i) {
    const float scale = from_float16(scales[codes.scale_slot(side, dim, i / dim, i % dim)]);
    out[i] = static_cast<float>(bytes[static_cast<std::size_t>(i)] - 128) * scale;
  }
}

}  // namespace

BlockCodec::BlockCodec(std::string name, Method method, const BlockCodes& codes)
    : name_(std::move(name)), method_(method), codes_(codes) {
  const kernels::BlockLayout& raw = codes.raw;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  check(raw.n_heads > 0 && raw.key_dim > 0 && raw.value_dim > 0 && raw.n_heads <= kMost && raw.key_dim <= kMost &&
            raw.value_dim <= kMost,
        ErrorKind::kInvalidArgument, "{}: a cache of {} heads of {} and {} cannot be: each must be 1 to {}", name_,
        raw.n_heads, raw.key_dim, raw.value_dim, kMost);
  check(codes.sink_length >= 0 && codes.sink_length <= kBlockTokens, ErrorKind::kInvalidArgument,
        "{}: sink_length {} is not within a block of {} tokens; give 0 to {}", name_, codes.sink_length, kBlockTokens,
        kBlockTokens);
  check_tile(name_, "keys", codes.keys, raw.key_dim);
  check_tile(name_, "values", codes.values, raw.value_dim);
}

void BlockCodec::encode(const std::byte* raw, bool first, std::byte* out) const {
  for (std::int64_t head = 0; head < codes_.raw.n_heads; ++head) encode_head(raw, head, first, out);
}

void BlockCodec::encode_head(const std::byte* raw, std::int64_t head, bool first, std::byte* out) const {
  const FlushDenormals mode;  // part of the result
  const kernels::BlockLayout& layout = codes_.raw;
  HeadRows& rows = head_rows(layout);
  kernels::active()
      .of(layout.format)
      .load_tokens(layout, raw + head * layout.head_bytes(), 0, kBlockTokens, rows.keys.data(), layout.key_dim,
                   rows.values.data(), layout.value_dim);
  saturate(rows.keys);
  saturate(rows.values);
  std::byte* tile = out + codes_.head_offset(head);
  encode_tile(method_, codes_.keys, TileSide::kKeys, layout.key_dim, first ? codes_.sink_length : 0, rows.keys.data(),
              tile);
  encode_tile(method_, codes_.values, TileSide::kValues, layout.value_dim, first ? codes_.sink_length : 0,
              rows.values.data(), tile + codes_.key_bytes());
}

void BlockCodec::decode(const std::byte* block, bool first, std::byte* raw) const {
  for (std::int64_t head = 0; head < codes_.raw.n_heads; ++head) decode_head(block, head, first, raw);
}

void BlockCodec::decode_head(const std::byte* block, std::int64_t head, bool /*first*/, std::byte* raw) const {
  const FlushDenormals mode;
  const kernels::BlockLayout& layout = codes_.raw;
  HeadRows& rows = head_rows(layout);
  const std::byte* tile = block + codes_.head_offset(head);
  decode_tile(codes_.keys, TileSide::kKeys, layout.key_dim, tile, rows.keys.data());
  decode_tile(codes_.values, TileSide::kValues, layout.value_dim, tile + codes_.key_bytes(), rows.values.data());
  std::byte* out = raw + head * layout.head_bytes();
  std::memset(out, 0, static_cast<std::size_t>(layout.head_bytes()));
  kernels::active()
      .of(layout.format)
      .store_tokens(layout, out, 0, kBlockTokens, rows.keys.data(), layout.key_dim, rows.values.data(),
                    layout.value_dim);
}

std::shared_ptr<const BlockCodec> make_int8(const kernels::BlockLayout& raw) {
  const auto tile = [](std::int64_t dim) {
    return TileCodes{.kind = kernels::CodeKind::kAffine, .bits = 8, .grouping = Grouping::kChannels, .group = dim};
  };
  return std::make_shared<BlockCodec>("int8", Method::kSymmetric,
                                      BlockCodes{.keys = tile(raw.key_dim), .values = tile(raw.value_dim), .raw = raw});
}

}  // namespace mneme::quant
