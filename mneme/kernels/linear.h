#pragma once

#include "mneme/kernels/coded_panel.h"
#include "mneme/kernels/product.h"

namespace mneme::kernels {

/// y = x w^T + bias: the product, a partly used last panel, and one addition of the bias to the finished sum.
template <class L, class Format>
void linear(const LinearArgs& args) noexcept {
  const std::int64_t n_whole = args.n_columns / kPanel, rest = args.n_columns % kPanel;
  ProductArgs product{.x = args.x,
                      .x_stride = args.x_stride,
                      .panels = args.panels,
                      .y = args.y,
                      .y_stride = args.y_stride,
                      .n_rows = args.n_rows,
                      .inner = args.inner,
                      .n_panels = n_whole};
  Format format;
  format.product(product);

  if (rest) {
    constexpr std::int64_t kRows = 64;
    alignas(64) float last[kRows * kPanel];
    product.panels = static_cast<const std::byte*>(args.panels) + n_whole * panel_bytes(Format::kFormat, args.inner);
    product.y = last;
    product.y_stride = kPanel;
    product.n_panels = 1;
    for (std::int64_t m = 0; m < args.n_rows; m += kRows) {
      product.x = static_cast<const std::byte*>(args.x) + m * args.x_stride;
      product.n_rows = args.n_rows - m < kRows ? args.n_rows - m : kRows;
      format.product(product);
      for (std::int64_t r = 0; r < product.n_rows; ++r) {
        L::load(last + r * kPanel)
            .store_first(args.y + (m + r) * args.y_stride + n_whole * kPanel, static_cast<int>(rest));
      }
    }
  }

  if (args.bias) {
    for (std::int64_t m = 0; m < args.n_rows; ++m) {
      float* y = args.y + m * args.y_stride;
      for (std::int64_t n = 0; n < args.n_columns; n += kPanel) {
        const auto n_lanes = static_cast<int>(args.n_columns - n < kPanel ? args.n_columns - n : kPanel);
        (L::load_first(y + n, n_lanes) + L::load_first(args.bias + n, n_lanes)).store_first(y + n, n_lanes);
      }
    }
  }
}

}  // namespace mneme::kernels
