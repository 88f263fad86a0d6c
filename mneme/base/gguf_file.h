#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mneme/base/json.h"
#include "mneme/base/mapped_file.h"

namespace mneme {

/// A GGUF container (version 3, little endian): typed metadata and a table of tensors, data left in the mapped file.
/// Nothing in the file is trusted: counts, lengths, offsets, alignments and products are checked before use.
/// Source: the GGUF specification of the ggml project.
class GgufFile {
 public:
  /// One entry of the tensor table. `shape` is outermost first (rows, then columns), the reverse of the file's order.
  struct Tensor {
    std::string name;
    std::uint32_t type = 0;  ///< ggml type id, e.g. 0 F32, 1 F16, 2 Q4_0, 3 Q4_1, 8 Q8_0, 30 BF16
    std::vector<std::int64_t> shape;
    std::span<const std::byte> data;  ///< exactly the bytes that type and shape ask for; empty if the type is unknown
  };

  /// Maps and parses a file. Throws Error(kIo) or Error(kCorruptData) naming the file, the field and the numbers.
  explicit GgufFile(const std::string& path);

  /// Parses bytes that the caller keeps alive; `name` stands for the path in errors.
  GgufFile(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const noexcept { return name_; }
  /// The map that the tensors lie in; null for bytes that the caller keeps.
  const std::shared_ptr<MappedFile>& file() const noexcept { return file_; }
  /// Keys as in the file ("general.architecture", "tokenizer.ggml.tokens"); arrays become JSON arrays.
  /// Strings that are not valid UTF-8 are kept byte for byte (they can be read, not dumped).
  const Json& metadata() const noexcept { return metadata_; }
  const std::vector<Tensor>& tensors() const noexcept { return tensors_; }

 private:
  void parse(std::span<const std::byte> bytes);

  std::shared_ptr<MappedFile> file_;
  std::string name_;
  Json metadata_;
  std::vector<Tensor> tensors_;
};

/// Bytes and elements of one block of a ggml type, and its name; {0, 0, ""} for a type that this build does not know.
struct GgmlTypeInfo {
  std::int64_t block_elements;
  std::int64_t block_bytes;
  const char* name;
};
GgmlTypeInfo ggml_type_info(std::uint32_t type);

}  // namespace mneme
