#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::testing {

template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A string as GGUF writes it: its length in 64 bits, then its bytes.
inline std::string gguf_string(std::string_view text) { return raw<std::uint64_t>(text.size()) + std::string(text); }

/// A GGUF file, field by field, so that a test may get any one of them wrong.
struct GgufWriter {
  struct Key {
    std::string name;
    std::uint32_t type;
    std::string value;  // as it lies in the file
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;  // innermost first, as in the file
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<Key> keys;
  std::vector<Tensor> tensors;
  std::uint64_t extra_tensors = 0, extra_keys = 0;  // announced, not there
  std::uint64_t alignment = 32;
  std::string data;

  std::string str() const {
    std::string file = magic + raw(version) + raw<std::uint64_t>(tensors.size() + extra_tensors) +
                       raw<std::uint64_t>(keys.size() + extra_keys);
    for (const Key& key : keys) file += gguf_string(key.name) + raw(key.type) + key.value;
    for (const Tensor& tensor : tensors) {
      file += gguf_string(tensor.name) + raw(static_cast<std::uint32_t>(tensor.dims.size()));
      for (const std::uint64_t size : tensor.dims) file += raw(size);
      file += raw(tensor.type) + raw(tensor.offset);
    }
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }
};

}  // namespace mneme::testing
