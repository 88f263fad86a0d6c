#include "mneme/base/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "mneme/base/error.h"
#include "mneme/base/flush_denormals.h"

namespace mneme {
namespace {

constexpr int kMaxThreads = 1024;
constexpr auto kSpin = std::chrono::microseconds(20);

/// True on a thread that is inside a task, of any pool.
thread_local bool in_task = false;

void pause() noexcept {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until done(word), spinning first; `word` changes with a notification.
template <class Done>
std::uint32_t wait_until(const std::atomic<std::uint32_t>& word, Done done) noexcept {
  const auto give_up = std::chrono::steady_clock::now() + kSpin;
  for (int spins = 1;; ++spins) {
    const std::uint32_t value = word.load(std::memory_order_acquire);
    if (done(value)) return value;
    pause();
    if (spins % 16 == 0 && std::chrono::steady_clock::now() > give_up) break;
  }
  for (;;) {
    const std::uint32_t value = word.load(std::memory_order_acquire);
    if (done(value)) return value;
    word.wait(value, std::memory_order_acquire);
  }
}

int usable_cores() noexcept {
  cpu_set_t cores;
  const bool known = sched_getaffinity(0, sizeof cores, &cores) == 0;
  const int n = known ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency());
  return n < 1 ? 1 : n > kMaxThreads ? kMaxThreads : n;
}

}  // namespace

/// Workers enter a job through the gate and leave it when no task is left. The caller opens the gate, works too, closes
/// it and waits for those inside: a worker that is late, or that the system has put aside, is not waited for.
///
///   gate = job number << 12 | open << 11 | workers inside
struct ThreadPool::State {
  static constexpr std::uint32_t kInside = (1u << 11) - 1, kOpen = 1u << 11, kJob = 1u << 12;

  alignas(64) std::atomic<std::uint32_t> gate{0};
  alignas(64) std::atomic<std::int64_t> next{0};   // the first task that nobody has taken
  alignas(64) std::atomic<std::uint32_t> left{0};  // the last job whose workers have all left after it was closed
  alignas(64) std::atomic<bool> stopping{false};

  // The job: written by the caller while the gate is closed and nobody is inside.
  Task task = nullptr;
  void* context = nullptr;
  std::int64_t n_tasks = 0;

  std::mutex busy;  // held by the caller whose job it is
  std::vector<std::thread> workers;
  std::atomic<int> n_threads{1};
  const pid_t process = getpid();  // workers do not live on in a forked child

  ~State() { stop(); }

  void take_tasks() noexcept {
    for (;;) {
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= n_tasks) return;
      task(context, i);
    }
  }

  void work() noexcept {
    in_task = true;
    const FlushDenormals flush;
    std::uint32_t last_job = gate.load(std::memory_order_relaxed) / kJob - 1;
    for (;;) {
      std::uint32_t value = wait_until(gate, [&](std::uint32_t g) {
        return stopping.load(std::memory_order_relaxed) || ((g & kOpen) && g / kJob != last_job);
      });
      if (stopping.load(std::memory_order_relaxed)) return;
      if (!gate.compare_exchange_weak(value, value + 1, std::memory_order_acquire)) continue;
      last_job = value / kJob;
      take_tasks();
      const std::uint32_t now = gate.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if (!(now & (kOpen | kInside))) {
        left.store(now / kJob, std::memory_order_release);
        left.notify_one();
      }
    }
  }

  void run_job(std::int64_t n, Task new_task, void* new_context) noexcept {
    task = new_task;
    context = new_context;
    n_tasks = n;
    next.store(0, std::memory_order_relaxed);
    const std::uint32_t job = gate.load(std::memory_order_relaxed) / kJob + 1;
    left.store(job - 1, std::memory_order_relaxed);  // not the same number of 2^20 jobs ago
    gate.store(job * kJob | kOpen, std::memory_order_release);
    gate.notify_all();
    take_tasks();
    const std::uint32_t closed = gate.fetch_and(~kOpen, std::memory_order_acq_rel);
    if (closed & kInside) wait_until(left, [&](std::uint32_t l) { return l == closed / kJob; });
  }

  void stop() noexcept {
    stopping.store(true, std::memory_order_relaxed);
    gate.fetch_add(kJob, std::memory_order_release);
    gate.notify_all();
    for (std::thread& worker : workers) getpid() == process ? worker.join() : worker.detach();
    workers.clear();
    stopping.store(false, std::memory_order_relaxed);
  }
};

ThreadPool& ThreadPool::global() {
  static ThreadPool* const pool = [] {
    auto* made = new ThreadPool(1);
    try {
      made->resize(usable_cores());
    } catch (const Error&) {  // a system short of threads: works with those it got
    }
    return made;
  }();
  return *pool;
}

ThreadPool::ThreadPool(int n_threads) : state_(std::make_unique<State>()) { resize(n_threads); }

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const noexcept { return state_->n_threads.load(std::memory_order_relaxed); }

void ThreadPool::resize(int n_threads) {
  check(n_threads >= 1 && n_threads <= kMaxThreads, ErrorKind::kInvalidArgument,
        "{} threads were asked for; give a number from 1 to {}", n_threads, kMaxThreads);
  check(!in_task, ErrorKind::kFailedPrecondition,
        "the number of threads cannot become {} inside a task; change it between runs", n_threads);
  check(getpid() == state_->process, ErrorKind::kFailedPrecondition,
        "{} threads were asked for in a forked process, where the pool has one; set their number before fork",
        n_threads);
  const std::lock_guard lock(state_->busy);
  if (n_threads == size()) return;
  state_->stop();
  state_->workers.reserve(static_cast<std::size_t>(n_threads - 1));
  try {
    while (static_cast<int>(state_->workers.size()) + 1 < n_threads) {
      state_->workers.emplace_back([state = state_.get()] { state->work(); });
    }
  } catch (const std::system_error& error) {
    state_->n_threads = static_cast<int>(state_->workers.size()) + 1;
    throw Error(ErrorKind::kIo, "the system started {} of {} threads ({}); ask for fewer or raise its limit", size(),
                n_threads, error.what());
  }
  state_->n_threads = n_threads;
}

void ThreadPool::run_tasks(std::int64_t n, Task task, void* context) noexcept {
  if (n <= 0) return;
  if (in_task) {
    for (std::int64_t i = 0; i < n; ++i) task(context, i);
    return;
  }
  const FlushDenormals flush;
  in_task = true;
  std::unique_lock lock(state_->busy, std::defer_lock);
  if (n > 1 && lock.try_lock() && !state_->workers.empty()) {
    state_->run_job(n, task, context);
  } else {
    for (std::int64_t i = 0; i < n; ++i) task(context, i);
  }
  in_task = false;
}

}  // namespace mneme
