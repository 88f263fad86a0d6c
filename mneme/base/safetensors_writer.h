#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mneme {

/// Writes one .safetensors file. Tensors are kept as views until `write`, which goes through them once.
class SafetensorsWriter {
 public:
  /// A string of the header's `__metadata__`.
  void set(const std::string& key, std::string value) { metadata_[key] = std::move(value); }

  /// A tensor whose bytes lie in pieces, one behind the other. They must stay as they are until `write` returns.
  void add(std::string name, std::string dtype, std::vector<std::int64_t> shape,
           std::vector<std::span<const std::byte>> pieces);

  /// A U8 tensor [n, row_bytes] whose rows are made one after the other as the file is written, each in the same
  /// memory: read(i, row) fills row i. What it throws, `write` throws.
  void add_rows(std::string name, std::int64_t n, std::int64_t row_bytes,
                std::function<void(std::int64_t i, std::span<std::byte> row)> read);

  /// Writes beside `path` and then renames, so that whoever looks at `path` sees a whole file or the one that was
  /// there. Data begins at a multiple of 64 bytes. Throws Error(kIo) with the reason, leaving nothing behind.
  void write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::vector<std::span<const std::byte>> pieces = {};
    std::function<void(std::int64_t, std::span<std::byte>)> read_row = {};
    std::uint64_t n_bytes = 0;
  };

  std::string header() const;

  std::map<std::string, std::string> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace mneme
