#include "mneme/quant/block_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/floats.h"

namespace mneme::quant {
namespace {

using kernels::BlockLayout;
using kernels::kBlockTokens;

/// 64-byte aligned bytes, filled with what nobody may rely on.
class Bytes {
 public:
  explicit Bytes(std::int64_t n) : storage_(static_cast<std::size_t>(n + 64), std::byte{0xa5}) {}
  std::byte* data() {
    return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(storage_.data()) + 63) / 64 * 64);
  }

 private:
  std::vector<std::byte> storage_;
};

TEST(BlockCodec, Int8IsWithinHalfAStepOfEachToken) {
  for (const std::int64_t dim : {1, 15, 16, 20, 64, 80, 96, 128}) {
    const BlockLayout layout{.format = DType::kFloat32, .n_heads = 2, .key_dim = dim, .value_dim = dim + 3};
    const auto codec = make_int8(layout);
    Bytes raw(layout.block_bytes()), codes(codec->codes().block_bytes(true)), back(layout.block_bytes());
    std::fill_n(raw.data(), layout.block_bytes(), std::byte{0});
    std::vector<float> keys = testing::random_floats(64 * dim, 1), values = testing::random_floats(64 * (dim + 3), 2);
    const auto& kernels = kernels::active().of(layout.format);
    for (std::int64_t head = 0; head < 2; ++head) {
      kernels.store_tokens(layout, raw.data() + head * layout.head_bytes(), 0, kBlockTokens, keys.data(), dim,
                           values.data(), dim + 3);
    }
    codec->encode(raw.data(), true, codes.data());
    codec->decode(codes.data(), true, back.data());
    std::vector<float> k(keys.size()), v(values.size());
    kernels.load_tokens(layout, back.data() + layout.head_bytes(), 0, kBlockTokens, k.data(), dim, v.data(), dim + 3);
    for (std::int64_t t = 0; t < 64; ++t) {
      float largest = 0;
      for (std::int64_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(keys[t * dim + d]));
      for (std::int64_t d = 0; d < dim; ++d) ASSERT_NEAR(k[t * dim + d], keys[t * dim + d], largest / 127 * 0.57f);
    }
  }
}

}  // namespace
}  // namespace mneme::quant
