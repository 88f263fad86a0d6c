#include "mneme/cache/prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "mneme/base/error.h"
#include "tests/support/thrown.h"

namespace mneme {
namespace {

/// Holds nothing, and takes no time.
class EmptyTier : public Tier {
 public:
  std::string name() const override { return "empty"; }
  bool resident() const override { return false; }
  TierMemory take(std::int64_t) override { return {}; }
  void write(std::byte*, const std::byte*, std::int64_t, at::Device) override {}
  void zero(std::byte*, std::int64_t) override {}
};

/// Writes down what it is asked for.
class RecordingTier final : public EmptyTier {
 public:
  void fetch(std::span<const ByteRange> ranges) override { note(fetched_, ranges); }
  void release(std::span<const ByteRange> ranges) noexcept override { note(released_, ranges); }

  bool was_fetched(const ByteRange& range) { return saw(fetched_, range); }
  bool was_released(const ByteRange& range) { return saw(released_, range); }
  bool fails = false;

 private:
  void note(std::vector<ByteRange>& list, std::span<const ByteRange> ranges) {
    if (fails) throw Error(ErrorKind::kIo, "cannot read");
    const std::lock_guard lock(mutex_);
    list.insert(list.end(), ranges.begin(), ranges.end());
    changed_.notify_all();
  }
  bool saw(const std::vector<ByteRange>& list, const ByteRange& range) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return std::ranges::find(list, range) != list.end(); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ByteRange> fetched_, released_;
};

std::byte bytes[3000];
const ByteRange kRanges[3] = {{bytes, 1000}, {bytes + 1000, 1000}, {bytes + 2000, 1000}};

void begin(Prefetcher& prefetcher, std::int64_t layer, const ByteRange& range) {
  prefetcher.next_ranges().push_back(range);
  prefetcher.begin(layer);
}

TEST(Prefetcher, BringsTheNextLayerAndReleasesTheLast) {
  const auto tier = std::make_shared<RecordingTier>();
  Prefetcher prefetcher(tier, 3);
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    begin(prefetcher, layer, kRanges[layer]);
    EXPECT_TRUE(tier->was_fetched(kRanges[layer]));
    prefetcher.end(layer);
    EXPECT_TRUE(tier->was_released(kRanges[layer]));
  }
  const auto fresh = std::make_shared<RecordingTier>();
  Prefetcher again(fresh, 3);
  begin(again, 1, kRanges[1]);
  again.end(1);
  begin(again, 0, kRanges[0]);  // layer 1 comes next, as it was read last time
  EXPECT_TRUE(fresh->was_fetched(kRanges[1]));
  again.end(0);
}

/// Takes its time.
class SlowTier final : public EmptyTier {
 public:
  void prefetch(std::span<const ByteRange> ranges) override { touch(ranges); }
  void release(std::span<const ByteRange> ranges) noexcept override { touch(ranges); }

  std::atomic<bool> third_layer_is_gone = false, touched_after_it_went = false;

 private:
  void touch(std::span<const ByteRange> ranges) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const ByteRange& range : ranges) {
      if (range == kRanges[2] && third_layer_is_gone) touched_after_it_went = true;
    }
  }
};

// Else a thread that is late would work on memory that is something else by then.
TEST(Prefetcher, ForgetsALayerBeforeItsMemoryGoes) {
  for (const bool released : {false, true}) {
    const auto tier = std::make_shared<SlowTier>();
    Prefetcher prefetcher(tier, 3);
    begin(prefetcher, 2, kRanges[2]);
    if (released) prefetcher.end(2);
    begin(prefetcher, 1, kRanges[1]);  // asks for layer 2
    if (!released) prefetcher.end(2);
    prefetcher.forget(2);
    tier->third_layer_is_gone = true;
    prefetcher.end(1);
    begin(prefetcher, 1, kRanges[1]);
    prefetcher.end(1);
    begin(prefetcher, 0, kRanges[0]);
    EXPECT_FALSE(tier->touched_after_it_went);
  }
}

TEST(Prefetcher, OneLayerIsItsOwnNext) {
  const auto tier = std::make_shared<RecordingTier>();
  Prefetcher prefetcher(tier, 1);
  for (int i = 0; i < 100; ++i) {
    begin(prefetcher, 0, kRanges[0]);
    prefetcher.end(0);
  }
  EXPECT_TRUE(tier->was_released(kRanges[0]));
}

TEST(Prefetcher, WhoReadsHearsWhatWentWrong) {
  const auto tier = std::make_shared<RecordingTier>();
  Prefetcher prefetcher(tier, 2);
  begin(prefetcher, 0, kRanges[0]);
  prefetcher.end(0);
  EXPECT_TRUE(tier->was_released(kRanges[0]));
  tier->fails = true;
  testing::thrown(ErrorKind::kIo, [&] { begin(prefetcher, 1, kRanges[1]); });
  tier->fails = false;
  begin(prefetcher, 1, kRanges[1]);
}

/// Reads on its own, as a file system does: prefetching is advice.
class AdvisedTier final : public EmptyTier {
 public:
  bool prefetch_waits() const override { return false; }
  void prefetch(std::span<const ByteRange> ranges) override { note(advised, ranges); }
  void fetch(std::span<const ByteRange> ranges) override {
    if (fails) throw Error(ErrorKind::kIo, "cannot read");
    note(fetched, ranges);
  }
  void release(std::span<const ByteRange> ranges) noexcept override { note(released, ranges); }

  std::vector<ByteRange> advised, fetched, released;
  bool fails = false;

 private:
  void note(std::vector<ByteRange>& list, std::span<const ByteRange> ranges) {
    const std::lock_guard lock(mutex_);
    list.insert(list.end(), ranges.begin(), ranges.end());
  }
  std::mutex mutex_;
};

TEST(Prefetcher, ATierThatReadsOnItsOwnNeedsNoThread) {
  const auto tier = std::make_shared<AdvisedTier>();
  Prefetcher prefetcher(tier, 2);
  begin(prefetcher, 1, kRanges[1]);
  prefetcher.end(1);
  begin(prefetcher, 0, kRanges[0]);
  EXPECT_EQ(tier->released, std::vector{kRanges[1]});
  EXPECT_EQ(tier->advised, std::vector{kRanges[1]});  // what layer 1 read last time
  prefetcher.end(0);
  tier->fails = true;
  testing::thrown(ErrorKind::kIo, [&] { begin(prefetcher, 1, kRanges[1]); });
  prefetcher.end(1);
  tier->released.clear();
  prefetcher.forget(1);  // its memory goes: what of it is to be released is released before
  EXPECT_EQ(tier->released, std::vector{kRanges[1]});
  tier->fails = false;
  tier->advised.clear();
  begin(prefetcher, 0, kRanges[0]);
  EXPECT_TRUE(tier->advised.empty());
}

TEST(Prefetcher, BringsEveryByteOnceOnAllThreads) {
  const auto tier = std::make_shared<AdvisedTier>();
  Prefetcher prefetcher(tier, 1);
  const std::vector<std::byte> memory(12'000'000);
  // Parts end inside ranges, ranges inside parts.
  std::vector<ByteRange>& wanted = prefetcher.next_ranges();
  for (const auto& [first, n] :
       {std::pair<std::int64_t, std::int64_t>{0, 10}, {100, 2'800'000}, {3'200'000, 1}, {3'600'000, 8'000'000}})
    wanted.push_back({memory.data() + first, n});
  const std::vector<ByteRange> ranges = wanted;
  prefetcher.begin(0);
  std::vector<int> times(memory.size());
  for (const ByteRange& part : tier->fetched) {
    for (std::int64_t i = 0; i < part.n_bytes; ++i) ++times[static_cast<std::size_t>(part.data - memory.data() + i)];
  }
  EXPECT_GT(tier->fetched.size(), 8u);
  for (const ByteRange& range : ranges) {
    for (std::int64_t i = 0; i < range.n_bytes; ++i) {
      int& n = times[static_cast<std::size_t>(range.data - memory.data() + i)];
      ASSERT_EQ(n, 1);
      n = 0;
    }
  }
  EXPECT_EQ(std::ranges::count(times, 0), std::ssize(times));
}

TEST(Prefetcher, EndsWhateverIsUnderWay) {
  for (int i = 0; i < 50; ++i) {
    Prefetcher prefetcher(std::make_shared<RecordingTier>(), 2);
    begin(prefetcher, 0, kRanges[0]);
    if (i % 2) prefetcher.end(0);
  }
}

}  // namespace
}  // namespace mneme
