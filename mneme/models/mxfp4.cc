#include "mneme/models/mxfp4.h"

#include "mneme/base/error.h"

namespace mneme {
namespace {

constexpr std::int64_t kBlock = 32;

}  // namespace

WeightRows mxfp4_rows(const StoredTensor& blocks, const StoredTensor& scales) {
  for (const StoredTensor* tensor : {&blocks, &scales}) {
    check(tensor->storage == Storage::kUInt8, ErrorKind::kUnsupported, "the tensor {} is {}, MXFP4 is kept in bytes",
          tensor->name, name_of(tensor->storage));
  }
  const std::int64_t n_blocks = scales.columns();
  return {scales.rows(), kBlock * n_blocks,
          [&blocks, &scales, n_blocks](std::int64_t first, std::int64_t n, float* out) {
            const std::byte* q = blocks.data.data() + first * n_blocks * kBlock / 2;
            const std::byte* e = scales.data.data() + first * n_blocks;
            for (std::int64_t b = 0; b < n * n_blocks; ++b, q += kBlock / 2, out += kBlock) {
              const float scale = from_exponent(std::to_integer<std::uint8_t>(e[b]));
              for (std::int64_t j = 0; j < kBlock / 2; ++j) {
                const auto pair = std::to_integer<unsigned>(q[j]);
                out[2 * j] = scale * from_float4(pair & 15);
                out[2 * j + 1] = scale * from_float4(pair >> 4);
              }
            }
          }};
}

}  // namespace mneme
