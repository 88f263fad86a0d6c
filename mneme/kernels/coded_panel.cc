#include "mneme/kernels/coded_panel.h"

#include <cstring>

namespace mneme::kernels {
namespace {

/// Puts one output's block into column n of the panel's block, which is zero there.
template <WeightFormat kFormat>
void place(const GgmlBlock& block, std::int64_t n, std::byte* out) {
  using Layout = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Layout::kCoded;
  std::memcpy(out + Layout::kScales + 2 * n, &block.scale, 2);
  if constexpr (kCoded.has_min) std::memcpy(out + Layout::kMins + 2 * n, &block.min, 2);
  for (int g = 0; g < kCoded.block_groups; ++g) {
    if constexpr (kCoded.has_steps) {
      constexpr std::uint8_t kBias = kCoded.signed_steps ? 128 : 0;
      out[Layout::kScaleSteps + g * 16 + n] = static_cast<std::byte>(block.scale_steps[g] + kBias);
      if constexpr (kCoded.has_min) out[Layout::kMinSteps + g * 16 + n] = static_cast<std::byte>(block.min_steps[g]);
    }
    std::byte* const group = out + Layout::kGroups + g * Layout::kGroupBytes;
    for (int i = 0; i < kCoded.group; ++i) {
      const unsigned code = block.codes[g * kCoded.group + i];
      const int quad = i / 4;
      const std::int64_t byte = n * 4 + i % 4;
      if constexpr (kCoded.bits == 8) {
        group[quad * 64 + byte] = static_cast<std::byte>(code);
      } else {
        group[quad / 2 * 64 + byte] |= static_cast<std::byte>((code & 15u) << (quad % 2 * 4));
        if constexpr (kCoded.bits == 5) group[Layout::kHighBits + byte] |= static_cast<std::byte>(code >> 4 << quad);
        if constexpr (kCoded.bits == 6)
          group[Layout::kHighBits + byte] |= static_cast<std::byte>(code >> 4 << 2 * quad);
      }
    }
  }
}

/// The code of inner element i of a group for output n.
template <WeightFormat kFormat>
int code_at(const std::byte* group, std::int64_t n, int i) {
  using Layout = CodedBlock<kFormat>;
  const int quad = i / 4;
  const std::int64_t byte = n * 4 + i % 4;
  if constexpr (Layout::kCoded.bits == 8) {
    return static_cast<std::int8_t>(group[quad * 64 + byte]);
  } else {
    const int low = std::to_integer<int>(group[quad / 2 * 64 + byte]) >> quad % 2 * 4 & 15;
    if constexpr (Layout::kCoded.bits == 4) return low;
    constexpr int kWidth = Layout::kCoded.bits - 4;
    const int high = std::to_integer<int>(group[Layout::kHighBits + byte]) >> kWidth * quad & ((1 << kWidth) - 1);
    return low | high << 4;
  }
}

/// Output n of one block of a panel: the reverse of `place`.
template <WeightFormat kFormat>
void take(const std::byte* from, std::int64_t n, GgmlBlock& block) {
  using Layout = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Layout::kCoded;
  std::memcpy(&block.scale, from + Layout::kScales + 2 * n, 2);
  block.min = 0;
  if constexpr (kCoded.has_min) std::memcpy(&block.min, from + Layout::kMins + 2 * n, 2);
  for (int g = 0; g < kCoded.block_groups; ++g) {
    if constexpr (kCoded.has_steps) {
      constexpr int kBias = kCoded.signed_steps ? 128 : 0;
      const auto step_at = [&](int steps) { return std::to_integer<int>(from[steps + g * 16 + n]); };
      block.scale_steps[g] = static_cast<std::uint8_t>(step_at(Layout::kScaleSteps) - kBias);
      if constexpr (kCoded.has_min) block.min_steps[g] = static_cast<std::uint8_t>(step_at(Layout::kMinSteps));
    }
    const std::byte* const group = from + Layout::kGroups + g * Layout::kGroupBytes;
    for (int i = 0; i < kCoded.group; ++i)
      block.codes[g * kCoded.group + i] = static_cast<std::uint8_t>(code_at<kFormat>(group, n, i));
  }
}

}  // namespace

std::int64_t panel_bytes(WeightFormat format, std::int64_t inner) {
  if (!is_coded(format)) return panel_bytes(static_cast<DType>(format), inner);
  return with_format(format, [inner]<WeightFormat kFormat>() -> std::int64_t {
    using Layout = CodedBlock<kFormat>;
    return inner / Layout::kCoded.block_elements() * Layout::kBytes;
  });
}

void pack_coded_panel(WeightFormat format, const std::byte* rows, std::int64_t row_bytes, std::int64_t n_rows,
                      std::int64_t inner, std::byte* panel) noexcept {
  with_format(format, [&]<WeightFormat kFormat>() {
    using Layout = CodedBlock<kFormat>;
    constexpr CodedFormat kCoded = Layout::kCoded;
    const std::int64_t n_blocks = inner / kCoded.block_elements();
    std::memset(panel, 0, static_cast<std::size_t>(n_blocks * Layout::kBytes));
    GgmlBlock block;
    for (std::int64_t b = 0; b < n_blocks; ++b) {
      for (std::int64_t n = 0; n < n_rows; ++n) {
        unpack(kFormat, rows + n * row_bytes + b * kCoded.block_bytes, block);
        place<kFormat>(block, n, panel + b * Layout::kBytes);
      }
    }
  });
}

void decode_coded_panels(WeightFormat format, const std::byte* panels, std::int64_t n_rows, std::int64_t inner,
                         float* rows) noexcept {
  with_format(format, [&]<WeightFormat kFormat>() {
    using Layout = CodedBlock<kFormat>;
    constexpr int kElements = Layout::kCoded.block_elements();
    GgmlBlock block;
    for (std::int64_t r = 0; r < n_rows; ++r) {
      const std::byte* const panel = panels + r / kPanel * panel_bytes(kFormat, inner);
      for (std::int64_t b = 0; b < inner / kElements; ++b) {
        take<kFormat>(panel + b * Layout::kBytes, r % kPanel, block);
        decode(kFormat, block, rows + r * inner + b * kElements);
      }
    }
  });
}

}  // namespace mneme::kernels
