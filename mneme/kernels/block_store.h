#pragma once

#include "mneme/kernels/kernels.h"

/// Tokens into and out of the tiles of one head (layout: kernels.h).
///
/// A token is one column of its key panel, written word by word, and one row of each value panel, which is a whole
/// vector. In bfloat16 two neighbours share a word: of the inner dimension in keys, of tokens in values.
namespace mneme::kernels {

/// How sixteen elements of a format are read and written.
template <class L, DType format>
struct Elements;

template <class L>
struct Elements<L, DType::kFloat32> {
  using Type = float;
  using Word = float;
  static L load(const Type* p) { return L::load(p); }
  static void store(L x, Type* p) { x.store(p); }
};
template <class L>
struct Elements<L, DType::kFloat16> {
  using Type = std::uint16_t;
  using Word = std::uint16_t;
  static L load(const Type* p) { return L::load_float16(p); }
  static void store(L x, Type* p) { x.store_float16(p); }
};
template <class L>
struct Elements<L, DType::kBFloat16> {
  using Type = std::uint16_t;
  using Word = std::uint32_t;
  static L load(const Type* p) { return L::load_bfloat16(p); }
  static void store(L x, Type* p) { x.store_bfloat16(p); }
};

/// The tiles of one head, for one format over one Lanes type.
template <class L, DType format>
class HeadTiles {
  using E = Elements<L, format>;
  using Element = typename E::Type;
  using Word = typename E::Word;
  static constexpr std::int64_t kSide = sizeof(Word) / sizeof(Element);  ///< elements that share a word

 public:
  HeadTiles(const BlockLayout& layout, std::byte* tile)
      : key_dim_(layout.key_dim),
        value_dim_(layout.value_dim),
        key_panel_words_(padded_inner(format, layout.key_dim) / kSide * kPanel),
        keys_(reinterpret_cast<Word*>(tile)),
        values_(reinterpret_cast<Element*>(tile + layout.key_tile_bytes())) {}

  void store_key(std::int64_t slot, const float* key) const {
    Word* column = column_of(slot);
    for (std::int64_t k = 0; k < key_dim_; k += 16, column += 16 / kSide * kPanel) {
      alignas(64) Element part[16];
      const int n = lanes(key_dim_ - k);
      E::store(L::load_first(key + k, n), part);
      // The second half of an odd pair is written as the zero that it holds.
      for (std::int64_t i = 0; i < round_up(n, kSide) / kSide; ++i) {
        __builtin_memcpy(column + i * kPanel, part + i * kSide, sizeof(Word));
      }
    }
  }
  void load_key(std::int64_t slot, float* key) const {
    const Word* column = column_of(slot);
    for (std::int64_t k = 0; k < key_dim_; k += 16, column += 16 / kSide * kPanel) {
      alignas(64) Element part[16] = {};
      const int n = lanes(key_dim_ - k);
      for (std::int64_t i = 0; i < round_up(n, kSide) / kSide; ++i) {
        __builtin_memcpy(part + i * kSide, column + i * kPanel, sizeof(Word));
      }
      E::load(part).store_first(key + k, n);
    }
  }

  /// One token, or two that share words. Returns how many.
  std::int64_t store_values(std::int64_t slot, std::int64_t n_tokens, const float* values, std::int64_t stride) const {
    const bool is_second = slot % kSide, both = kSide == 2 && !is_second && n_tokens > 1;
    for (std::int64_t c = 0; c < value_dim_; c += kPanel) {
      Element* row = row_of(slot, c);
      const int n = lanes(value_dim_ - c);
      const L x = L::load_first(values + c, n);
      if constexpr (kSide == 1) {
        E::store(x, row);
      } else if (both) {
        L::store_pairs(x, L::load_first(values + stride + c, n), row);
      } else {
        L::store_pairs(is_second ? L::load_even(row) : x, is_second ? x : L::load_odd(row), row);
      }
    }
    return both ? 2 : 1;
  }
  void load_value(std::int64_t slot, float* value) const {
    for (std::int64_t c = 0; c < value_dim_; c += kPanel) {
      const Element* row = row_of(slot, c);
      const int n = lanes(value_dim_ - c);
      if constexpr (kSide == 1) {
        E::load(row).store_first(value + c, n);
      } else {
        (slot % 2 ? L::load_odd(row) : L::load_even(row)).store_first(value + c, n);
      }
    }
  }

 private:
  static int lanes(std::int64_t rest) { return static_cast<int>(rest < 16 ? rest : 16); }
  Word* column_of(std::int64_t slot) const { return keys_ + slot / kPanel * key_panel_words_ + slot % kPanel; }
  /// Sixteen words: channels c .. c + 15 of the slot.
  Element* row_of(std::int64_t slot, std::int64_t c) const {
    return values_ + c * kBlockTokens + slot / kSide * kSide * kPanel;
  }

  std::int64_t key_dim_, value_dim_, key_panel_words_;
  Word* keys_;
  Element* values_;
};

template <class L, DType format>
void store_tokens(const BlockLayout& layout, std::byte* tile, std::int64_t first_slot, std::int64_t n,
                  const float* keys, std::int64_t key_stride, const float* values, std::int64_t value_stride) noexcept {
  const HeadTiles<L, format> tiles(layout, tile);
  for (std::int64_t t = 0; t < n; ++t) tiles.store_key(first_slot + t, keys + t * key_stride);
  for (std::int64_t t = 0; t < n;) {
    t += tiles.store_values(first_slot + t, n - t, values + t * value_stride, value_stride);
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
