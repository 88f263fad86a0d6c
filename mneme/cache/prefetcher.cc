#include "mneme/cache/prefetcher.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace mneme {

struct Prefetcher::State {
  explicit State(std::shared_ptr<Tier> where, std::int64_t n_layers)
      : tier(std::move(where)), ranges(static_cast<std::size_t>(n_layers)), worker([this] { work(); }) {}
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    worker.join();
  }

  /// Fetches what is wanted, releases what was used, in the order in which they were asked for.
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || wanted || !used.empty(); });
      if (stopping) return;
      if (wanted) {
        now.assign(ranges[*wanted].begin(), ranges[*wanted].end());
        lock.unlock();
        try {
          tier->prefetch(now);
        } catch (const std::exception&) {
          // Whoever reads these ranges asks again and hears why.
        }
        lock.lock();
        wanted.reset();
        changed.notify_all();
      } else {
        now.clear();
        now.swap(used);
        releasing = true;
        changed.notify_all();
        lock.unlock();
        tier->release(now);
        lock.lock();
        releasing = false;
        changed.notify_all();
      }
    }
  }

  const std::shared_ptr<Tier> tier;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<ByteRange>> ranges;  // by layer, as last read
  std::vector<ByteRange> next;                 // of whoever calls begin()
  std::vector<ByteRange> now;                  // of the worker
  std::optional<std::size_t> wanted;           // layer
  std::vector<ByteRange> used;
  bool releasing = false, stopping = false;
  std::thread worker;  // last: it uses all of the above
};

Prefetcher::Prefetcher(std::shared_ptr<Tier> tier, std::int64_t n_layers)
    : state_(std::make_unique<State>(std::move(tier), n_layers)) {}

Prefetcher::~Prefetcher() = default;

void Prefetcher::reserve(std::int64_t n) {
  State& s = *state_;
  const auto most = static_cast<std::size_t>(n);
  const std::lock_guard lock(s.mutex);
  for (std::vector<ByteRange>& ranges : s.ranges) ranges.reserve(most);
  s.next.reserve(most);
  s.used.reserve(most * s.ranges.size());
  s.now.reserve(most * s.ranges.size());
}

std::vector<ByteRange>& Prefetcher::next_ranges() noexcept {
  state_->next.clear();
  return state_->next;
}

void Prefetcher::begin(std::int64_t index) {
  State& s = *state_;
  const auto layer = static_cast<std::size_t>(index), next = (layer + 1) % s.ranges.size();
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.wanted; });
    s.ranges[layer].swap(s.next);
    if (next != layer && !s.ranges[next].empty()) s.wanted = next;
  }
  s.changed.notify_all();
  s.tier->fetch(s.ranges[layer]);  // quick where they were brought
}

void Prefetcher::end(std::int64_t index) {
  State& s = *state_;
  {
    std::unique_lock lock(s.mutex);
    const std::vector<ByteRange>& ranges = s.ranges[static_cast<std::size_t>(index)];
    // No more is kept in memory than there is a place for on the list.
    s.changed.wait(lock, [&] { return s.used.empty() || s.used.size() + ranges.size() <= s.used.capacity(); });
    s.used.insert(s.used.end(), ranges.begin(), ranges.end());
  }
  s.changed.notify_all();
}

void Prefetcher::forget(std::int64_t index) noexcept {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&] { return !s.wanted && s.used.empty() && !s.releasing; });
  s.ranges[static_cast<std::size_t>(index)].clear();
}

}  // namespace mneme
