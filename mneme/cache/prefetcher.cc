#include "mneme/cache/prefetcher.h"

#include <algorithm>
#include <condition_variable>
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

  /// Waits for the prefetch before, then starts one.
  void prefetch(const std::vector<ByteRange>& ranges) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return wanted_.empty(); });
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

constexpr std::int64_t kPartBytes = std::int64_t{256} << 10;

}  // namespace

struct Prefetcher::State {
  State(std::shared_ptr<Tier> where, std::int64_t n_layers)
      : tier(std::move(where)), ranges(static_cast<std::size_t>(n_layers)) {
    if (tier->prefetch_waits()) worker.emplace(tier);
  }

  /// Fetches on all threads, for bringing memory takes time of a processor even where nothing is read.
  void fetch(const std::vector<ByteRange>& wanted) {
    std::int64_t n_bytes = 0;
    for (const ByteRange& range : wanted) n_bytes += range.n_bytes;
    const std::int64_t n_parts = (n_bytes + kPartBytes - 1) / kPartBytes;
    std::mutex mutex;
    std::exception_ptr failure;
    ThreadPool::global().run(n_parts, [&](std::int64_t part) noexcept {
      try {
        fetch_part(wanted, part * kPartBytes, (part + 1) * kPartBytes);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    });
    if (failure) std::rethrow_exception(failure);
  }
  /// Bytes [first, last) of the ranges, taken one after the other.
  void fetch_part(const std::vector<ByteRange>& wanted, std::int64_t first, std::int64_t last) {
    std::int64_t at = 0;
    for (const ByteRange& range : wanted) {
      const std::int64_t begin = std::max(first - at, std::int64_t{0}), end = std::min(last - at, range.n_bytes);
      const ByteRange part{range.data + begin, end - begin};
      if (part.n_bytes > 0) tier->fetch({&part, 1});
      at += range.n_bytes;
    }
  }

  const std::shared_ptr<Tier> tier;
  std::vector<std::vector<ByteRange>> ranges;  // by layer, as last read
  std::vector<ByteRange> next;                 // of whoever calls begin()
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
    if (has_next) s.tier->prefetch(s.ranges[next]);
    s.fetch(s.ranges[layer]);
  }
}

void Prefetcher::end(std::int64_t index) {
  State& s = *state_;
  const std::vector<ByteRange>& ranges = s.ranges[static_cast<std::size_t>(index)];
  if (s.worker) return s.worker->release(ranges);
  s.tier->release(ranges);
}

void Prefetcher::forget(std::int64_t index) noexcept {
  State& s = *state_;
  if (s.worker) s.worker->finish();
  s.ranges[static_cast<std::size_t>(index)].clear();
}

}  // namespace mneme
