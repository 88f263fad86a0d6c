#include "mneme/base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace mneme {

std::int64_t checksum(std::span<const std::byte> bytes) {
  return static_cast<std::int64_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

}  // namespace mneme
