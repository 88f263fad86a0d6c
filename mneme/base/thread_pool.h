#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace mneme {

/// One pool of threads for the whole process. Work is fork-join: `run` hands out tasks and returns when all are done.
///
/// Workers spin for at most 20 microseconds and then sleep, so that an idle pool costs nothing and a loaded machine is
/// not made worse. Every thread works with denormals flushed to zero (FlushDenormals), the caller too while it is in
/// `run`. When the pool is busy with another caller's work, `run` does all tasks on the calling thread: results never
/// depend on the number of threads, only the time does. So it is in a forked child, which has no workers.
class ThreadPool {
 public:
  /// The process's pool; starts with one thread for each core that the process may use. It is never destroyed: its
  /// workers may outlive the statics of other files, and a forked child could not join them.
  static ThreadPool& global();

  /// n_threads threads, 1 to 1024, the caller of `run` being one of them. Throws as `resize` does.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;

  /// Changes the number of threads; waits for work under way. Throws Error(kInvalidArgument) outside 1 to 1024,
  /// Error(kFailedPrecondition) from inside a task, and Error(kIo) if the system starts no more threads (the pool then
  /// works with those it got).
  void resize(int n_threads);

  /// Calls f(i) once for every i in [0, n), spread over the threads; tasks are taken one by one, so uneven ones
  /// balance. f must not throw. One task, or a call from inside a task, runs on the calling thread. Costs no
  /// allocation, and well under a microsecond while the workers spin.
  template <class F>
  void run(std::int64_t n, F&& f) noexcept {
    using Function = std::remove_reference_t<F>;
    run_tasks(
        n, [](void* context, std::int64_t i) noexcept { (*static_cast<Function*>(context))(i); },
        const_cast<std::remove_const_t<Function>*>(&f));
  }

 private:
  using Task = void (*)(void* context, std::int64_t i) noexcept;
  void run_tasks(std::int64_t n, Task task, void* context) noexcept;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mneme
