#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "mneme/base/weight_format.h"

namespace mneme::ops {

/// Reads rows [first, first + n) as float32 [n, columns]; called from several threads at once.
using ReadRows = std::function<void(std::int64_t first, std::int64_t n, float* out)>;
/// The same as blocks of a coded format (base/ggml_block.h), row after row.
using ReadBlocks = std::function<void(std::int64_t first, std::int64_t n, std::byte* out)>;

/// n rows in one coded format.
struct CodedRows {
  WeightFormat format = WeightFormat::kQ8_0;
  std::int64_t n = 0;
  ReadBlocks read;
};

/// Rows of a weight matrix [out, in] as a linear layer reads them, whatever way they are stored. What is stored must
/// outlive this.
struct WeightRows {
  std::int64_t n = 0, columns = 0;
  ReadRows read;
  /// The same rows, runs of one format after the other, where a layer is to compute with their integers; else empty.
  std::vector<CodedRows> coded = {};
};

}  // namespace mneme::ops
