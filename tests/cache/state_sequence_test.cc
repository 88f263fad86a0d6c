#include "mneme/cache/state_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

// What a crop leaves is in state_layer_test.cc; this is which parts, read from a file, make a sequence.
namespace mneme {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateSequenceTest : public ::testing::Test {
 protected:
  /// 200 tokens, of which those behind the first 50 are recorded.
  StateSequence recorded() {
    StateSequence s;
    s.states = s.kept = pool_.take();
    s.length = s.computed = 200;
    s.first_kept = s.first_recorded = 50;
    for (int b = 0; b <= 3; ++b) {
      s.inputs.push_back(pool_.take());
      s.snapshots.push_back(b == 0 ? BlockRef() : pool_.take());
    }
    return s;
  }

  BlockPool pool_{64, std::make_shared<DeviceTier>(at::kCPU), std::make_shared<ByteBudget>(0)};
};

TEST_F(StateSequenceTest, WhatCanBe) {
  EXPECT_THAT(StateSequence().fault(false), IsEmpty());
  EXPECT_THAT(StateSequence().fault(true), IsEmpty());
  StateSequence s = recorded();
  EXPECT_THAT(s.fault(true), IsEmpty());
  s.crop(13);  // its inputs are to be replayed
  EXPECT_THAT(s.fault(true), IsEmpty());
  EXPECT_EQ(s.computed, 128);
  s.crop(0);
  EXPECT_THAT(s.fault(true), IsEmpty());
  StateSequence plain;
  plain.states = pool_.take();
  plain.length = plain.computed = 9;
  EXPECT_THAT(plain.fault(false), IsEmpty());
}

TEST_F(StateSequenceTest, WhatCannotBe) {
  const auto fault = [&](const std::function<void(StateSequence&)>& change, bool recording = true) {
    StateSequence s = recorded();
    change(s);
    return s.fault(recording);
  };
  EXPECT_THAT(fault([](auto& s) { s.computed = 201; }), HasSubstr("of 200 tokens has states after 201"));
  EXPECT_THAT(fault([](auto& s) { s.first_kept = 201; }), HasSubstr("kept ones after 201"));
  EXPECT_THAT(fault([](auto& s) { s.first_recorded = 49; }), HasSubstr("records from 49"));
  EXPECT_THAT(fault([](auto& s) { s.first_recorded = 201; }), HasSubstr("records from 201"));
  EXPECT_THAT(fault([](auto& s) { s.states = BlockRef(); }), HasSubstr("no states after 200"));
  EXPECT_THAT(fault([](auto& s) { s.kept = BlockRef(); }), HasSubstr("no states after 50"));
  EXPECT_THAT(fault([](auto& s) { s.computed = 128; }), HasSubstr("not those it keeps"));
  EXPECT_THAT(fault([](auto& s) { s.inputs.release(2); }), HasSubstr("inputs of its tokens 50 to 200"));
  EXPECT_THAT(fault([](auto& s) { s.inputs.truncate(3); }), HasSubstr("inputs of its tokens 50 to 200"));
  EXPECT_THAT(fault([](auto& s) { s.snapshots.release(3); }), HasSubstr("states between 50 and 200"));
  EXPECT_THAT(fault([](auto& s) { s.length = s.computed = std::int64_t{1} << 53; }), HasSubstr("inputs"));
  EXPECT_THAT(fault([](auto&) {}, /*recording=*/false), HasSubstr("not recorded"));
}

}  // namespace
}  // namespace mneme
