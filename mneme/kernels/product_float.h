#pragma once

#include "mneme/kernels/product.h"

namespace mneme::kernels {

/// float32 and float16 panels: one chain of fused multiply-adds for each output.
template <class L, class Element, DType format>
struct FloatFormat {
  static constexpr DType kFormat = format;

  static std::int64_t prepared_bytes(std::int64_t) noexcept { return 0; }
  static void prepare(const float*, std::int64_t, std::int64_t, std::int64_t, void*) noexcept {}

  static void product(const ProductArgs& args) noexcept {
    const auto* panels = static_cast<const Element*>(args.panels);
    for (std::int64_t m = 0; m < args.n_rows; ++m) {
      const auto* x = reinterpret_cast<const float*>(static_cast<const char*>(args.x) + m * args.x_stride);
      for (std::int64_t p = 0; p < args.n_panels; ++p) {
        L sum = L::zero();
        for (std::int64_t k = 0; k < args.inner; ++k) {
          sum = L::fma(L::set1(x[k]), load(panels + (p * args.inner + k) * kPanel), sum);
        }
        sum.store(args.y + m * args.y_stride + p * kPanel);
      }
    }
  }

 private:
  static L load(const float* w) { return L::load(w); }
  static L load(const std::uint16_t* w) { return L::load_float16(w); }
};

template <class L>
using Float32Format = FloatFormat<L, float, DType::kFloat32>;
template <class L>
using Float16Format = FloatFormat<L, std::uint16_t, DType::kFloat16>;

}  // namespace mneme::kernels
