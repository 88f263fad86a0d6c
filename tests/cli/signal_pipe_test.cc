#include "mneme/cli/signal_pipe.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

#include "mneme/cli/interrupt.h"

namespace mneme::cli {
namespace {

bool is_ready(const SignalPipe& signals) {
  pollfd ready{.fd = signals.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) == 1;
}

TEST(SignalPipe, HoldsSignalsInTheirOrderWhicheverThreadTheyReach) {
  SignalPipe signals;
  EXPECT_FALSE(is_ready(signals));
  EXPECT_EQ(signals.take(), 0);
  std::raise(SIGWINCH);
  std::thread([] { std::raise(SIGINT); }).join();
  EXPECT_TRUE(is_ready(signals));
  EXPECT_EQ(signals.take(), SIGWINCH);
  EXPECT_EQ(signals.take(), SIGINT);
  EXPECT_FALSE(is_ready(signals));
}

TEST(SignalPipe, MoreSignalsThanItHoldsDoNotBlock) {
  SignalPipe signals;
  for (int i = 0; i < 100'000; ++i) std::raise(SIGCONT);
  EXPECT_EQ(signals.take(), SIGCONT);
}

TEST(SignalPipe, GoesOnAfterAnInterruptWhichMayThenComeTwice) {
  SignalPipe signals;
  {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
    EXPECT_TRUE(Interrupt::asked());
  }
  EXPECT_EQ(signals.take(), 0);
  std::raise(SIGINT);
  EXPECT_EQ(signals.take(), SIGINT);
}

TEST(SignalPipeDeathTest, AfterwardsAnInterruptIsOrdinary) {
  { const SignalPipe signals; }
  EXPECT_EXIT(std::raise(SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace mneme::cli
