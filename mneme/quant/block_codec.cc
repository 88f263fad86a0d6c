#include "mneme/quant/block_codec.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/flush_denormals.h"
#include "mneme/kernels/code_kernels.h"
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

/// The head's first tokens as they are, keys and then values.
void store_sinks(const BlockCodes& codes, const HeadRows& rows, std::byte* out) {
  const auto store = [&](const std::vector<float>& numbers, std::int64_t dim) {
    for (std::int64_t i = 0; i < codes.sink_length * dim; ++i) {
      const float x = numbers[static_cast<std::size_t>(i)];
      if (codes.raw.format == DType::kFloat32) {
        std::memcpy(out, &x, sizeof x);
      } else {
        const std::uint16_t half = codes.raw.format == DType::kBFloat16 ? to_bfloat16(x) : to_float16(x);
        std::memcpy(out, &half, sizeof half);
      }
      out += size_of(codes.raw.format);
    }
  };
  const std::byte* end = out + codes.sink_bytes();
  store(rows.keys, codes.raw.key_dim);
  store(rows.values, codes.raw.value_dim);
  std::memset(out, 0, static_cast<std::size_t>(end - out));
}

}  // namespace

BlockCodec::BlockCodec(std::string name, Method keys, Method values, const BlockCodes& codes)
    : name_(std::move(name)), keys_(keys), values_(values), codes_(codes) {
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
  if (first && codes_.sink_length) store_sinks(codes_, rows, out + codes_.sink_offset(head));
  saturate(rows.keys);
  saturate(rows.values);
  std::byte* tile = out + codes_.head_offset(head);
  encode_tile(keys_, codes_.keys, TileSide::kKeys, layout.key_dim, first ? codes_.sink_length : 0, rows.keys.data(),
              tile);
  encode_tile(values_, codes_.values, TileSide::kValues, layout.value_dim, first ? codes_.sink_length : 0,
              rows.values.data(), tile + codes_.key_bytes());
}

void BlockCodec::decode(const std::byte* block, bool first, std::byte* raw) const {
  for (std::int64_t head = 0; head < codes_.raw.n_heads; ++head) decode_head(block, head, first, raw);
}

void BlockCodec::decode_head(const std::byte* block, std::int64_t head, bool first, std::byte* raw) const {
  const FlushDenormals mode;
  thread_local std::vector<float> scratch;
  scratch.resize(static_cast<std::size_t>(kernels::scale_scratch_bytes(codes_)) / sizeof(float));
  kernels::active()
      .codes->of(codes_.raw.format)
      .decode_head(codes_, block + codes_.head_offset(head),
                   first && codes_.sink_length ? block + codes_.sink_offset(head) : nullptr,
                   raw + head * codes_.raw.head_bytes(), scratch.data());
}

}  // namespace mneme::quant
