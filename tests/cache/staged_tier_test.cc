#include "mneme/cache/staged_tier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/cache/disk_tier.h"

namespace mneme {
namespace {

constexpr std::int64_t kBytes = 100000;

std::vector<std::byte> pattern(std::int64_t n, int seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte((i * 31 + static_cast<std::size_t>(seed)) & 255);
  return bytes;
}

/// A tier over each kind of store, with some bytes in it.
class StagedTierTest : public ::testing::TestWithParam<bool> {
 protected:
  StagedTierTest()
      : tier_(GetParam() ? std::shared_ptr<Tier>(std::make_shared<DiskTier>(""))
                         : std::make_shared<HostTier>(at::Device(at::kCPU)),
              at::kCPU),
        memory_(tier_.take(kBytes)),
        bytes_(pattern(kBytes, 1)) {
    tier_.write(memory_.data, bytes_.data(), kBytes, at::kCPU);
  }
  bool shows(std::int64_t first, std::int64_t n) const {
    return std::memcmp(tier_.address(memory_.data + first, n), bytes_.data() + first, static_cast<std::size_t>(n)) == 0;
  }

  StagedTier tier_;
  TierMemory memory_;
  std::vector<std::byte> bytes_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StagedTierTest, ::testing::Bool(),
                         [](const auto& store) { return store.param ? "disk" : "host"; });

TEST_P(StagedTierTest, ShowsACopyOfWhatWasFetchedUntilItIsReleased) {
  const ByteRange ranges[] = {{memory_.data + 100, 4000}, {memory_.data + 50000, 300}};
  tier_.fetch(ranges);
  EXPECT_EQ(tier_.n_staged_bytes(), 4300);
  EXPECT_TRUE(shows(100, 4000));
  EXPECT_TRUE(shows(50100, 200));
  EXPECT_NE(tier_.address(memory_.data + 100, 10), memory_.data + 100);
  tier_.release(ranges);
  EXPECT_EQ(tier_.n_staged_bytes(), 0);
}

TEST_P(StagedTierTest, CopiesOnlyWhatIsNotThereYet) {
  const ByteRange first[] = {{memory_.data, 640}}, longer[] = {{memory_.data, 960}};
  tier_.prefetch(first);
  const std::byte* const copy = tier_.address(memory_.data, 640);
  tier_.fetch(longer);
  EXPECT_EQ(tier_.n_staged_bytes(), 960);
  EXPECT_EQ(tier_.address(memory_.data, 640), copy);
  EXPECT_TRUE(shows(640, 320));
  tier_.release(longer);
  EXPECT_EQ(tier_.n_staged_bytes(), 0);
}

TEST_P(StagedTierTest, WhatTwoFetchedStaysUntilBothReleasedIt) {
  const ByteRange all[] = {{memory_.data, 960}}, part[] = {{memory_.data + 320, 320}};
  tier_.fetch(all);
  tier_.fetch(part);
  tier_.release(all);
  EXPECT_EQ(tier_.n_staged_bytes(), 960);
  EXPECT_TRUE(shows(320, 320));
  tier_.release(part);
  EXPECT_EQ(tier_.n_staged_bytes(), 0);
}

// A prefetch that comes too late finds nothing to read, and copies go with the memory.
TEST_P(StagedTierTest, MemoryThatWentBackIsNotRead) {
  TierMemory other = tier_.take(kBytes);
  const ByteRange gone[] = {{other.data, 640}};
  tier_.prefetch(gone);
  EXPECT_EQ(tier_.n_staged_bytes(), 640);
  other.owner.reset();
  EXPECT_EQ(tier_.n_staged_bytes(), 0);
  try {
    tier_.prefetch(gone);
  } catch (const Error&) {  // a disk may say that there is nothing any more
  }
  EXPECT_EQ(tier_.n_staged_bytes(), 0);
}

TEST_P(StagedTierTest, ShowsWhatWasWrittenSinceTheFetch) {
  const ByteRange range[] = {{memory_.data, 640}};
  tier_.fetch(range);
  const auto other = pattern(320, 9);
  tier_.write(memory_.data + 320, other.data(), 320, at::kCPU);
  std::memcpy(bytes_.data() + 320, other.data(), 320);
  EXPECT_TRUE(shows(320, 320));
  EXPECT_TRUE(shows(0, 320));
  EXPECT_TRUE(shows(7000, 320));  // never fetched
  std::vector<std::byte> back(320);
  tier_.read(back.data(), at::kCPU, memory_.data + 320, 320);
  EXPECT_EQ(back, other);
}

TEST_P(StagedTierTest, ConcurrentReadersSeeWhatTheyFetched) {
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([this, r] {
      for (int round = 0; round < 200; ++round) {
        const std::int64_t first = (r * 320 + round * 64) % 60000, n = 640 + 320 * (round % 5);
        const ByteRange range[] = {{memory_.data + first, n}};
        if (round % 3 == 0) tier_.prefetch(range);
        tier_.fetch(range);
        for (std::int64_t at = first; at < first + n; at += 64) ASSERT_TRUE(shows(at, 64));
        tier_.release(range);
      }
    });
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace mneme
