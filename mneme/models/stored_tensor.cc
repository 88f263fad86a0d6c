#include "mneme/models/stored_tensor.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "mneme/base/dtype.h"
#include "mneme/base/error.h"
#include "mneme/base/ggml_block.h"

namespace mneme {
namespace {

constexpr std::int64_t kBlock = 32;  // elements of a ggml block

std::uint16_t load16(const std::byte* data) {
  std::uint16_t bits;
  std::memcpy(&bits, data, sizeof bits);
  return bits;
}

/// from_float16 without a branch, so that loops over it vectorize. Never passes through a float32 subnormal: threads
/// may flush those to zero.
float widen_float16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const float tiny = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t finite = magnitude < 0x400u ? std::bit_cast<std::uint32_t>(tiny) : normal;
  return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : special));
}

constexpr std::array<float, 256> kFloat8E5M2 = [] {
  std::array<float, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) table[i] = from_float16(static_cast<std::uint16_t>(i << 8));
  return table;
}();

constexpr std::array<float, 256> kFloat8E4M3 = [] {
  std::array<float, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    const std::uint32_t sign = i >> 7 << 31, exponent = i >> 3 & 15u, mantissa = i & 7u;
    const float tiny = static_cast<float>(mantissa) * 0x1p-9f;
    std::uint32_t magnitude = exponent ? (exponent + 120) << 23 | mantissa << 20 : std::bit_cast<std::uint32_t>(tiny);
    if ((i & 127u) == 127u) magnitude = 0x7fc00000u;
    table[i] = std::bit_cast<float>(sign | magnitude);
  }
  return table;
}();

void decode_bfloat16(const std::byte* data, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = from_bfloat16(load16(data + 2 * i));
}

void decode_float16(const std::byte* data, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = widen_float16(load16(data + 2 * i));
}

void decode_float8(const std::byte* data, std::int64_t n, const std::array<float, 256>& table, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = table[std::to_integer<std::uint8_t>(data[i])];
}

void decode_mxfp4(const std::byte* data, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; i += kBlock, data += 17) {
    const float scale = from_exponent(std::to_integer<std::uint8_t>(data[0]));
    for (int j = 0; j < 16; ++j) {
      const auto q = std::to_integer<unsigned>(data[1 + j]);
      out[i + j] = scale * from_float4(q & 15);
      out[i + j + 16] = scale * from_float4(q >> 4);
    }
  }
}

void decode(Storage storage, const std::byte* data, std::int64_t n, float* out) {
  switch (storage) {
    case Storage::kFloat32: std::memcpy(out, data, static_cast<std::size_t>(n) * sizeof(float)); return;
    case Storage::kBFloat16: return decode_bfloat16(data, n, out);
    case Storage::kFloat16: return decode_float16(data, n, out);
    case Storage::kFloat8E4M3: return decode_float8(data, n, kFloat8E4M3, out);
    case Storage::kFloat8E5M2: return decode_float8(data, n, kFloat8E5M2, out);
    case Storage::kUInt8:
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(std::to_integer<int>(data[i]));
      return;
    case Storage::kMXFP4: return decode_mxfp4(data, n, out);
    case Storage::kQ4_0:
    case Storage::kQ4_1:
    case Storage::kQ8_0:
    case Storage::kQ5_0:
    case Storage::kQ5_1:
    case Storage::kQ4_K:
    case Storage::kQ5_K:
    case Storage::kQ6_K: return decode(*coded_format_of(storage), data, n, out);
  }
}

}  // namespace

float from_float4(unsigned bits) {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return bits & 8 ? -kMagnitudes[bits & 7] : kMagnitudes[bits & 7];
}

float from_exponent(std::uint8_t e) { return std::ldexp(1.0f, static_cast<int>(e) - 127); }

std::optional<WeightFormat> coded_format_of(Storage storage) {
  if (storage < Storage::kQ4_0) return std::nullopt;
  return static_cast<WeightFormat>(static_cast<int>(storage) - static_cast<int>(Storage::kQ4_0) +
                                   static_cast<int>(WeightFormat::kQ4_0));
}

std::string_view name_of(Storage storage) {
  if (const auto coded = coded_format_of(storage)) return name_of(*coded);
  switch (storage) {
    case Storage::kFloat32: return "float32";
    case Storage::kBFloat16: return "bfloat16";
    case Storage::kFloat16: return "float16";
    case Storage::kFloat8E4M3: return "float8_e4m3fn";
    case Storage::kFloat8E5M2: return "float8_e5m2";
    case Storage::kUInt8: return "uint8";
    case Storage::kMXFP4: return "MXFP4";
    default: return "?";
  }
}

StorageBlock block_of(Storage storage) {
  if (const auto coded = coded_format_of(storage)) {
    const CodedFormat layout = coded_format(*coded);
    return {layout.block_elements(), layout.block_bytes};
  }
  switch (storage) {
    case Storage::kFloat32: return {1, 4};
    case Storage::kBFloat16:
    case Storage::kFloat16: return {1, 2};
    case Storage::kMXFP4: return {kBlock, 17};
    default: return {1, 1};
  }
}

std::int64_t StoredTensor::rows() const {
  std::int64_t n = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) n *= shape[i];
  return n;
}

namespace {

void check_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t n) {
  const std::int64_t rows = tensor.rows();
  check(first >= 0 && n >= 0 && first <= rows && n <= rows - first, ErrorKind::kOutOfRange,
        "{}: {} rows from row {} on were asked for, there are {}", tensor.name, n, first, rows);
}

}  // namespace

void read_rows(const StoredTensor& tensor, std::int64_t first, std::int64_t n, float* out) {
  const std::int64_t columns = tensor.columns();
  check_rows(tensor, first, n);
  const StorageBlock block = block_of(tensor.storage);
  const std::int64_t row_bytes = columns / block.elements * block.bytes;
  if (tensor.row_order.empty()) {
    decode(tensor.storage, tensor.data.data() + first * row_bytes, n * columns, out);
  } else if (tensor.shape.size() == 1) {
    std::vector<float> stored(static_cast<std::size_t>(n * columns));
    decode(tensor.storage, tensor.data.data(), n * columns, stored.data());
    for (std::int64_t i = 0; i < n * columns; ++i)
      out[i] = stored[static_cast<std::size_t>(tensor.row_order[static_cast<std::size_t>(i)])];
  } else {
    for (std::int64_t r = 0; r < n; ++r) {
      const std::int64_t place = tensor.row_order[static_cast<std::size_t>(first + r)];
      decode(tensor.storage, tensor.data.data() + place * row_bytes, columns, out + r * columns);
    }
  }
  if (tensor.scale != 1.0f) {
    for (std::int64_t i = 0; i < n * columns; ++i) out[i] *= tensor.scale;
  }
}

void read_blocks(const StoredTensor& tensor, std::int64_t first, std::int64_t n, std::byte* out) {
  check_rows(tensor, first, n);
  const StorageBlock block = block_of(tensor.storage);
  const std::int64_t row_bytes = tensor.columns() / block.elements * block.bytes;
  for (std::int64_t r = 0; r < n; ++r) {
    const std::int64_t place =
        tensor.row_order.empty() ? first + r : tensor.row_order[static_cast<std::size_t>(first + r)];
    std::memcpy(out + r * row_bytes, tensor.data.data() + place * row_bytes, static_cast<std::size_t>(row_bytes));
  }
}

}  // namespace mneme
