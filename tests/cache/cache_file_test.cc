// Saving and loading every cache kind, and files that lie.
#include "mneme/cache/cache_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <utility>

#include "mneme/base/safetensors_writer.h"
#include "mneme/cache/disk_tier.h"
#include "mneme/cache/presets.h"
#include "mneme/cache/staged_tier.h"
#include "tests/support/checked_cache.h"
#include "tests/support/files.h"

namespace mneme {
namespace {

using ::testing::AllOf;
using testing::CacheKind;
using testing::CheckedCache;
using testing::Counts;
using testing::for_each_kind;
using ::testing::HasSubstr;
using testing::layer_of;
using testing::TempFolder;
using testing::thrown;

TEST(CacheFile, WhatIsLoadedGoesOnAsIfNothingHadHappened) {
  const TempFolder folder;
  for_each_kind([&](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({150, 40}));
    c.reload(folder.path() + "/x");
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    EXPECT_EQ(c.cache().lengths(), (Counts{150, 40}));
    ASSERT_NO_FATAL_FAILURE(c.append({70, 1}));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({100, 100}));
    c.reload(folder.path() + "/x");  // over the file that this cache still reads
    c.crop(90);
    ASSERT_NO_FATAL_FAILURE(c.append({5, 5}));
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
  });
}

TEST(CacheFile, SharedBlocksAreWrittenOnceAndLoadedShared) {
  const TempFolder folder;
  CheckedCache c({.layers = {layer_of(Retention::all())}});
  ASSERT_NO_FATAL_FAILURE(c.append({640}));
  c.cache().save(folder.path() + "/one");
  c.repeat(20);
  c.cache().save(folder.path() + "/twenty");
  EXPECT_LT(std::filesystem::file_size(folder.path() + "/twenty"),
            std::filesystem::file_size(folder.path() + "/one") + 10000);
  const std::size_t n_blocks = c.blocks().size();
  c.reload(folder.path() + "/x");
  EXPECT_EQ(c.blocks().size(), n_blocks);
  ASSERT_NO_FATAL_FAILURE(c.append(Counts(20, 1)));
}

/// Bytes that only the tier can read, as those of another device are: addresses are of memory that may not be touched.
class FarTier final : public Tier {
 public:
  std::string name() const override { return "far"; }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t n) override {
    const TierMemory near = host_.take(n);
    void* const reserved = ::mmap(nullptr, static_cast<std::size_t>(n), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const data = static_cast<std::byte*>(reserved);
    offset_ = near.data - data;  // one piece of memory is all that the tests take
    EXPECT_FALSE(std::exchange(is_taken_, true));
    return {.data = data, .n_bytes = n, .owner = std::shared_ptr<void>(reserved, [n, near](void* memory) {
                                          ::munmap(memory, static_cast<std::size_t>(n));
                                        })};
  }
  void write(std::byte* to, const std::byte* from, std::int64_t n, at::Device where) override {
    host_.write(to + offset_, from, n, where);
  }
  void read(std::byte* to, at::Device where, const std::byte* from, std::int64_t n) override {
    host_.read(to, where, from + offset_, n);
  }
  void zero(std::byte* data, std::int64_t n) override { host_.zero(data + offset_, n); }
  const std::byte* address(const std::byte* data, std::int64_t) const override { return data + offset_; }

 private:
  HostTier host_{at::Device(at::kCPU)};
  std::ptrdiff_t offset_ = 0;
  bool is_taken_ = false;
};

// What is offloaded from a device lies with the host or on disk, and other blocks where the host cannot read.
TEST(CacheFile, BlocksAreFetchedFromWhereverTheyLie) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x", expected = folder.path() + "/expected";
  const CacheShape shape{.layers = {layer_of(Retention::all())}};
  const std::function<std::shared_ptr<Tier>()> tiers[] = {
      [] { return std::make_shared<StagedTier>(std::make_shared<HostTier>(at::Device(at::kCPU)), at::kCPU); },
      [] { return std::make_shared<StagedTier>(std::make_shared<DiskTier>(""), at::kCPU); },
      [] { return std::make_shared<FarTier>(); }};
  const auto append = [](Cache& cache) {
    unsigned seed = 0;
    for (const std::int64_t n : {100, 1, 150}) {
      testing::Matrix keys = testing::Matrix::random(n, 32, ++seed), values = testing::Matrix::random(n, 32, ++seed);
      const std::int64_t counts[] = {n}, row_starts[] = {0, n};
      cache.prepare(counts);
      cache.layer(0).attention().append(cache.workspace(), row_starts, {.keys = keys.rows(), .values = values.rows()});
    }
  };
  for (const bool encoded : {false, true}) {
    CacheOptions options{.quantized = encoded, .config = {.offloading = true}};
    if (encoded) options.config.backend = "kivi", options.config.residual_length = 0;
    Cache plain(shape, options);
    append(plain);
    plain.save(expected);
    for (const auto& tier : tiers) {
      Cache cache(shape, options);
      KvStorage storage = cache.layer(0).attention().storage();
      for (std::shared_ptr<BlockPool>* pool : {&storage.sealed_pool, &storage.first_pool}) {
        *pool = std::make_shared<BlockPool>((*pool)->block_bytes(), tier(), std::make_shared<ByteBudget>(0));
        (*pool)->reserve(8);
      }
      cache.layer(0) = CacheLayer(KvLayer(storage), std::nullopt);
      append(cache);
      cache.save(path);
      EXPECT_EQ(testing::read_file(path), testing::read_file(expected));
    }
    for (const bool map : {true, false}) {
      Cache loaded = Cache::load(path, shape, {.map = map});
      EXPECT_TRUE(at::equal(loaded.layer(0).keys(), plain.layer(0).keys()));
      EXPECT_TRUE(at::equal(loaded.layer(0).values(), plain.layer(0).values()));
    }
  }
}

// Read at once, a cache is as one that was never saved: in its own memory and tiers, whatever becomes of the file.
TEST(CacheFile, WhatIsReadAtOnceNeedsNoFile) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  for_each_kind([&](const CacheKind& kind) {
    CheckedCache c(kind);
    ASSERT_NO_FATAL_FAILURE(c.append({150, 40}));
    c.record();
    ASSERT_NO_FATAL_FAILURE(c.append({70, 70}));
    const std::int64_t bytes = c.cache().n_bytes(), offloaded = c.cache().n_bytes_offloaded();
    c.reload(path, {.map = false});
    std::ofstream(path, std::ios::binary | std::ios::in).write(std::string(100000, 'x').data(), 100000);
    if (!kind.fixed) {
      EXPECT_EQ(c.cache().n_bytes(), bytes);
      EXPECT_EQ(c.cache().n_bytes_offloaded(), offloaded);
    }
    ASSERT_NO_FATAL_FAILURE(c.expect_same());
    c.crop(30);
    ASSERT_NO_FATAL_FAILURE(c.append({1, 64}));
  });
}

TEST(CacheFile, RemembersIdsAndModel) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  const CacheKind kind{.layers = {layer_of(Retention::all())}};
  CheckedCache c(kind);
  ASSERT_NO_FATAL_FAILURE(c.append({3, 2}));
  c.cache().save(path, {.token_ids = {{5, 6, 7}, {8, 9}}, .model = "abc"});
  const CacheFileInfo info = CacheFileInfo::read(path);
  EXPECT_EQ(info.token_ids, (std::vector<std::vector<std::int64_t>>{{5, 6, 7}, {8, 9}}));
  EXPECT_EQ(info.model, "abc");
  Cache::load(path, kind.shape(), {.model = "abc"});
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { Cache::load(path, kind.shape(), {.model = "xyz"}); }),
              AllOf(HasSubstr("abc"), HasSubstr("xyz")));
  EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { c.cache().save(path, {.token_ids = {{1}}}); }),
              AllOf(HasSubstr("1 sequences"), HasSubstr("holds 2")));
}

TEST(CacheFile, RefusesAnotherModel) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  DynamicCache({.layers = {layer_of(Retention::all())}}).save(path);
  const auto refused = [&](const std::vector<LayerShape>& layers) {
    return thrown(ErrorKind::kInvalidArgument, [&] { Cache::load(path, {.layers = layers}); });
  };
  EXPECT_THAT(refused({layer_of(Retention::all()), layer_of(Retention::all())}),
              AllOf(HasSubstr("1 layers"), HasSubstr("has 2")));
  EXPECT_THAT(refused({layer_of(Retention::last(8))}), AllOf(HasSubstr("all"), HasSubstr("last 8")));
  EXPECT_THAT(refused({layer_of(Retention::all(), 24)}), AllOf(HasSubstr("16 and 16"), HasSubstr("16 and 24")));
}

TEST(CacheFile, RefusesFilesOfOtherKindsAndVersions) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  const CacheShape shape{.layers = {layer_of(Retention::all())}};
  CacheFileInfo info;
  info.shape = shape;
  const auto load = [&](ErrorKind kind, const std::map<std::string, std::string>& metadata) {
    SafetensorsWriter writer;
    for (const auto& [key, value] : metadata) writer.set(key, value);
    writer.set("checksum", cache_file_checksum(metadata, {}));
    writer.write(path);
    return thrown(kind, [&] { Cache::load(path, shape); });
  };
  EXPECT_THAT(load(ErrorKind::kCorruptData, {{"format", "pt"}}), HasSubstr("\"pt\""));
  EXPECT_THAT(load(ErrorKind::kCorruptData, {{"a", "b"}}), HasSubstr("not a saved cache"));
  auto metadata = cache_file_metadata(info);
  metadata["version"] = "4";
  EXPECT_THAT(load(ErrorKind::kUnsupported, metadata), AllOf(HasSubstr("version 4"), HasSubstr("version 3")));
  metadata = cache_file_metadata(info);
  metadata["arithmetic"] = "guesses";
  EXPECT_THAT(load(ErrorKind::kUnsupported, metadata), HasSubstr("guesses"));
  metadata = cache_file_metadata(info);
  metadata["shape"] = "{}";
  load(ErrorKind::kCorruptData, metadata);
  EXPECT_THAT(load(ErrorKind::kCorruptData, cache_file_metadata(info)), HasSubstr("missing"));
  thrown(ErrorKind::kIo, [&] { Cache::load(folder.path() + "/nothing", shape); });
}

/// Any byte of a saved cache changed, or any part of it gone.
TEST(CacheFile, DamagedFilesAreRefused) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  std::mt19937 random(1);
  const CacheKind kind{.layers = {layer_of(Retention::all()), layer_of(Retention::last(70))},
                       .quantized = true,
                       .config = {.backend = "kivi", .residual_length = 64}};
  CheckedCache c(kind);
  ASSERT_NO_FATAL_FAILURE(c.append({200, 3}));
  c.cache().save(path, {.token_ids = {{1}, {2}}});
  const std::string whole = testing::read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = whole;
    if (round % 5 == 0) {
      bytes.resize(random() % bytes.size());
    } else {  // the header, the lists of blocks at the end, blocks
      const std::uint64_t end = round % 5 == 1 ? header + 8 : bytes.size();
      const std::uint64_t begin = round % 5 == 2 ? bytes.size() - 1200 : 0;
      char& byte = bytes[begin + random() % (end - begin)];
      const char changed = static_cast<char>(random());
      if (changed == byte || (byte == ' ' && std::isspace(static_cast<unsigned char>(changed)))) continue;
      byte = changed;
    }
    folder.write("x", bytes);
    EXPECT_THROW(Cache::load(path, kind.shape()), Error) << round;
  }
}

}  // namespace
}  // namespace mneme
