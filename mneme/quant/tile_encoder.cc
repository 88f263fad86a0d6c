#include "mneme/quant/tile_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "mneme/kernels/code_kernels.h"
#include "mneme/quant/code_planes.h"
#include "mneme/quant/float8.h"

namespace mneme::quant {
namespace {

using kernels::CodeKernels;
using kernels::FitArgs;
using kernels::Grouping;
using kernels::HalfQuadraticArgs;
using kernels::kBlockTokens;
using kernels::TileCodes;
using kernels::TileSide;

constexpr std::int64_t kLanes = 16;

/// Up to sixteen groups of n elements each: element i of group j is tile[first + j * next_group + i * next_element].
struct Batch {
  std::int64_t first = 0, next_group = 0, next_element = 0, n = 0, n_groups = 0;
};

/// Calls f for the batches of all groups of a tile that have elements.
template <class F>
void each_batch(const TileCodes& codes, std::int64_t dim, std::int64_t n_raw, F&& f) {
  const std::int64_t group = codes.group;
  const auto by_lanes = [&](std::int64_t n, const Batch& batch) {
    for (std::int64_t j = 0; j < n; j += kLanes) {
      f(Batch{batch.first + j * batch.next_group, batch.next_group, batch.next_element, batch.n,
              std::min(kLanes, n - j)});
    }
  };
  switch (codes.stored_grouping(dim)) {
    case Grouping::kRowMajor:
      return by_lanes(kBlockTokens * dim / group, {.first = 0, .next_group = group, .next_element = 1, .n = group});
    case Grouping::kTokens:
      for (std::int64_t token = 0; token < kBlockTokens; token += group) {
        const std::int64_t raw = std::clamp<std::int64_t>(n_raw - token, 0, group);
        if (raw < group) {
          by_lanes(dim, {.first = (token + raw) * dim, .next_group = 1, .next_element = dim, .n = group - raw});
        }
      }
      return;
    case Grouping::kStridedTokens:
      for (std::int64_t token = 0; token < kBlockTokens / group; ++token) {
        by_lanes(dim, {.first = token * dim, .next_group = 1, .next_element = kBlockTokens / group * dim, .n = group});
      }
      return;
    case Grouping::kChannels:
      for (std::int64_t channel = 0; channel < dim; channel += group) {
        by_lanes(kBlockTokens,
                 {.first = channel, .next_group = dim, .next_element = 1, .n = std::min(group, dim - channel)});
      }
      return;
    case Grouping::kTile: return;  // encoded as a whole
  }
}

/// Where a tile's parts go. Scratch that a thread keeps.
class TileEncoder {
 public:
  void encode(Method method, const TileCodes& codes, TileSide side, std::int64_t dim, std::int64_t n_raw,
              const float* tile, std::byte* out) {
    codes_ = &codes;
    side_ = side;
    dim_ = dim;
    std::memset(out, 0, static_cast<std::size_t>(codes.tile_bytes(side, dim)));
    scales_ = reinterpret_cast<std::uint16_t*>(out + codes.code_bytes(side, dim));
    offsets_ = codes.has_offset ? scales_ + codes.scale_bytes(side, dim) / 2 : nullptr;
    bytes_.assign(static_cast<std::size_t>(kBlockTokens * dim), 0);
    if (method == Method::kFloat8) {
      encode_float8(tile);
    } else {
      gather(tile, n_raw);
      if (method == Method::kHalfQuadratic) {
        fit_half_quadratic();
      } else {
        const auto fit = method == Method::kSymmetric      ? kernels_.fit_symmetric
                         : method == Method::kLeastSquares ? kernels_.fit_least_squares
                                                           : kernels_.fit_min_max;
        for (std::size_t b = 0; b < batches_.size(); ++b) {
          fit(args(b));
          scatter(b);
        }
      }
    }
    pack_codes(codes, side, dim, bytes_.data(), out);
  }

 private:
  /// Transposes groups into lanes. Lanes without a group hold zeros.
  void gather(const float* tile, std::int64_t n_raw) {
    batches_.clear();
    starts_.clear();
    std::int64_t n = 0, longest = 0;
    each_batch(*codes_, dim_, n_raw, [&](const Batch& batch) {
      batches_.push_back(batch);
      starts_.push_back(n);
      n += batch.n * kLanes;
      longest = std::max(longest, batch.n);
    });
    lanes_.assign(static_cast<std::size_t>(n), 0.0f);
    fitted_.resize(static_cast<std::size_t>(longest * kLanes));
    for (std::size_t b = 0; b < batches_.size(); ++b) {
      const Batch& batch = batches_[b];
      float* lanes = lanes_.data() + starts_[b];
      for (std::int64_t i = 0; i < batch.n; ++i) {
        const float* from = tile + batch.first + i * batch.next_element;
        for (std::int64_t j = 0; j < batch.n_groups; ++j) lanes[i * kLanes + j] = from[j * batch.next_group];
      }
    }
  }

  FitArgs args(std::size_t b) {
    return {.x = lanes_.data() + starts_[b],
            .n = batches_[b].n,
            .bits = codes_->bits,
            .codes = fitted_.data(),
            .scales = lane_scales_,
            .offsets = lane_offsets_};
  }

  /// What a fit of batch b left in args(b) goes to its places.
  void scatter(std::size_t b) {
    const Batch& batch = batches_[b];
    for (std::int64_t i = 0; i < batch.n; ++i) {
      std::uint8_t* to = bytes_.data() + batch.first + i * batch.next_element;
      for (std::int64_t j = 0; j < batch.n_groups; ++j)
        to[j * batch.next_group] = static_cast<std::uint8_t>(fitted_[static_cast<std::size_t>(i * kLanes + j)]);
    }
    for (std::int64_t j = 0; j < batch.n_groups; ++j) {
      const std::int64_t element = batch.first + j * batch.next_group;
      const std::int64_t slot = codes_->scale_slot(side_, dim_, element / dim_, element % dim_);
      scales_[slot] = lane_scales_[j];
      if (offsets_) offsets_[slot] = lane_offsets_[j];
    }
  }

  /// Parity: as the package does by default, at most 20 steps for the whole tile, until its mean error stops falling;
  /// the step that shows it still counts.
  void fit_half_quadratic() {
    states_.resize(batches_.size() * 2 * kLanes);
    const auto state = [&](std::size_t b) -> HalfQuadraticArgs {
      float* at = states_.data() + b * 2 * kLanes;
      return {.fit = args(b), .inverse_scales = at, .zeros = at + kLanes};
    };
    for (std::size_t b = 0; b < batches_.size(); ++b) kernels_.start_half_quadratic(state(b));
    double best = std::numeric_limits<double>::infinity();
    for (int step = 0; step < 20; ++step) {
      double error = 0;
      for (std::size_t b = 0; b < batches_.size(); ++b)
        error += static_cast<double>(kernels_.step_half_quadratic(state(b)));
      if (!(error < best)) break;
      best = error;
    }
    for (std::size_t b = 0; b < batches_.size(); ++b) {
      kernels_.finish_half_quadratic(state(b));
      scatter(b);
    }
  }

  /// The scale is a normal float16; e4m3 has range enough for what is smaller. Codes are of the scale before rounding.
  void encode_float8(const float* tile) {
    float largest = 0;
    for (std::int64_t i = 0; i < kBlockTokens * dim_; ++i) largest = std::max(largest, std::abs(tile[i]));
    const float scale = std::max(largest / 448.0f, 0x1p-14f);
    for (std::int64_t i = 0; i < kBlockTokens * dim_; ++i)
      bytes_[static_cast<std::size_t>(i)] = to_float8(tile[i] / scale);
    scales_[0] = to_float16(scale);
  }

  const CodeKernels& kernels_ = *kernels::active().codes;
  const TileCodes* codes_ = nullptr;
  TileSide side_ = TileSide::kKeys;
  std::int64_t dim_ = 0;
  std::uint16_t *scales_ = nullptr, *offsets_ = nullptr;  // of the tile being written
  std::vector<std::uint8_t> bytes_;                       // [64, dim] codes
  std::vector<Batch> batches_;
  std::vector<std::int64_t> starts_;  // of a batch in lanes_
  std::vector<float> lanes_, fitted_, states_;
  alignas(64) std::uint16_t lane_scales_[kLanes], lane_offsets_[kLanes];
};

}  // namespace

void encode_tile(Method method, const TileCodes& codes, TileSide side, std::int64_t dim, std::int64_t n_raw,
                 const float* tile, std::byte* out) {
  thread_local TileEncoder encoder;
  encoder.encode(method, codes, side, dim, n_raw, tile, out);
}

}  // namespace mneme::quant
