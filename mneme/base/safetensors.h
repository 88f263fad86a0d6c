#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mneme/base/mapped_file.h"

namespace mneme {

/// One .safetensors file: 8 bytes of header length, a JSON header, and the tensors' bytes without holes.
/// Accepts and refuses what the Python library does (version 0.8), with two exceptions: a name that occurs twice is
/// refused, as the specification says, and so is a tensor described by a list instead of an object.
/// Nothing in the file is trusted; memory is bounded by a small multiple of the header's size.
class SafetensorsFile {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;  ///< as the file spells it: "F32", "BF16", "F16", "F8_E4M3", "I64", ...
    std::vector<std::int64_t> shape;
    std::span<const std::byte> data;  ///< exactly the bytes that dtype and shape ask for; any alignment
  };

  /// Maps and parses a file. Throws Error(kIo) or Error(kCorruptData) naming the file, the tensor and the numbers.
  explicit SafetensorsFile(const std::string& path, MappedFile::Access access = MappedFile::Access::kReadOnly);

  /// Parses bytes that the caller keeps alive; `name` stands for the path in errors.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const noexcept { return name_; }
  /// The map that the tensors lie in; null for bytes that the caller keeps.
  const std::shared_ptr<MappedFile>& file() const noexcept { return file_; }
  /// In the order of their bytes.
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }
  /// The strings of the header's `__metadata__`.
  const std::map<std::string, std::string>& metadata() const noexcept { return metadata_; }

 private:
  void parse(std::span<const std::byte> bytes);

  std::shared_ptr<MappedFile> file_;
  std::string name_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace mneme
