#include "mneme/cache/disk_tier.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "mneme/base/mapped_file.h"
#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::thrown;

constexpr std::int64_t kBytes = 100000;

std::vector<std::byte> pattern(std::int64_t n, int seed) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte((i * 31 + static_cast<std::size_t>(seed)) & 255);
  return bytes;
}

bool holds(const std::byte* data, const std::vector<std::byte>& bytes) {
  return std::memcmp(data, bytes.data(), bytes.size()) == 0;
}

TEST(DiskTier, HoldsWhatWasWritten) {
  DiskTier tier("");
  const TierMemory a = tier.take(kBytes), b = tier.take(kBytes);
  EXPECT_EQ(a.data[kBytes - 1], std::byte{0});
  const auto first = pattern(kBytes, 1), second = pattern(500, 2);
  tier.write(a.data, first.data(), kBytes, at::kCPU);
  tier.write(b.data + 777, second.data(), 500, at::kCPU);
  EXPECT_TRUE(holds(a.data, first));
  EXPECT_TRUE(holds(b.data + 777, second));
  tier.zero(a.data + 10, 20);
  EXPECT_EQ(a.data[9], first[9]);
  EXPECT_EQ(a.data[10], std::byte{0});
  EXPECT_EQ(a.data[30], first[30]);
}

TEST(DiskTier, ReleasedBytesAreStillThere) {
  DiskTier tier("");
  const TierMemory memory = tier.take(kBytes);
  const auto bytes = pattern(kBytes, 3);
  tier.write(memory.data, bytes.data(), kBytes, at::kCPU);
  const ByteRange ranges[] = {{memory.data, 40000}, {memory.data + 50000, 100}};
  for (int i = 0; i < 3; ++i) {
    tier.fetch(ranges);
    EXPECT_TRUE(holds(memory.data, bytes));
    tier.release(ranges);
  }
  EXPECT_TRUE(holds(memory.data, bytes));
}

/// Bytes of pages of the range that are mapped into this process.
std::int64_t mapped_bytes(const std::byte* data, std::int64_t n_bytes) {
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto first = reinterpret_cast<std::uintptr_t>(data) / static_cast<std::uintptr_t>(page);
  FILE* pagemap = std::fopen("/proc/self/pagemap", "rb");
  std::int64_t mapped = 0;
  for (std::int64_t i = 0; pagemap && i < n_bytes / page; ++i) {
    std::uint64_t entry = 0;
    std::fseek(pagemap, static_cast<long>((first + static_cast<std::uintptr_t>(i)) * sizeof(entry)), SEEK_SET);
    if (std::fread(&entry, sizeof(entry), 1, pagemap) == 1 && (entry >> 63) != 0) mapped += page;
  }
  if (pagemap) std::fclose(pagemap);
  return mapped;
}

TEST(DiskTier, FetchMapsAndReleaseGivesBack) {
  DiskTier tier("");
  constexpr std::int64_t kMany = 4 << 20;
  const TierMemory memory = tier.take(kMany);
  const auto bytes = pattern(kMany, 4);
  tier.write(memory.data, bytes.data(), kMany, at::kCPU);
  EXPECT_EQ(mapped_bytes(memory.data, kMany), 0);
  const ByteRange all[] = {{memory.data, kMany}};
  tier.fetch(all);
  EXPECT_EQ(mapped_bytes(memory.data, kMany), kMany);
  tier.release(all);
  EXPECT_EQ(mapped_bytes(memory.data, kMany), 0);
}

/// Whether the system holds all pages of the range.
bool in_page_cache(const std::byte* data, std::int64_t n_bytes) {
  std::vector<unsigned char> pages(static_cast<std::size_t>((n_bytes + 4095) / 4096));
  ::mincore(const_cast<std::byte*>(data), static_cast<std::size_t>(n_bytes), pages.data());
  return std::ranges::all_of(pages, [](unsigned char page) { return page & 1; });
}

/// The system forgets what it holds of this process's files without a name.
void drop_page_cache() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.find("(deleted)") == target.npos) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

TEST(DiskTier, AdvisesTheSystemOnlyWhereAFetchHadToWait) {
  DiskTier tier("");
  constexpr std::int64_t kMany = 4 << 20, kHalf = kMany / 2;
  const TierMemory memory = tier.take(kMany);
  const auto bytes = pattern(kMany, 8);
  tier.write(memory.data, bytes.data(), kMany, at::kCPU);
  const ByteRange first[] = {{memory.data, kHalf}}, second[] = {{memory.data + kHalf, kHalf}};
  tier.fetch(first);  // out of the page cache
  tier.release(first);
  drop_page_cache();
  if (in_page_cache(memory.data + kHalf, kHalf)) GTEST_SKIP() << "files in memory are never cold";
  tier.prefetch(second);
  EXPECT_FALSE(in_page_cache(memory.data + kHalf, kHalf));
  tier.fetch(first);  // off the disk; what lies behind it may be read ahead
  tier.release(first);
  tier.prefetch(second);
  bool there = false;
  for (int i = 0; i < 500 && !there; ++i) {
    there = in_page_cache(memory.data + kHalf, kHalf);
    if (!there) ::usleep(10000);
  }
  EXPECT_TRUE(there);
  EXPECT_TRUE(holds(memory.data, bytes));
}

// A loaded cache has open blocks beside sealed ones in one private map.
TEST(DiskTier, ReleaseLeavesNeighboursAlone) {
  const testing::TempFolder folder;
  const std::string path = folder.write("x", std::string(3 * 4096, 'a'));
  const MappedFile file(path, MappedFile::Access::kPrivate);
  auto* data = const_cast<std::byte*>(file.bytes().data());
  data[4096 + 3000] = std::byte{'b'};
  DiskTier tier("");
  const ByteRange ranges[] = {{data, 4096 + 2000}, {data + 4096 + 3500, 100}};
  tier.release(ranges);
  EXPECT_EQ(data[4096 + 3000], std::byte{'b'});
  EXPECT_EQ(data[0], std::byte{'a'});
}

TEST(DiskTier, TheFileHasNoName) {
  const testing::TempFolder folder;
  DiskTier tier(folder.path());
  const TierMemory memory = tier.take(kBytes);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DiskTier, MemoryOutlivesTheTier) {
  const auto bytes = pattern(kBytes, 5);
  TierMemory memory;
  {
    DiskTier tier("");
    memory = tier.take(kBytes);
    tier.write(memory.data, bytes.data(), kBytes, at::kCPU);
  }
  EXPECT_TRUE(holds(memory.data, bytes));
}

TEST(DiskTier, SaysWhyAFolderWillNotDo) {
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { DiskTier("/nowhere/at/all"); }),
              AllOf(HasSubstr("/nowhere/at/all"), HasSubstr("No such file"), HasSubstr("offload_folder")));
  EXPECT_THAT(thrown(ErrorKind::kIo, [] { DiskTier("/proc"); }), HasSubstr("/proc"));
}

// A limit on file sizes stands in for a full disk.
TEST(DiskTier, AFullDiskIsAnErrorWithBothNumbersAndChangesNothing) {
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  DiskTier tier("");
  const TierMemory memory = tier.take(kBytes);
  const auto bytes = pattern(kBytes, 6);
  tier.write(memory.data, bytes.data(), kBytes, at::kCPU);
  const struct rlimit limit { .rlim_cur = 1 << 20, .rlim_max = before.rlim_max };
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = thrown(ErrorKind::kOutOfMemory, [&] { tier.take(2 << 20); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("2097152"), HasSubstr("bytes are free"), HasSubstr("offload_folder")));
  EXPECT_TRUE(holds(memory.data, bytes));
  EXPECT_EQ(tier.take(kBytes).data[0], std::byte{0});
}

}  // namespace
}  // namespace mneme
