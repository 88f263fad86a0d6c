#include "mneme/cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace mneme::cli {
namespace {

TEST(InterruptTest, TheFirstAsks) {
  const Interrupt interrupt;
  EXPECT_FALSE(Interrupt::asked());
  std::raise(SIGINT);
  EXPECT_TRUE(Interrupt::asked());
}

TEST(InterruptDeathTest, TheSecondEndsTheProcess) {
  const auto twice = [] {
    const Interrupt interrupt;
    std::raise(SIGINT);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(twice(), ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, AfterwardsAnInterruptIsOrdinary) {
  { const Interrupt interrupt; }
  EXPECT_EXIT(std::raise(SIGINT), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace mneme::cli
