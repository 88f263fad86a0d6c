#pragma once

#include <cstddef>
#include <cstdint>

#include "mneme/kernels/codes.h"
#include "mneme/quant/block_codec.h"

namespace mneme::quant {

/// Encodes one head's tile of keys or values.
///
/// tile   [64, dim] float32, row-major, finite and within float16's range
/// n_raw  the first tokens of it are stored raw elsewhere: groups of tokens leave them out, and their codes are 0
/// out    [codes.tile_bytes(side, dim)]; every byte is written
void encode_tile(Method method, const kernels::TileCodes& codes, kernels::TileSide side, std::int64_t dim,
                 std::int64_t n_raw, const float* tile, std::byte* out);

}  // namespace mneme::quant
