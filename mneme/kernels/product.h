#pragma once

#include <cstdint>

#include "mneme/kernels/kernels.h"

/// The one product that linear layers and attention share, written once over a Lanes type.
///
/// A Format (Float32Format<L>, Float16Format<L>, Float8Format<L>, BFloat16Format<L>, AmxFormat<L, Tiles>,
/// CodedProduct<L, ..>, AmxCodedProduct<L, Tiles, ..>) says how the right-hand side is stored and in which order an
/// output is summed. All have
///
///   static constexpr DType kFormat;                           // CodedProduct<L, ..>: a WeightFormat
///   static std::int64_t prepared_bytes(std::int64_t inner);   // 0: product reads float32 rows as they are
///   static void prepare(const float* x, std::int64_t x_stride, std::int64_t n_rows, std::int64_t inner, void* out);
///   void product(const ProductArgs& args);                    // static where nothing is kept between products
///
/// `prepare` writes row r at out + r * prepared_bytes(inner), 64-byte aligned if out is.
/// Everything here is a template over L, so that code compiled for one instruction set is never linked into another.
namespace mneme::kernels {

/// y[m][n] = sum_k x[m][k] w[n][k], for whole panels: y has room for 16 columns of each. Where `adds` is set (numbers,
/// not integers), sums go on from what y holds instead of from zero.
struct ProductArgs {
  const void* x;
  std::int64_t x_stride;  ///< bytes
  const void* panels;
  float* y;
  std::int64_t y_stride;  ///< floats
  std::int64_t n_rows, inner, n_panels;
  bool adds = false;
};

/// Bytes from one prepared row to the next: rows a power of two apart would crowd into a few sets of the cache.
[[gnu::always_inline]] constexpr std::int64_t spread_row_bytes(std::int64_t bytes) {
  return bytes % 1024 ? bytes : bytes + 64;
}

}  // namespace mneme::kernels
