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
        const std::vector<ByteRange> now = ranges[*wanted];
        lock.unlock();
        try {
          tier->fetch(now);
        } catch (const std::exception&) {
          // Whoever reads these ranges asks again and hears why.
        }
        lock.lock();
        wanted.reset();
        changed.notify_all();
      } else {
        const std::vector<ByteRange> now = std::move(used);
        used.clear();
        lock.unlock();
        tier->release(now);
        lock.lock();
      }
    }
  }

  const std::shared_ptr<Tier> tier;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::vector<ByteRange>> ranges;  // by layer, as last read
  std::optional<std::size_t> wanted;           // layer
  std::vector<ByteRange> used;
  bool stopping = false;
  std::thread worker;  // last: it uses all of the above
};

Prefetcher::Prefetcher(std::shared_ptr<Tier> tier, std::int64_t n_layers)
    : state_(std::make_unique<State>(std::move(tier), n_layers)) {}

Prefetcher::~Prefetcher() = default;

void Prefetcher::begin(std::int64_t index, std::vector<ByteRange> ranges) {
  State& s = *state_;
  const auto layer = static_cast<std::size_t>(index), next = (layer + 1) % s.ranges.size();
  {
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !s.wanted; });
    s.ranges[layer] = std::move(ranges);
    if (next != layer && !s.ranges[next].empty()) s.wanted = next;
  }
  s.changed.notify_all();
  s.tier->fetch(s.ranges[layer]);  // quick where they were brought
}

void Prefetcher::end(std::int64_t index) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.mutex);
    const std::vector<ByteRange>& ranges = s.ranges[static_cast<std::size_t>(index)];
    s.used.insert(s.used.end(), ranges.begin(), ranges.end());
  }
  s.changed.notify_all();
}

}  // namespace mneme
