#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mneme {

/// 64 bits that tell damaged bytes from whole ones (XXH3 of xxHash): no secret, as files are checked for accidents.
/// About as fast as memory is read.
std::int64_t checksum(std::span<const std::byte> bytes);

}  // namespace mneme
