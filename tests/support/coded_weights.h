#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "mneme/base/ggml_block.h"

namespace mneme::testing {

inline constexpr WeightFormat kCodedFormats[] = {WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ5_0,
                                                 WeightFormat::kQ5_1, WeightFormat::kQ8_0, WeightFormat::kQ4_K,
                                                 WeightFormat::kQ5_K, WeightFormat::kQ6_K};

/// A matrix of random blocks as a file holds them, scales and minimums of both signs and sizes between 1/16 and 1, and
/// the numbers that they stand for.
struct CodedMatrix {
  WeightFormat format;
  std::int64_t rows, columns, row_bytes;
  std::vector<std::byte> blocks;
  std::vector<float> numbers;

  CodedMatrix(WeightFormat f, std::int64_t n_rows, std::int64_t n_columns, unsigned seed = 1)
      : format(f), rows(n_rows), columns(n_columns) {
    const CodedFormat layout = coded_format(format);
    row_bytes = layout.row_bytes(columns);
    blocks.resize(static_cast<std::size_t>(rows * row_bytes));
    numbers.resize(static_cast<std::size_t>(rows * columns));
    std::mt19937 random(seed);
    for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
    const auto put_scale = [&](std::byte* at) {
      const std::uint16_t bits = to_float16(static_cast<float>(1 + random() % 16) / (random() % 2 ? 16.0f : -16.0f));
      std::memcpy(at, &bits, sizeof bits);
    };
    for (std::int64_t b = 0; b < std::ssize(blocks) / layout.block_bytes; ++b) {
      std::byte* const block = blocks.data() + b * layout.block_bytes;
      put_scale(format == WeightFormat::kQ6_K ? block + 208 : block);
      if (layout.has_min) put_scale(block + 2);
      decode(format, block, layout.block_elements(), numbers.data() + b * layout.block_elements());
    }
  }
};

}  // namespace mneme::testing
