#include "mneme/kernels/block_store.h"

#include <gtest/gtest.h>

#include "tests/kernels/tables_under_test.h"
#include "tests/support/floats.h"

namespace mneme::kernels {
namespace {

using testing::bits;
using testing::random_floats;
using Vector = std::vector<float>;
using Bytes = std::vector<std::byte>;

constexpr DType kFormats[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

float rounded(DType format, float x) {
  if (format == DType::kBFloat16) return from_bfloat16(to_bfloat16(x));
  if (format == DType::kFloat16) return from_float16(to_float16(x));
  return x;
}

float element(DType format, const std::byte* data, std::int64_t index) {
  if (format == DType::kFloat32) return reinterpret_cast<const float*>(data)[index];
  const std::uint16_t stored = reinterpret_cast<const std::uint16_t*>(data)[index];
  return format == DType::kBFloat16 ? from_bfloat16(stored) : from_float16(stored);
}

/// Element k of panel row n, by the words of kernels.h.
float panel_element(DType format, const std::byte* panel, std::int64_t k, std::int64_t n) {
  const std::int64_t index = format == DType::kBFloat16 ? k / 2 * 32 + n * 2 + k % 2 : k * 16 + n;
  return element(format, panel, index);
}

struct Sizes {
  std::int64_t key_dim, value_dim;
};
constexpr Sizes kSizes[] = {{16, 16}, {64, 64}, {80, 80}, {96, 128}, {24, 40}, {5, 7}};

class BlockStore : public ::testing::TestWithParam<std::tuple<DType, Sizes>> {
 protected:
  DType format = std::get<0>(GetParam());
  std::int64_t key_dim = std::get<1>(GetParam()).key_dim, value_dim = std::get<1>(GetParam()).value_dim;
  BlockLayout layout{.format = format, .n_heads = 1, .key_dim = key_dim, .value_dim = value_dim};
  Vector keys = random_floats(kBlockTokens * (key_dim + 3), 1),
         values = random_floats(kBlockTokens * (value_dim + 1), 2);

  void store(const Table& table, Bytes& tile, std::int64_t first_slot, std::int64_t n) const {
    table.of(format).store_tokens(layout, tile.data(), first_slot, n, keys.data() + first_slot * (key_dim + 3),
                                  key_dim + 3, values.data() + first_slot * (value_dim + 1), value_dim + 1);
  }
  Bytes empty_tile() const { return Bytes(layout.head_bytes(), std::byte{0}); }
};

TEST_P(BlockStore, LaysElementsOutAsTheContractSays) {
  for (const Table* table : tables_under_test()) {
    Bytes tile = empty_tile();
    store(*table, tile, 0, kBlockTokens);
    for (std::int64_t slot = 0; slot < kBlockTokens; ++slot) {
      const std::byte* panel = tile.data() + slot / 16 * panel_bytes(format, key_dim);
      for (std::int64_t k = 0; k < padded_inner(format, key_dim); ++k) {
        const float expected = k < key_dim ? rounded(format, keys[slot * (key_dim + 3) + k]) : 0.0f;
        ASSERT_EQ(panel_element(format, panel, k, slot % 16), expected)
            << table->name << " slot " << slot << " k " << k;
      }
      for (std::int64_t c = 0; c < value_dim; ++c) {
        const std::byte* value_panel =
            tile.data() + layout.key_tile_bytes() + c / 16 * panel_bytes(format, kBlockTokens);
        ASSERT_EQ(panel_element(format, value_panel, slot, c % 16), rounded(format, values[slot * (value_dim + 1) + c]))
            << table->name << " slot " << slot << " channel " << c;
      }
    }
  }
}

TEST_P(BlockStore, TokensOneByOneOrInAnyRunGiveTheSameBytes) {
  Bytes expected = empty_tile();
  store(*tables_under_test().front(), expected, 0, kBlockTokens);
  for (const Table* table : tables_under_test()) {
    for (std::int64_t step : {1, 2, 3, 16, 17, 63}) {
      Bytes tile = empty_tile();
      for (std::int64_t slot = 0; slot < kBlockTokens; slot += step) {
        store(*table, tile, slot, std::min(step, kBlockTokens - slot));
      }
      EXPECT_TRUE(tile == expected) << table->name << " in runs of " << step;
    }
  }
}

TEST_P(BlockStore, WritesItsOwnSlotsOnly) {
  for (const Table* table : tables_under_test()) {
    Bytes whole = empty_tile();
    store(*table, whole, 0, kBlockTokens);
    for (std::int64_t first : {0, 1, 15, 30, 47, 63}) {
      const std::int64_t n = std::min<std::int64_t>(kBlockTokens - first, 18);
      // Storing the same tokens again, into a tile that holds them all, changes nothing ...
      Bytes again = whole;
      store(*table, again, first, n);
      EXPECT_TRUE(again == whole) << table->name;
      // ... and storing them into an empty one, its spare slots read as zeros.
      Bytes part = empty_tile();
      store(*table, part, first, n);
      Vector loaded(kBlockTokens * (key_dim + value_dim));
      table->of(format).load_tokens(layout, part.data(), 0, kBlockTokens, loaded.data(), key_dim,
                                    loaded.data() + kBlockTokens * key_dim, value_dim);
      for (std::int64_t slot = 0; slot < kBlockTokens; ++slot) {
        if (slot >= first && slot < first + n) continue;
        for (std::int64_t k = 0; k < key_dim; ++k) ASSERT_EQ(loaded[slot * key_dim + k], 0.0f);
        for (std::int64_t c = 0; c < value_dim; ++c)
          ASSERT_EQ(loaded[(kBlockTokens * key_dim) + slot * value_dim + c], 0.0f);
      }
    }
  }
}

TEST_P(BlockStore, LoadsWhatItStored) {
  for (const Table* table : tables_under_test()) {
    Bytes tile = empty_tile();
    store(*table, tile, 0, kBlockTokens);
    for (std::int64_t first : {0, 1, 31, 63}) {
      const std::int64_t n = std::min<std::int64_t>(kBlockTokens - first, 20);
      Vector k(n * (key_dim + 2), 7.0f), v(n * (value_dim + 5), 7.0f);
      table->of(format).load_tokens(layout, tile.data(), first, n, k.data(), key_dim + 2, v.data(), value_dim + 5);
      for (std::int64_t t = 0; t < n; ++t) {
        for (std::int64_t i = 0; i < key_dim + 2; ++i) {
          const float expected = i < key_dim ? rounded(format, keys[(first + t) * (key_dim + 3) + i]) : 7.0f;
          ASSERT_EQ(k[t * (key_dim + 2) + i], expected) << table->name;
        }
        for (std::int64_t i = 0; i < value_dim + 5; ++i) {
          const float expected = i < value_dim ? rounded(format, values[(first + t) * (value_dim + 1) + i]) : 7.0f;
          ASSERT_EQ(v[t * (value_dim + 5) + i], expected) << table->name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockStore,
                         ::testing::Combine(::testing::ValuesIn(kFormats), ::testing::ValuesIn(kSizes)),
                         [](const auto& test) {
                           const Sizes sizes = std::get<1>(test.param);
                           return std::string(name_of(std::get<0>(test.param))) + "_" + std::to_string(sizes.key_dim) +
                                  "_" + std::to_string(sizes.value_dim);
                         });

}  // namespace
}  // namespace mneme::kernels
