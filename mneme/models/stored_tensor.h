#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/base/weight_format.h"

namespace mneme {

/// How the elements of a stored tensor are encoded. All of them can be read as float32 by `read_rows`.
enum class Storage : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kUInt8,
  kMXFP4,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K
};

/// The same as a format that linear layers compute with, if it is one of integers: Q4_0 and those after it.
std::optional<WeightFormat> coded_format_of(Storage storage);

/// What linear layers make of a stored matrix: numbers in the model's dtype; its own integers, if it has any; or
/// integers of eight bits with a scale for each 32 (Q8_0).
enum class LinearAs : std::uint8_t { kNumbers, kStored, kInt8 };

/// "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "uint8", "MXFP4", "Q4_0", .. "Q6_K".
std::string_view name_of(Storage storage);

/// Elements of a row come in blocks of `elements`, each of `bytes` bytes; 1 element for plain number formats.
struct StorageBlock {
  std::int64_t elements;
  std::int64_t bytes;
};
StorageBlock block_of(Storage storage);

/// A tensor as it lies in a model file: a view, nothing is copied or decoded.
struct StoredTensor {
  std::string name;  ///< the name that Hugging Face checkpoints use, e.g. "model.layers.0.self_attn.q_proj.weight"
  Storage storage = Storage::kFloat32;
  std::vector<std::int64_t> shape;  ///< [.., rows, columns] or [columns]; outermost first
  std::span<const std::byte> data;  ///< any alignment
  float scale = 1.0f;               ///< multiplies every element (fp8 checkpoints: `weight_scale`)
  /// Row r (of a vector: element r) lies at row_order[r] in the file; empty: in order.
  std::vector<std::int32_t> row_order;
  LinearAs linear_as = LinearAs::kNumbers;

  /// Product of all sizes but the last; 1 for a vector or a scalar.
  std::int64_t rows() const;
  /// The last size; 1 for a scalar.
  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
};

/// Decodes rows [first, first + n) to float32, exactly as the format defines it.
///
/// out [n, columns] float32. Cost: 1 to 10 GB/s of output on one thread; different rows may be read in parallel.
/// Throws Error(kOutOfRange) if the rows are not there.
/// Source: IEEE 754; the OCP 8-bit floating point specification 1.0 (fp8, e4m3 without infinities); Q4_0 .. Q6_K:
/// base/ggml_block.h; MXFP4 (OCP Microscaling specification 1.0) is 2^(e - 127) * q, with the byte e ahead of numbers
/// of fp4 e2m1.
void read_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t n, float* out);

/// Copies rows [first, first + n) of a tensor in a coded format as they are stored, row after row.
/// Throws Error(kOutOfRange) if the rows are not there.
void read_blocks(const StoredTensor& tensor, std::int64_t first, std::int64_t n, std::byte* out);

/// The number that four bits of fp4 e2m1 are: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
float from_float4(unsigned bits);
/// 2^(e - 127), the scale of a block of MXFP4.
float from_exponent(std::uint8_t e);

}  // namespace mneme
