#pragma once

#include "mneme/kernels/product.h"

namespace mneme::kernels {

/// bfloat16 panels by fused multiply-adds, in the order of AMX.
///
/// A prepared row holds, for each 32 inner elements, the 16 even and then the 16 odd ones, rounded to bfloat16 and
/// widened to float32 again.
template <class L>
struct BFloat16Format {
  static constexpr DType kFormat = DType::kBFloat16;

  static std::int64_t prepared_bytes(std::int64_t inner) noexcept {
    return padded_inner(kFormat, inner) * static_cast<std::int64_t>(sizeof(float));
  }

  static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner,
                      void* out) noexcept {
    for (std::int64_t m = 0; m < n_rows; ++m) {
      auto* row = reinterpret_cast<float*>(static_cast<char*>(out) + m * prepared_bytes(inner));
      for (std::int64_t k = 0; k < inner; k += 32) {
        const auto rest = static_cast<int>(inner - k < 32 ? inner - k : 32);
        alignas(64) std::uint16_t pairs[32];
        L::load_first(x + m * x_stride + k, rest).store_bfloat16(pairs);
        (rest > 16 ? L::load_first(x + m * x_stride + k + 16, rest - 16) : L::zero()).store_bfloat16(pairs + 16);
        L::load_even(pairs).store(row + k);
        L::load_odd(pairs).store(row + k + 16);
      }
    }
  }

  static void product(const ProductArgs& args) noexcept {
    const std::int64_t padded = padded_inner(kFormat, args.inner);
    const auto* panels = static_cast<const std::uint16_t*>(args.panels);
    for (std::int64_t m = 0; m < args.n_rows; ++m) {
      const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(args.x) + m * args.x_stride);
      for (std::int64_t p = 0; p < args.n_panels; ++p) {
        L sum = L::zero();
        for (std::int64_t k = 0; k < padded; k += 32) {
          L even = L::zero(), odd = L::zero();
          for (std::int64_t i = 0; i < 16; ++i) {
            const std::uint16_t* w = panels + (p * padded + k + 2 * i) * kPanel;
            even = L::fma(L::set1(x[k + i]), L::load_even(w), even);
            odd = L::fma(L::set1(x[k + 16 + i]), L::load_odd(w), odd);
          }
          sum = sum + (even + odd);
        }
        sum.store(args.y + m * args.y_stride + p * kPanel);
      }
    }
  }
};

}  // namespace mneme::kernels
