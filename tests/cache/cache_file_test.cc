// Saving and loading every cache kind, and files that lie.
#include "mneme/cache/cache_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "mneme/base/safetensors_writer.h"
#include "mneme/cache/presets.h"
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
    writer.write(path);
    return thrown(kind, [&] { Cache::load(path, shape); });
  };
  EXPECT_THAT(load(ErrorKind::kCorruptData, {{"format", "pt"}}), HasSubstr("\"pt\""));
  EXPECT_THAT(load(ErrorKind::kCorruptData, {{"a", "b"}}), HasSubstr("not a saved cache"));
  auto metadata = cache_file_metadata(info);
  metadata["version"] = "2";
  EXPECT_THAT(load(ErrorKind::kUnsupported, metadata), AllOf(HasSubstr("version 2"), HasSubstr("version 1")));
  metadata = cache_file_metadata(info);
  metadata["arithmetic"] = "guesses";
  EXPECT_THAT(load(ErrorKind::kUnsupported, metadata), HasSubstr("guesses"));
  metadata = cache_file_metadata(info);
  metadata["shape"] = "{}";
  load(ErrorKind::kCorruptData, metadata);
  EXPECT_THAT(load(ErrorKind::kCorruptData, cache_file_metadata(info)), HasSubstr("missing"));
  thrown(ErrorKind::kIo, [&] { Cache::load(folder.path() + "/nothing", shape); });
}

/// Changes bytes of a saved cache: it is refused by one Error, or what it holds can be used.
TEST(CacheFile, DamagedFilesAreRefusedOrHarmless) {
  const TempFolder folder;
  const std::string path = folder.path() + "/x";
  std::mt19937 random(1);
  std::int64_t refused = 0;
  const CacheKind kind{.layers = {layer_of(Retention::all()), layer_of(Retention::last(70))},
                       .quantized = true,
                       .config = {.backend = "kivi", .residual_length = 64}};
  CheckedCache c(kind);
  ASSERT_NO_FATAL_FAILURE(c.append({200, 3}));
  c.cache().save(path, {.token_ids = {{1}, {2}}});
  const std::string whole = testing::read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    if (round % 5 == 0) {
      bytes.resize(random() % bytes.size());
    } else {
      // The header, and the lists of blocks at the end, are where damage could do harm.
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
        const std::uint64_t at = round % 2 ? random() % (header + 8) : bytes.size() - 1 - random() % 1200;
        bytes[at] = static_cast<char>(random());
      }
    }
    folder.write("x", bytes);
    try {
      Cache cache = Cache::load(path, kind.shape());
      if (cache.n_sequences() > 0 && cache.n_sequences() < 10) {
        const Counts one(static_cast<std::size_t>(cache.n_sequences()), 1);
        cache.prepare(one);
        cache.crop(0);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace mneme
