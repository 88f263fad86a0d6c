#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "mneme/base/dtype.h"

namespace mneme::kernels {

struct FakeTile {
  int rows = 0;
  unsigned char data[16][64] = {};
};

/// AMX's eight tile registers in plain C++, after the operation sections of TILELOADD, TILESTORED, TDPBF16PS, TDPBSSD
/// and TDPBSUD in Intel's manual. What would fault on the processor ends the program.
struct FakeTiles {
  static void configure(int rows_0, int rows_1) {
    const int rows[8] = {rows_0, rows_0, rows_1, rows_1, rows_0, rows_1, 16, 16};
    for (int t = 0; t < 8; ++t) {
      require(rows[t] >= 1 && rows[t] <= 16);
      tiles[t] = {};
      tiles[t].rows = rows[t];
    }
  }
  static void release() {
    for (FakeTile& tile : tiles) tile = {};
  }
  template <int T>
  static void zero() {
    require(tiles[T].rows > 0);
    std::memset(tiles[T].data, 0, sizeof tiles[T].data);
  }
  template <int T>
  static void clear() {
    zero<T>();
  }
  template <int T>
  static void load(const void* from, std::int64_t stride) {
    zero<T>();
    for (int r = 0; r < tiles[T].rows; ++r)
      std::memcpy(tiles[T].data[r], static_cast<const char*>(from) + r * stride, 64);
  }
  template <int T>
  static void store(void* to, std::int64_t stride) {
    require(tiles[T].rows > 0);
    for (int r = 0; r < tiles[T].rows; ++r) std::memcpy(static_cast<char*>(to) + r * stride, tiles[T].data[r], 64);
  }

  /// For each row m: pairs of chains from zero over k, then sum += even + odd. Denormals are zero, going in and out.
  template <int Sum, int Rows, int Panel>
  static void dot() {
    FakeTile &sum = tiles[Sum], &rows = tiles[Rows], &panel = tiles[Panel];
    require(sum.rows > 0 && sum.rows == rows.rows && panel.rows == 16);
    for (int m = 0; m < sum.rows; ++m) {
      float chains[32] = {};
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 32; ++n) {
          chains[n] = flush(std::fma(element(rows, m, 2 * k + n % 2), element(panel, k, n), chains[n]));
        }
      }
      for (int n = 0; n < 16; ++n) {
        float total;
        std::memcpy(&total, sum.data[m] + 4 * n, 4);
        total = flush(flush(total) + flush(chains[2 * n] + chains[2 * n + 1]));
        std::memcpy(sum.data[m] + 4 * n, &total, 4);
      }
    }
  }

  /// sum[m][n] += the products of four signed bytes of row m with four of column n, quad after quad.
  template <int Sum, int Rows, int Panel>
  static void dot_bytes() {
    add_products<std::int8_t>(tiles[Sum], tiles[Rows], tiles[Panel]);
  }
  /// With unsigned bytes of the column.
  template <int Sum, int Rows, int Panel>
  static void dot_unsigned() {
    add_products<std::uint8_t>(tiles[Sum], tiles[Rows], tiles[Panel]);
  }

  template <class L>
  static void to_bfloat16(L from, std::uint16_t* to) {
    float lanes[16];
    from.store(lanes);
    for (int i = 0; i < 16; ++i) to[i] = mneme::to_bfloat16(flush(lanes[i]));
  }
  template <class L>
  static void to_bfloat16(L low, L high, std::uint16_t* to) {
    to_bfloat16(low, to);
    to_bfloat16(high, to + 16);
  }

 private:
  static inline thread_local FakeTile tiles[8];

  template <class Byte>
  static void add_products(FakeTile& sum, const FakeTile& rows, const FakeTile& panel) {
    require(sum.rows > 0 && sum.rows == rows.rows && panel.rows == 16);
    for (int m = 0; m < sum.rows; ++m) {
      for (int n = 0; n < 16; ++n) {
        std::int32_t total;
        std::memcpy(&total, sum.data[m] + 4 * n, 4);
        for (int k = 0; k < 64; ++k)
          total += static_cast<std::int8_t>(rows.data[m][k]) * static_cast<Byte>(panel.data[k / 4][4 * n + k % 4]);
        std::memcpy(sum.data[m] + 4 * n, &total, 4);
      }
    }
  }

  static void require(bool condition) {
    if (!condition) std::abort();
  }
  static float flush(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }
  static float element(const FakeTile& tile, int row, int i) {
    std::uint16_t bits;
    std::memcpy(&bits, tile.data[row] + 2 * i, 2);
    return flush(from_bfloat16(bits));
  }
};

}  // namespace mneme::kernels
