#pragma once

#include <cstddef>
#include <cstdint>

#include "mneme/kernels/codes.h"

namespace mneme::quant {

/// Packs one tile's codes into the planes of kernels/codes.h.
///
/// codes_of_elements  [64, dim], row-major, each below 2^codes.bits
/// out                [codes.code_bytes(side, dim)], zeroed
void pack_codes(const kernels::TileCodes& codes, kernels::TileSide side, std::int64_t dim,
                const std::uint8_t* codes_of_elements, std::byte* out);

}  // namespace mneme::quant
