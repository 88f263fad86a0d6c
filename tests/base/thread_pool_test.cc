#include "mneme/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "mneme/base/error.h"

namespace mneme {
namespace {

float halved(float x) {
  const volatile float value = x;
  return value * 0.5f;
}
/// Of 1 and a little: above 1 only where rounding is upward.
float rounded_sum() {
  const volatile float little = 1e-12f;
  return 1.0f + little;
}
const float kSmallest = std::numeric_limits<float>::min();

TEST(ThreadPool, EveryTaskRunsOnceWhateverTheNumberOfThreads) {
  for (const int n_threads : {1, 2, 3, 7}) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.size(), n_threads);
    for (const int n : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<std::size_t>(n) + 1);
      pool.run(n, [&](std::int64_t i) { counts[static_cast<std::size_t>(i)].fetch_add(1); });
      for (int i = 0; i < n; ++i) EXPECT_EQ(counts[static_cast<std::size_t>(i)], 1) << i << " of " << n;
      EXPECT_EQ(counts.back(), 0);
    }
    pool.run(-3, [](std::int64_t) { FAIL(); });
  }
}

TEST(ThreadPool, WorkersTakePart) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each of two tasks waits for the other: one thread alone would never end.
  pool.run(2, [&](std::int64_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> arrived{0};
    pool.run(2, [&](std::int64_t) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, WhatTasksWroteIsSeenAfterwards) {
  ThreadPool pool(4);
  std::vector<int> values(10000);
  for (int round = 1; round < 200; ++round) {
    pool.run(100, [&](std::int64_t task) {
      for (std::size_t i = 0; i < 100; ++i) values[static_cast<std::size_t>(task) * 100 + i] = round;
    });
    for (const int value : values) ASSERT_EQ(value, round);
  }
}

TEST(ThreadPool, NestedRunsStayOnTheirThread) {
  ThreadPool pool(2), other(2);
  std::atomic<int> n_inner{0};
  pool.run(4, [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    pool.run(8, [&](std::int64_t) { n_inner += std::this_thread::get_id() == self; });
    other.run(8, [&](std::int64_t) { n_inner += std::this_thread::get_id() == self; });
  });
  EXPECT_EQ(n_inner, 4 * 16);
}

TEST(ThreadPool, DenormalsAreZeroInTasksAndTheCallersModeComesBack) {
  ASSERT_NE(halved(kSmallest), 0.0f);
  std::fesetround(FE_UPWARD);
  for (const int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    for (const int n : {1, 500}) {
      std::atomic<int> n_wrong{0};
      pool.run(n, [&](std::int64_t) {
        n_wrong += halved(kSmallest) != 0.0f;
        n_wrong += rounded_sum() != 1.0f;
      });
      EXPECT_EQ(n_wrong, 0);
      EXPECT_GT(rounded_sum(), 1.0f);
      EXPECT_NE(halved(kSmallest), 0.0f);
    }
  }
  std::fesetround(FE_TONEAREST);
}

TEST(ThreadPool, ResizesAndRefusesWhatItCannotBe) {
  ThreadPool pool(1);
  for (const int n_threads : {4, 2, 2, 1, 3}) {
    pool.resize(n_threads);
    EXPECT_EQ(pool.size(), n_threads);
    std::atomic<int> n{0};
    pool.run(100, [&](std::int64_t) { ++n; });
    EXPECT_EQ(n, 100);
  }
  for (const int n_threads : {0, -1, 1025}) {
    try {
      pool.resize(n_threads);
      FAIL() << n_threads;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    }
    EXPECT_THROW(ThreadPool{n_threads}, Error);
  }
  EXPECT_EQ(pool.size(), 3);
  ErrorKind kind{};
  pool.run(1, [&](std::int64_t) {
    try {
      pool.resize(2);
    } catch (const Error& error) {
      kind = error.kind();
    }
  });
  EXPECT_EQ(kind, ErrorKind::kFailedPrecondition);
}

TEST(ThreadPool, ResizeWaitsForWorkUnderWay) {
  ThreadPool pool(2);
  std::atomic<bool> started{false}, finished{false};
  std::thread caller([&] {
    pool.run(2, [&](std::int64_t) {
      started = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      finished = true;
    });
  });
  while (!started) std::this_thread::yield();
  pool.resize(3);
  EXPECT_TRUE(finished);
  caller.join();
}

TEST(ThreadPool, GlobalUsesTheCoresThatTheProcessMayUse) {
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  EXPECT_EQ(ThreadPool::global().size(), CPU_COUNT(&cores));
  EXPECT_EQ(&ThreadPool::global(), &ThreadPool::global());
}

#if !defined(__SANITIZE_THREAD__)
TEST(ThreadPool, AForkedChildWorksAloneAndEnds) {
  ThreadPool& pool = ThreadPool::global();
  pool.run(10, [](std::int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::atomic<int> n{0};
    pool.run(100, [&](std::int64_t) { ++n; });
    bool refused = false;
    try {
      pool.resize(3);
    } catch (const Error&) {
      refused = true;
    }
    exit(n == 100 && refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST(ThreadPoolConcurrency, CallersShareOnePool) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        std::int64_t sums[16] = {};
        pool.run(16, [&](std::int64_t i) { sums[i] = i; });
        for (const std::int64_t sum : sums) total += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 300 * 120);
}

TEST(ThreadPoolConcurrency, ResizingUnderLoad) {
  ThreadPool pool(2);
  std::atomic<bool> stop{false};
  std::thread caller([&] {
    while (!stop) {
      int values[8] = {};
      pool.run(8, [&](std::int64_t i) { values[i] = 1; });
      for (const int value : values) ASSERT_EQ(value, 1);
    }
  });
  for (int round = 0; round < 30; ++round) pool.resize(1 + round % 4);
  stop = true;
  caller.join();
}

}  // namespace
}  // namespace mneme
