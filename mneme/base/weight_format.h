#pragma once

#include <cstdint>
#include <string_view>

#include "mneme/base/dtype.h"

namespace mneme {

/// How a linear layer keeps its weights: as numbers, or as the integers of a GGUF file, which it computes with
/// directly.
enum class WeightFormat : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

inline constexpr int kWeightFormats = 11;

[[gnu::always_inline]] constexpr bool is_coded(WeightFormat format) { return format > WeightFormat::kFloat16; }

[[gnu::always_inline]] constexpr WeightFormat weight_format(DType dtype) { return static_cast<WeightFormat>(dtype); }

constexpr std::string_view name_of(WeightFormat format) {
  constexpr std::string_view kNames[kWeightFormats] = {"float32", "bfloat16", "float16", "Q4_0", "Q4_1", "Q5_0",
                                                       "Q5_1",    "Q8_0",     "Q4_K",    "Q5_K", "Q6_K"};
  return kNames[static_cast<int>(format)];
}

}  // namespace mneme
