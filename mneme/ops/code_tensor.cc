#include "mneme/ops/code_tensor.h"

#include <cstring>
#include <vector>

#include "mneme/ops/linear.h"

namespace mneme::ops {
namespace {

using kernels::BlockCodes;
using kernels::CodeKind;
using kernels::kBlockTokens;
using kernels::kPanel;
using kernels::TileCodes;
using kernels::TileSide;

/// The same part of every head of a block, n elements each, as a view [Hkv, n].
at::Tensor part(const std::byte* first_head, std::int64_t n_heads, std::int64_t head_bytes, std::int64_t n,
                at::ScalarType dtype, at::Device device) {
  const auto size = static_cast<std::int64_t>(at::elementSize(dtype));
  return at::from_blob(const_cast<std::byte*>(first_head), {n_heads, n}, {head_bytes / size, 1},
                       at::TensorOptions().dtype(dtype).device(device));
}

/// One side of a block: its tile in the first head, and how far the next one is.
struct Tiles {
  const TileCodes& codes;
  TileSide side;
  std::int64_t dim, n_heads, head_bytes;
  const std::byte* first;
  at::Device device;
};

/// Codes of a plane as integers: [Hkv, quads, 64].
at::Tensor plane(const Tiles& tiles, const std::byte* first, int bits) {
  const std::int64_t n_quads = TileCodes::n_quads(tiles.side, tiles.dim);
  const std::int64_t n_bytes = TileCodes::plane_bytes(bits, n_quads);
  const at::Tensor bytes =
      part(first, tiles.n_heads, tiles.head_bytes, n_bytes, at::kByte, tiles.device).view({-1, n_bytes / 64, 1, 64});
  const at::Tensor shifts =
      at::arange(0, 8, bits, at::TensorOptions().dtype(at::kByte).device(tiles.device)).view({1, 1, -1, 1});
  return at::bitwise_and(at::bitwise_right_shift(bytes, shifts), (1 << bits) - 1)
      .view({tiles.n_heads, -1, 64})
      .narrow(1, 0, n_quads);
}

/// [Hkv, quads, 16 lanes, 4 inner] float32.
at::Tensor quads_of(const Tiles& tiles) {
  const std::int64_t n_quads = TileCodes::n_quads(tiles.side, tiles.dim);
  if (tiles.codes.kind == CodeKind::kFloat8) {
    return part(tiles.first, tiles.n_heads, tiles.head_bytes, n_quads * 64, at::kFloat8_e4m3fn, tiles.device)
        .to(at::kFloat)
        .view({-1, n_quads, 4, kPanel})
        .transpose(2, 3);
  }
  at::Tensor codes = plane(tiles, tiles.first, tiles.codes.bits == 3 ? 2 : tiles.codes.bits);
  if (tiles.codes.bits == 3) codes = codes + plane(tiles, tiles.first + TileCodes::plane_bytes(2, n_quads), 1) * 4;
  return codes.to(at::kFloat).view({-1, n_quads, kPanel, 4});
}

/// Quads, panel after panel, become [Hkv, 64, dim].
at::Tensor in_order(const Tiles& tiles, const at::Tensor& quads) {
  const at::Tensor lanes_by_inner =
      quads
          .view({tiles.n_heads, TileCodes::n_panels(tiles.side, tiles.dim),
                 TileCodes::panel_quads(tiles.side, tiles.dim), kPanel, 4})
          .permute({0, 1, 3, 2, 4})
          .reshape({tiles.n_heads, TileCodes::n_panels(tiles.side, tiles.dim) * kPanel, -1});
  const at::Tensor rows = tiles.side == TileSide::kKeys ? lanes_by_inner : lanes_by_inner.transpose(1, 2);
  return rows.narrow(2, 0, tiles.dim);
}

/// Scales (or offsets) of all elements: [Hkv, 64, dim] float32.
at::Tensor scales_of(const Tiles& tiles, std::int64_t offset, const at::Tensor& slots) {
  const std::byte* first = tiles.first + tiles.codes.code_bytes(tiles.side, tiles.dim) + offset;
  return part(first, tiles.n_heads, tiles.head_bytes, tiles.codes.n_scales(tiles.side, tiles.dim), at::kHalf,
              tiles.device)
      .to(at::kFloat)
      .index_select(1, slots)
      .view({tiles.n_heads, kBlockTokens, tiles.dim});
}

at::Tensor decode(const Tiles& tiles) {
  at::Tensor slots = at::empty({kBlockTokens * tiles.dim}, at::kLong);
  auto* slot = slots.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < kBlockTokens * tiles.dim; ++i)
    slot[i] = tiles.codes.scale_slot(tiles.side, tiles.dim, i / tiles.dim, i % tiles.dim);
  slots = slots.to(tiles.device);
  const at::Tensor codes = in_order(tiles, quads_of(tiles)), scales = scales_of(tiles, 0, slots);
  if (tiles.codes.kind == CodeKind::kFloat8) return codes * scales;
  if (!tiles.codes.has_offset) return (codes - 128) * scales;
  return codes * scales + scales_of(tiles, tiles.codes.scale_bytes(tiles.side, tiles.dim), slots);
}

at::Tensor rounded(const BlockCodes& codes, const at::Tensor& x) {
  return codes.raw.format == DType::kFloat16 ? x.clamp(-65504, 65504).to(at::kHalf)
                                             : x.to(scalar_type(codes.raw.format));
}

}  // namespace

std::pair<at::Tensor, at::Tensor> load_codes(const BlockCodes& codes, const std::byte* block, bool first,
                                             at::Device device) {
  const kernels::BlockLayout& raw = codes.raw;
  at::Tensor keys = rounded(
      codes, decode({codes.keys, TileSide::kKeys, raw.key_dim, raw.n_heads, codes.head_bytes(), block, device}));
  at::Tensor values = rounded(codes, decode({codes.values, TileSide::kValues, raw.value_dim, raw.n_heads,
                                             codes.head_bytes(), block + codes.key_bytes(), device}));
  if (first && codes.sink_length) {
    const std::int64_t n = codes.sink_length;
    const at::Tensor sinks = part(block + codes.sink_offset(0), raw.n_heads, codes.sink_bytes(),
                                  n * (raw.key_dim + raw.value_dim), scalar_type(raw.format), device);
    keys.narrow(1, 0, n).copy_(sinks.narrow(1, 0, n * raw.key_dim).view({-1, n, raw.key_dim}));
    values.narrow(1, 0, n).copy_(sinks.narrow(1, n * raw.key_dim, n * raw.value_dim).view({-1, n, raw.value_dim}));
  }
  return {keys, values};
}

}  // namespace mneme::ops
