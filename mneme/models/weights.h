#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace mneme {

/// How the elements of a stored tensor are encoded. All of them can be read as float32 by `read_rows`.
enum class Storage : std::uint8_t { kFloat32, kBFloat16, kFloat16, kFloat8E4M3, kFloat8E5M2, kQ4_0, kQ4_1, kQ8_0 };

std::string_view name_of(Storage storage);

/// A tensor as it lies in a model file: a view, nothing is copied or decoded.
struct StoredTensor {
  std::string name;  ///< the name that Hugging Face checkpoints use, e.g. "model.layers.0.self_attn.q_proj.weight"
  Storage storage = Storage::kFloat32;
  std::vector<std::int64_t> shape;  ///< [rows, columns] or [columns]; outermost first
  std::span<const std::byte> data;
  float scale = 1.0f;                    ///< multiplies every element (fp8 checkpoints: `weight_scale`)
  std::vector<std::int32_t> row_order;   ///< row r lies at row_order[r] in the file; empty: in order

  std::int64_t rows() const { return shape.size() < 2 ? 1 : shape[0]; }
  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
};

/// Decodes rows [first, first + n) of a matrix (a vector is one row) to float32, exactly as the format defines it.
/// out [n, columns] float32. Throws Error(kOutOfRange) if the rows are not there.
void read_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t n, float* out);

/// All tensors of a model: a folder with model.safetensors or a sharded index, or a .gguf file.
/// Files are memory-mapped and stay mapped as long as this object (or a copy of it) lives.
class Weights {
 public:
  /// Throws Error(kIo) for missing files, Error(kCorruptData) for damaged ones, Error(kUnsupported) naming a tensor and
  /// its type where a format cannot be read.
  static Weights open(const std::string& path);

  bool contains(const std::string& name) const { return tensors_.contains(name); }

  /// Throws Error(kCorruptData) naming the tensor if it is missing, and both shapes if it has another shape.
  const StoredTensor& get(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// Names that nobody asked for with `get` (for the warning after loading). Not thread safe against `get`.
  std::vector<std::string> unused() const;

  std::int64_t n_bytes() const;

 private:
  std::unordered_map<std::string, StoredTensor> tensors_;
  mutable std::unordered_map<std::string, bool> used_;
  std::vector<std::shared_ptr<const void>> files_;
};

}  // namespace mneme
