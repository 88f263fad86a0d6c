#include "mneme/base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace mneme {
namespace {

// The library's published value, so that files stay readable.
TEST(Checksum, IsXxh3) { EXPECT_EQ(static_cast<std::uint64_t>(checksum({})), 0x2d06800538d394c2u); }

TEST(Checksum, EveryBitCounts) {
  std::vector<std::byte> bytes(300);
  std::set<std::int64_t> seen = {checksum(bytes)};
  for (std::size_t i = 0; i < 8 * bytes.size(); ++i) {
    bytes[i / 8] ^= std::byte{1} << i % 8;
    EXPECT_TRUE(seen.insert(checksum(bytes)).second) << i;
    bytes[i / 8] ^= std::byte{1} << i % 8;
  }
}

}  // namespace
}  // namespace mneme
