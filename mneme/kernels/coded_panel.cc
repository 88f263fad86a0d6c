#include "mneme/kernels/coded_panel.h"

#include <cstring>
#include <utility>

namespace mneme::kernels {
namespace {

/// Calls f with the compile-time constant that a coded format is.
template <class F>
auto with_format(WeightFormat format, F f) {
  switch (format) {
    case WeightFormat::kQ4_0: return f.template operator()<WeightFormat::kQ4_0>();
    case WeightFormat::kQ4_1: return f.template operator()<WeightFormat::kQ4_1>();
    case WeightFormat::kQ5_0: return f.template operator()<WeightFormat::kQ5_0>();
    case WeightFormat::kQ5_1: return f.template operator()<WeightFormat::kQ5_1>();
    case WeightFormat::kQ4_K: return f.template operator()<WeightFormat::kQ4_K>();
    case WeightFormat::kQ5_K: return f.template operator()<WeightFormat::kQ5_K>();
    case WeightFormat::kQ6_K: return f.template operator()<WeightFormat::kQ6_K>();
    default: return f.template operator()<WeightFormat::kQ8_0>();
  }
}

/// Puts one output's block into column n of the panel's block, which is zero there.
template <WeightFormat kFormat>
void place(const GgmlBlock& block, std::int64_t n, std::byte* out) {
  using Layout = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Layout::kCoded;
  std::memcpy(out + Layout::kScales + 2 * n, &block.scale, 2);
  if constexpr (kCoded.has_min) std::memcpy(out + Layout::kMins + 2 * n, &block.min, 2);
  for (int g = 0; g < kCoded.block_groups; ++g) {
    if constexpr (kCoded.has_steps) {
      constexpr std::uint8_t kBias = kFormat == WeightFormat::kQ6_K ? 128 : 0;
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

/// Output n of one block of a panel.
template <WeightFormat kFormat>
void decode_block(const std::byte* block, std::int64_t n, float* out) {
  using Layout = CodedBlock<kFormat>;
  constexpr CodedFormat kCoded = Layout::kCoded;
  const auto float16_at = [&](int offset) {
    std::uint16_t bits;
    std::memcpy(&bits, block + offset + 2 * n, sizeof bits);
    return from_float16(bits);
  };
  const auto step_at = [&](int offset, int g) { return std::to_integer<int>(block[offset + g * 16 + n]); };
  for (int g = 0; g < kCoded.block_groups; ++g) {
    float scale = float16_at(Layout::kScales), min = 0;
    if constexpr (kCoded.has_min) min = float16_at(Layout::kMins);
    if constexpr (kCoded.has_steps) {
      scale *= static_cast<float>(step_at(Layout::kScaleSteps, g) - (kFormat == WeightFormat::kQ6_K ? 128 : 0));
      if constexpr (kCoded.has_min) min *= static_cast<float>(step_at(Layout::kMinSteps, g));
    }
    const std::byte* const group = block + Layout::kGroups + g * Layout::kGroupBytes;
    for (int i = 0; i < kCoded.group; ++i) {
      out[g * kCoded.group + i] = scale * static_cast<float>(code_at<kFormat>(group, n, i) - kCoded.zero) + min;
    }
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
    for (std::int64_t r = 0; r < n_rows; ++r) {
      const std::byte* const panel = panels + r / kPanel * panel_bytes(kFormat, inner);
      for (std::int64_t b = 0; b < inner / kElements; ++b) {
        decode_block<kFormat>(panel + b * Layout::kBytes, r % kPanel, rows + r * inner + b * kElements);
      }
    }
  });
}

}  // namespace mneme::kernels
