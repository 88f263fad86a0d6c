#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "mneme/models/stored_tensor.h"

namespace mneme {

class GgufFile;
class MappedFile;
class SafetensorsFile;

/// All tensors of a model: a folder with model.safetensors or a sharded index, or a .gguf file.
/// Files are memory-mapped and stay mapped as long as this object (or a copy of it) lives.
class Weights {
 public:
  /// Throws Error(kIo) for missing files, Error(kCorruptData) for damaged ones, Error(kUnsupported) for a GGUF
  /// architecture without a table of names and for fp8 tensors with more than one scale. Reads headers only.
  /// linear_as: what linear layers make of matrices.
  static Weights open(const std::string& path, LinearAs linear_as = LinearAs::kNumbers);

  /// Whether this is a .gguf file, whose converters change some numbers.
  bool is_gguf() const { return is_gguf_; }

  bool contains(const std::string& name) const { return entries_.contains(name); }

  /// Throws Error(kCorruptData) naming the tensor if it is missing, and both shapes if it has another shape;
  /// Error(kUnsupported) naming the tensor and its type if that cannot be read. Marks the name as used, so two threads
  /// may not call it at once; the tensors may be read by any number of threads.
  const StoredTensor& get(const std::string& name, const std::vector<std::int64_t>& shape) const;

  /// All tensors that can be read, in no order. They live as long as this.
  std::vector<const StoredTensor*> tensors() const;

  /// Names that nobody asked for with `get`, sorted (for the warning after loading).
  std::vector<std::string> unused() const;

  /// 64 bits of names, formats, shapes and samples of the bytes of all tensors that can be read: those of another
  /// model, or of one that was trained on, differ. Reads a page or two of each tensor.
  std::int64_t fingerprint() const;

  /// Gives back the memory of what was read of the files, which is read again where it is touched: once a model has
  /// made its own of the tensors, the rows of its embedding are all that is.
  void drop_pages() const;

  /// Bytes of all tensors as they are stored.
  std::int64_t n_bytes() const;
  /// Numbers in all tensors: the model's parameters.
  std::int64_t n_elements() const;

 private:
  struct Entry {
    StoredTensor tensor;
    std::string unsupported_type;  // the file's name of a type that has no Storage; empty if it can be read
    mutable bool used = false;
  };

  void add(Entry entry, const std::string& file);
  void add_safetensors(const SafetensorsFile& file);
  void add_shards(const std::string& folder, const std::string& index_path);
  void add_gguf(const GgufFile& file);
  void apply_scales();

  std::string path_;
  bool is_gguf_ = false;
  std::unordered_map<std::string, Entry> entries_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

}  // namespace mneme
