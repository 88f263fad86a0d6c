#include "mneme/cache/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mneme/base/thread_pool.h"

namespace mneme {

namespace {

/// Does what is asked of it on a thread of its own: prefetches, and releases behind them.
class Worker {
 public:
  explicit Worker(std::shared_ptr<Tier> tier) : tier_(std::move(tier)), thread_([this] { work(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void reserve(std::size_t n, std::size_t n_layers) {
    const std::lock_guard lock(mutex_);
    wanted_.reserve(n);
    used_.reserve(n * n_layers);
    now_.reserve(n * n_layers);
  }

  /// Starts one; the one before must have been waited for.
  void prefetch(const std::vector<ByteRange>& ranges) {
    {
      const std::lock_guard lock(mutex_);
      wanted_.assign(ranges.begin(), ranges.end());
    }
    changed_.notify_all();
  }
  void wait_for_prefetch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return wanted_.empty(); });
  }

  void release(const std::vector<ByteRange>& ranges) {
    {
      std::unique_lock lock(mutex_);
      // No more is kept in memory than there is a place for on the list.
      changed_.wait(lock, [&] { return used_.empty() || used_.size() + ranges.size() <= used_.capacity(); });
      used_.insert(used_.end(), ranges.begin(), ranges.end());
    }
    changed_.notify_all();
  }

  /// Returns once there is nothing left to do.
  void finish() noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return wanted_.empty() && used_.empty() && !releasing_; });
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !wanted_.empty() || !used_.empty(); });
      if (stopping_) return;
      if (!wanted_.empty()) {
        lock.unlock();  // nobody else touches it until it is empty again
        try {
          tier_->prefetch(wanted_);
        } catch (const std::exception&) {
          // Whoever reads these ranges asks again and hears why.
        }
        lock.lock();
        wanted_.clear();
      } else {
        now_.clear();
        now_.swap(used_);
        releasing_ = true;
        changed_.notify_all();
        lock.unlock();
        tier_->release(now_);
        lock.lock();
        releasing_ = false;
      }
      changed_.notify_all();
    }
  }

  const std::shared_ptr<Tier> tier_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ByteRange> wanted_, used_;
  std::vector<ByteRange> now_;  // of the thread
  bool releasing_ = false, stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

constexpr std::int64_t kPartBytes = std::int64_t{1} << 20;
constexpr std::uintptr_t kPage = std::uintptr_t{64} << 10;  ///< the largest that systems use

}  // namespace

struct Prefetcher::State {
  State(std::shared_ptr<Tier> where, std::int64_t n_layers)
      : tier(std::move(where)), ranges(static_cast<std::size_t>(n_layers)) {
    if (tier->prefetch_waits()) worker.emplace(tier);
  }

  static std::int64_t n_parts(const std::vector<ByteRange>& ranges) {
    std::int64_t n_bytes = 0;
    for (const ByteRange& range : ranges) n_bytes += range.n_bytes;
    return (n_bytes + kPartBytes - 1) / kPartBytes;
  }
  /// Near that many bytes into a range, where a page ends: none belongs to two parts, for half a page is not released.
  static std::int64_t cut(const ByteRange& range, std::int64_t at) {
    if (at <= 0) return 0;
    const auto address = reinterpret_cast<std::uintptr_t>(range.data);
    const auto end = (address + static_cast<std::uintptr_t>(at) + kPage - 1) / kPage * kPage;
    return std::min(static_cast<std::int64_t>(end - address), range.n_bytes);
  }
  /// Calls f(range) for part `index` of the ranges, taken one after the other.
  template <class F>
  static void each_of_part(const std::vector<ByteRange>& ranges, std::int64_t index, F&& f) {
    const std::int64_t first = index * kPartBytes, last = first + kPartBytes;
    std::int64_t at = 0;
    for (const ByteRange& range : ranges) {
      const std::int64_t begin = cut(range, first - at), end = cut(range, last - at);
      if (begin < end) f(ByteRange{range.data + begin, end - begin});
      at += range.n_bytes;
    }
  }

  /// Fetches a layer's ranges, asks for the next one's and releases what was used before, on all threads at once: pages
  /// take time of a processor even where nothing is read, and a thread that waited for another would fall asleep.
  void bring(const std::vector<ByteRange>& wanted, const std::vector<ByteRange>& next_wanted) {
    std::mutex mutex;
    std::exception_ptr failure;
    const std::int64_t n = n_parts(wanted), n_next = n_parts(next_wanted);
    ThreadPool::global().run(n + n_next + 1, [&](std::int64_t part) noexcept {
      try {
        if (part == 0) {  // in one call: each makes all processors forget addresses
          tier->release(used);
        } else if (part <= n) {
          each_of_part(wanted, part - 1, [&](const ByteRange& range) { tier->fetch({&range, 1}); });
        } else {
          each_of_part(next_wanted, part - 1 - n, [&](const ByteRange& range) { tier->prefetch({&range, 1}); });
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
    used.clear();
    if (failure) std::rethrow_exception(failure);
  }

  const std::shared_ptr<Tier> tier;
  std::vector<std::vector<ByteRange>> ranges;  // by layer, as last read
  std::vector<ByteRange> next;                 // of whoever calls begin()
  std::vector<ByteRange> used;                 // to be released, where there is no worker
  std::optional<Worker> worker;                // none: the tier's prefetches do not wait
};

Prefetcher::Prefetcher(std::shared_ptr<Tier> tier, std::int64_t n_layers)
    : state_(std::make_unique<State>(std::move(tier), n_layers)) {}

Prefetcher::~Prefetcher() = default;

void Prefetcher::reserve(std::int64_t n) {
  State& s = *state_;
  const auto most = static_cast<std::size_t>(n);
  for (std::vector<ByteRange>& ranges : s.ranges) ranges.reserve(most);
  s.next.reserve(most);
  s.used.reserve(most * s.ranges.size());
  if (s.worker) s.worker->reserve(most, s.ranges.size());
}

std::vector<ByteRange>& Prefetcher::next_ranges() noexcept {
  state_->next.clear();
  return state_->next;
}

void Prefetcher::begin(std::int64_t index) {
  State& s = *state_;
  const auto layer = static_cast<std::size_t>(index), next = (layer + 1) % s.ranges.size();
  s.ranges[layer].swap(s.next);
  const bool has_next = next != layer && !s.ranges[next].empty();
  if (s.worker) {
    s.worker->wait_for_prefetch();
    if (has_next) s.worker->prefetch(s.ranges[next]);
    s.tier->fetch(s.ranges[layer]);  // quick where they were brought
  } else {
    static const std::vector<ByteRange> kNone;
    s.bring(s.ranges[layer], has_next ? s.ranges[next] : kNone);
  }
}

void Prefetcher::end(std::int64_t index) {
  State& s = *state_;
  const std::vector<ByteRange>& ranges = s.ranges[static_cast<std::size_t>(index)];
  if (s.worker) return s.worker->release(ranges);
  if (s.ranges.size() == 1) return s.tier->release(ranges);  // it is the next one too
  s.used.insert(s.used.end(), ranges.begin(), ranges.end());
}

void Prefetcher::forget(std::int64_t index) noexcept {
  State& s = *state_;
  if (s.worker) s.worker->finish();
  s.tier->release(s.used);
  s.used.clear();
  s.ranges[static_cast<std::size_t>(index)].clear();
}

}  // namespace mneme
