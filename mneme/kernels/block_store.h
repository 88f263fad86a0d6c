#pragma once

#include "mneme/kernels/kernels.h"

/// Tokens into and out of the tiles of one head (layout: kernels.h).
///
/// A token is one column of its key panel, written element by element, and one row of each value panel, which is a
/// whole vector. In bfloat16 two neighbours share a 32-bit word: of the inner dimension in keys, of tokens in values.
namespace mneme::kernels {

/// How sixteen elements of a format are read and written.
template <class L, DType format>
struct Elements;

template <class L>
struct Elements<L, DType::kFloat32> {
  using Type = float;
  static L load(const Type* p) { return L::load(p); }
  static void store(L x, Type* p) { x.store(p); }
};
template <class L>
struct Elements<L, DType::kFloat16> {
  using Type = std::uint16_t;
  static L load(const Type* p) { return L::load_float16(p); }
  static void store(L x, Type* p) { x.store_float16(p); }
};
template <class L>
struct Elements<L, DType::kBFloat16> {
  using Type = std::uint16_t;
  static L load(const Type* p) { return L::load_bfloat16(p); }
  static void store(L x, Type* p) { x.store_bfloat16(p); }
};

/// The tiles of one head, for one format over one Lanes type.
template <class L, DType format>
class HeadTiles {
  using Element = typename Elements<L, format>::Type;
  /// Elements along the inner dimension that lie side by side.
  static constexpr std::int64_t kSide = format == DType::kBFloat16 ? 2 : 1;

 public:
  HeadTiles(const BlockLayout& layout, std::byte* tile)
      : key_dim_(layout.key_dim),
        value_dim_(layout.value_dim),
        key_panel_(padded_inner(format, layout.key_dim) * kPanel),
        keys_(reinterpret_cast<Element*>(tile)),
        values_(reinterpret_cast<Element*>(tile + layout.key_tile_bytes())) {}

  void store_key(std::int64_t slot, const float* key) const {
    Element* column = keys_ + slot / kPanel * key_panel_ + slot % kPanel * kSide;
    for (std::int64_t k = 0; k < key_dim_; k += 16) {
      alignas(64) Element part[16];
      const std::int64_t n = lanes(key_dim_ - k);
      Elements<L, format>::store(L::load_first(key + k, static_cast<int>(n)), part);
      // The padding of an odd pair is written as the zero that it holds.
      for (std::int64_t i = 0; i < round_up(n, kSide); ++i) column[index_of(k + i)] = part[i];
    }
  }
  void load_key(std::int64_t slot, float* key) const {
    const Element* column = keys_ + slot / kPanel * key_panel_ + slot % kPanel * kSide;
    for (std::int64_t k = 0; k < key_dim_; k += 16) {
      alignas(64) Element part[16] = {};
      const std::int64_t n = lanes(key_dim_ - k);
      for (std::int64_t i = 0; i < n; ++i) part[i] = column[index_of(k + i)];
      Elements<L, format>::load(part).store_first(key + k, static_cast<int>(n));
    }
  }

  void store_value(std::int64_t slot, const float* value) const {
    for (std::int64_t n = 0; n < value_dim_; n += kPanel) {
      Element* row = values_ + n * kBlockTokens + slot / kSide * kSide * kPanel;
      const L x = L::load_first(value + n, static_cast<int>(lanes(value_dim_ - n)));
      if constexpr (format == DType::kBFloat16) {
        L::store_pairs(slot % 2 ? L::load_even(row) : x, slot % 2 ? x : L::load_odd(row), row);
      } else {
        Elements<L, format>::store(x, row);
      }
    }
  }
  void load_value(std::int64_t slot, float* value) const {
    for (std::int64_t n = 0; n < value_dim_; n += kPanel) {
      const Element* row = values_ + n * kBlockTokens + slot / kSide * kSide * kPanel;
      const auto n_lanes = static_cast<int>(lanes(value_dim_ - n));
      if constexpr (format == DType::kBFloat16) {
        (slot % 2 ? L::load_odd(row) : L::load_even(row)).store_first(value + n, n_lanes);
      } else {
        Elements<L, format>::load(row).store_first(value + n, n_lanes);
      }
    }
  }

 private:
  static std::int64_t lanes(std::int64_t rest) { return rest < 16 ? rest : 16; }
  /// Where inner element k of a column lies.
  static std::int64_t index_of(std::int64_t k) { return k / kSide * kSide * kPanel + k % kSide; }

  std::int64_t key_dim_, value_dim_, key_panel_;
  Element *keys_, *values_;
};

template <class L, DType format>
void store_tokens(const BlockLayout& layout, std::byte* tile, std::int64_t first_slot, std::int64_t n,
                  const float* keys, std::int64_t key_stride, const float* values, std::int64_t value_stride) noexcept {
  const HeadTiles<L, format> tiles(layout, tile);
  for (std::int64_t t = 0; t < n; ++t) {
    tiles.store_key(first_slot + t, keys + t * key_stride);
    tiles.store_value(first_slot + t, values + t * value_stride);
  }
}

template <class L, DType format>
void load_tokens(const BlockLayout& layout, const std::byte* tile, std::int64_t first_slot, std::int64_t n, float* keys,
                 std::int64_t key_stride, float* values, std::int64_t value_stride) noexcept {
  const HeadTiles<L, format> tiles(layout, const_cast<std::byte*>(tile));  // read only
  for (std::int64_t t = 0; t < n; ++t) {
    tiles.load_key(first_slot + t, keys + t * key_stride);
    tiles.load_value(first_slot + t, values + t * value_stride);
  }
}

}  // namespace mneme::kernels
