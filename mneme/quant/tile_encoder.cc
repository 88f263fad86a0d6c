#include "mneme/quant/tile_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "mneme/quant/code_planes.h"

namespace mneme::quant {
namespace {

using kernels::Grouping;
using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;

/// Up to sixteen groups of n elements each: element i of group j is tile[first + j * next_group + i * next_element].
struct Batch {
  std::int64_t first, next_group, next_element, n, n_groups;
};

/// Calls f(batch, token, channel) for all groups of a tile; the latter are those of the batch's first element.
template <class F>
void each_batch(const TileCodes& codes, std::int64_t dim, std::int64_t n_raw, F&& f) {
  const std::int64_t group = codes.group;
  const auto batches = [&](std::int64_t n, auto&& g) {
    for (std::int64_t i = 0; i < n; i += 16) g(i, std::min<std::int64_t>(16, n - i));
  };
  switch (codes.stored_grouping(dim)) {
    case Grouping::kRowMajor:
      batches(kBlockTokens * dim / group, [&](std::int64_t first, std::int64_t n) {
        f(Batch{first * group, group, 1, group, n});
      });
      break;
    case Grouping::kTokens:
      for (std::int64_t token = 0; token < kBlockTokens; token += group) {
        const std::int64_t skipped = std::clamp<std::int64_t>(n_raw - token, 0, group);
        batches(dim, [&](std::int64_t channel, std::int64_t n) {
          f(Batch{(token + skipped) * dim + channel, 1, dim, group - skipped, n});
        });
      }
      break;
    case Grouping::kStridedTokens:
      for (std::int64_t token = 0; token < kBlockTokens / group; ++token) {
        batches(dim, [&](std::int64_t channel, std::int64_t n) {
          f(Batch{token * dim + channel, 1, kBlockTokens / group * dim, group, n});
        });
      }
      break;
    case Grouping::kChannels:
      for (std::int64_t channel = 0; channel < dim; channel += group) {
        batches(kBlockTokens, [&](std::int64_t token, std::int64_t n) {
          f(Batch{token * dim + channel, dim, 1, std::min(group, dim - channel), n});
        });
      }
      break;
    case Grouping::kTile: f(Batch{0, 0, 1, kBlockTokens * dim, 1}); break;
  }
}

}  // namespace

void encode_tile(Method, const TileCodes& codes, TileSide side, std::int64_t dim, std::int64_t n_raw, const float* tile,
                 std::byte* out) {
  thread_local std::vector<std::uint8_t> bytes;
  bytes.assign(static_cast<std::size_t>(kBlockTokens * dim), 0);
  std::memset(out, 0, static_cast<std::size_t>(codes.tile_bytes(side, dim)));
  auto* scales = reinterpret_cast<std::uint16_t*>(out + codes.code_bytes(side, dim));
  each_batch(codes, dim, n_raw, [&](const Batch& batch) {
    for (std::int64_t j = 0; j < batch.n_groups; ++j) {
      const std::int64_t first = batch.first + j * batch.next_group;
      float largest = 0;
      for (std::int64_t i = 0; i < batch.n; ++i)
        largest = std::max(largest, std::abs(tile[first + i * batch.next_element]));
      const std::uint16_t scale = to_float16(largest / 127);
      const float width = from_float16(scale);
      for (std::int64_t i = 0; i < batch.n; ++i) {
        const std::int64_t at = first + i * batch.next_element;
        const float steps = width > 0 ? std::nearbyint(tile[at] / width) : 0;
        bytes[static_cast<std::size_t>(at)] = static_cast<std::uint8_t>(128 + std::clamp(steps, -127.0f, 127.0f));
      }
      scales[codes.scale_slot(side, dim, first / dim, first % dim)] = scale;
    }
  });
  pack_codes(codes, side, dim, bytes.data(), out);
}

}  // namespace mneme::quant
