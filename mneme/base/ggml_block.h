#pragma once

#include <cstddef>
#include <cstdint>

#include "mneme/base/weight_format.h"

namespace mneme {

/// What the blocks of a coded format are made of. A block has one float16 scale d (and, where has_min, one float16
/// minimum); the formats whose names end in K divide it into groups that have small integers of their own:
///
///   w = d (q - zero)           w = d q + m                             Q4_0, Q5_0, Q8_0 (q is signed);  Q4_1, Q5_1
///   w = d s (q - zero)         w = d s q - m t                         Q6_K (s is signed);  Q4_K, Q5_K
struct CodedFormat {
  int bits;                   ///< of a code q; 8: signed
  int group;                  ///< elements that share a scale
  int block_groups;           ///< groups of a block
  int block_bytes;            ///< of a block in a file
  int zero;                   ///< subtracted from codes
  bool has_min;               ///< adds a minimum
  bool has_steps;             ///< d and m are multiplied by a small integer for each group
  bool signed_steps = false;  ///< those of d

  [[gnu::always_inline]] constexpr int block_elements() const { return group * block_groups; }
  /// Bytes in a file of a row of whole blocks.
  [[gnu::always_inline]] constexpr std::int64_t row_bytes(std::int64_t columns) const {
    return columns / block_elements() * block_bytes;
  }
};

/// The one of a coded format.
[[gnu::always_inline]] constexpr CodedFormat coded_format(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0: return {4, 32, 1, 18, 8, false, false};
    case WeightFormat::kQ4_1: return {4, 32, 1, 20, 0, true, false};
    case WeightFormat::kQ5_0: return {5, 32, 1, 22, 16, false, false};
    case WeightFormat::kQ5_1: return {5, 32, 1, 24, 0, true, false};
    case WeightFormat::kQ4_K: return {4, 32, 8, 144, 0, true, true};
    case WeightFormat::kQ5_K: return {5, 32, 8, 176, 0, true, true};
    case WeightFormat::kQ6_K: return {6, 16, 16, 210, 32, false, true, true};
    default: return {8, 32, 1, 34, 0, false, false};  // Q8_0
  }
}

/// Calls f with the compile-time constant that a coded format is.
template <class F>
auto with_format(WeightFormat format, F f) {
  switch (format) {
    case WeightFormat::kQ4_0: return f.template operator()<WeightFormat::kQ4_0>();
    case WeightFormat::kQ4_1: return f.template operator()<WeightFormat::kQ4_1>();
    case WeightFormat::kQ5_0: return f.template operator()<WeightFormat::kQ5_0>();
    case WeightFormat::kQ5_1: return f.template operator()<WeightFormat::kQ5_1>();
    case WeightFormat::kQ4_K: return f.template operator()<WeightFormat::kQ4_K>();
    case WeightFormat::kQ5_K: return f.template operator()<WeightFormat::kQ5_K>();
    case WeightFormat::kQ6_K: return f.template operator()<WeightFormat::kQ6_K>();
    default: return f.template operator()<WeightFormat::kQ8_0>();
  }
}

/// One block of a row, taken apart.
struct GgmlBlock {
  std::uint8_t codes[256];       ///< q in the order of the row; of Q8_0 as int8
  std::uint16_t scale, min;      ///< d and m, float16; m of Q4_K and Q5_K is negated, so that it is added too
  std::uint8_t scale_steps[16];  ///< s of each group; of Q6_K as int8
  std::uint8_t min_steps[8];     ///< t of each group
};

/// Takes the block at `bytes` apart (any alignment). The layouts are ggml's: ggml-common.h of llama.cpp.
void unpack(WeightFormat format, const std::byte* bytes, GgmlBlock& block);

/// The numbers that a block stands for: block_elements of them, each product and sum rounded to float32.
void decode(WeightFormat format, const GgmlBlock& block, float* out);
/// Those of a row of n elements, whole blocks as they lie in a file.
void decode(WeightFormat format, const std::byte* row, std::int64_t n, float* out);

/// The nearest Q8_0 block of 32 numbers: d = max|x| / 127 as float16, q = round(x / d), ties to even.
void encode_q8_0(const float* x, std::byte* bytes);

}  // namespace mneme
