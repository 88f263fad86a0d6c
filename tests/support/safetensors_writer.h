#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mneme::testing {

/// A .safetensors file from its header's text and its data; the announced length may be another.
inline std::string safetensors(std::string_view header, std::string_view data, std::uint64_t header_bytes) {
  return std::string(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes).append(header).append(data);
}
inline std::string safetensors(std::string_view header, std::string_view data = "") {
  return safetensors(header, data, header.size());
}

}  // namespace mneme::testing
