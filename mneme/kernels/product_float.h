#pragma once

#include "mneme/kernels/tiles.h"

namespace mneme::kernels {

/// float32, float16 and e4m3 panels: one chain of fused multiply-adds for each output. Rows are float32 as they are.
template <class L, class Stored, DType format>
struct FloatFormat {
  static constexpr DType kFormat = format;

  static std::int64_t prepared_bytes(std::int64_t) noexcept { return 0; }
  static void prepare(const float*, std::int64_t, std::int64_t, std::int64_t, void*) noexcept {}
  static void product(const ProductArgs& args) noexcept { TiledProduct<L, FloatFormat>::product(args); }

  using Element = Stored;
  static constexpr bool kWidens = sizeof(Stored) < sizeof(float);
  static constexpr int kDirectRows = L::kTileRows;
  template <int R>
  static constexpr int kDirectPanels = panels_beside(L::kDirectSums / R);

  static void widen(const Element* w, std::int64_t n, float* out) {
    for (std::int64_t k = 0; k < n; ++k) load(w + k * kPanel).store(out + k * kPanel);
  }

  template <class Weight, int R, int P>
  [[gnu::always_inline]] static void extend(Tile<L, R, P>& sums, const float* x, std::int64_t x_stride, const Weight* w,
                                            std::int64_t w_stride, std::int64_t n) {
    sums.template chain<kPanel>(x, x_stride, w, w_stride, n, [](const Weight* lanes) { return load(lanes); });
  }

 private:
  [[gnu::always_inline]] static L load(const float* w) { return L::load(w); }
  [[gnu::always_inline]] static L load(const std::uint16_t* w) { return L::load_float16(w); }
  [[gnu::always_inline]] static L load(const std::uint8_t* w) { return L::load_float8(w); }
};

template <class L>
using Float32Format = FloatFormat<L, float, DType::kFloat32>;
template <class L>
using Float16Format = FloatFormat<L, std::uint16_t, DType::kFloat16>;
/// The e4m3 numbers of an encoded tile (codes.h), divided by 256. Panels are as long as those of float32.
template <class L>
using Float8Format = FloatFormat<L, std::uint8_t, DType::kFloat32>;

}  // namespace mneme::kernels
