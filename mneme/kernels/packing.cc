#include "mneme/kernels/kernels.h"

namespace mneme::kernels {
namespace {

/// panel[k][n] = convert(rows[n][k])
template <class Element, class Convert>
void pack(const float* rows, std::int64_t n_rows, std::int64_t inner, Element* panel, Convert convert) {
  for (std::int64_t k = 0; k < inner; ++k) {
    for (std::int64_t n = 0; n < kPanel; ++n)
      panel[k * kPanel + n] = n < n_rows ? convert(rows[n * inner + k]) : Element{};
  }
}

/// panel[k / 2][n][k % 2] = bfloat16(rows[n][k]), a pair at a time
void pack_pairs(const float* rows, std::int64_t n_rows, std::int64_t inner, std::uint16_t* panel) {
  const std::int64_t padded = padded_inner(DType::kBFloat16, inner);
  for (std::int64_t k = 0; k < padded; k += 2) {
    for (std::int64_t n = 0; n < kPanel; ++n) {
      const float* pair = rows + n * inner + k;
      std::uint16_t* out = panel + k * kPanel + 2 * n;
      out[0] = n < n_rows && k < inner ? to_bfloat16(pair[0]) : std::uint16_t{0};
      out[1] = n < n_rows && k + 1 < inner ? to_bfloat16(pair[1]) : std::uint16_t{0};
    }
  }
}

}  // namespace

void pack_panel(DType format, const float* rows, std::int64_t n_rows, std::int64_t inner, void* panel) noexcept {
  switch (format) {
    case DType::kFloat32: return pack(rows, n_rows, inner, static_cast<float*>(panel), [](float x) { return x; });
    case DType::kFloat16: return pack(rows, n_rows, inner, static_cast<std::uint16_t*>(panel), to_float16);
    case DType::kBFloat16: return pack_pairs(rows, n_rows, inner, static_cast<std::uint16_t*>(panel));
  }
}

}  // namespace mneme::kernels
