#include "mneme/generate/step_plan.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "tests/generate/golden.h"
#include "tests/support/allocation_counter.h"

namespace mneme {
namespace {

using testing::golden_model;
using testing::left_padded;
using testing::Rows;
using testing::some_ids;
using testing::tensor_of;
using Ids = std::vector<std::int64_t>;

Sequence sequence(std::int64_t n_tokens, const char* finish_reason = "") {
  return {.tokens = Ids(static_cast<std::size_t>(n_tokens)), .finish_reason = finish_reason};
}

TEST(StepPlan, LeavesOutSequencesThatEnded) {
  std::vector<Sequence> sequences = {sequence(3), sequence(9, "stop"), sequence(5)};
  StepPlan plan(sequences);
  plan.set(0, 70, 2, 3);
  plan.set(2, 72, 14, 5);
  const TokenBatch batch = plan.batch();
  EXPECT_THAT(batch.ids, ::testing::ElementsAre(70, 72));
  EXPECT_THAT(batch.positions, ::testing::ElementsAre(2, 14));
  EXPECT_THAT(batch.row_starts, ::testing::ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(batch.known_lengths, ::testing::ElementsAre(3, 9, 5));
  EXPECT_THAT(plan.sequences(), ::testing::ElementsAre(0, 2));
  EXPECT_THAT(plan.rows(), ::testing::ElementsAre(0, 1));
  EXPECT_THAT(plan.counts(), ::testing::ElementsAre(1, 0, 1));
  EXPECT_TRUE(plan.fits(sequences));
  sequences[2].finish_reason = "stop";
  EXPECT_FALSE(plan.fits(sequences));
  sequences.pop_back();
  EXPECT_FALSE(plan.fits(sequences));
}

/// What a cache is, and whether it takes its memory once.
struct Kind {
  const char* name;
  GenerateOptions options;
  bool takes_memory_once = false;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"dynamic", {}},
      {"static", {.cache_implementation = "static"}, true},
      {"quantized", {.cache_config = {.backend = "kivi", .nbits = 2, .residual_length = 0}}},
      {"quantized static", {.cache_implementation = "static", .cache_config = {.backend = "int8"}}, true},
      {"offloaded", {.cache_implementation = "offloaded"}},
      {"offloaded static", {.cache_implementation = "offloaded_static"}, true},
  };
  return all;
}

class StepPlans : public ::testing::TestWithParam<std::string> {
 protected:
  GenerateOutput generate(const Rows& prompts, GenerateOptions options, std::int64_t n_new) const {
    options.max_new_tokens = n_new;
    if (!options.eos_token_id) options.eos_token_id = Ids{};
    return model_->generate(left_padded(prompts), options);
  }
  const std::shared_ptr<const CausalLM> model_ = golden_model(GetParam());
};

TEST_P(StepPlans, OneServesAllStepsOfEveryCache) {
  const Rows prompts = {some_ids(9, 1), some_ids(70, 2)};
  for (const Kind& kind : kinds()) {
    for (const bool samples : {false, true}) {
      GenerateOptions options = kind.options;
      options.do_sample = samples;
      options.seed = 5;
      const GenerateOutput planned = generate(prompts, options, 80);
      EXPECT_EQ(planned.plans_built, 1) << kind.name;
      EXPECT_EQ(planned.plan_replays, 79) << kind.name;
      EXPECT_EQ(planned.decode_steps, 79) << kind.name;
      options.disable_compile = true;
      const GenerateOutput anew = generate(prompts, options, 80);
      EXPECT_EQ(anew.plans_built, 79) << kind.name;
      EXPECT_EQ(anew.new_tokens, planned.new_tokens) << kind.name;
    }
  }
}

TEST_P(StepPlans, AnotherIsMadeWhereASequenceEnds) {
  const Rows prompts = {some_ids(9, 1), some_ids(20, 2), some_ids(15, 3)};
  const GenerateOutput free = generate(prompts, {}, 30);
  // The first to say what sequence 0 says at step 10 ends there or before.
  const GenerateOutput ended = generate(prompts, {.eos_token_id = Ids{free.new_tokens[0][10]}}, 30);
  std::set<std::size_t> ends;
  std::size_t longest = 0;
  for (const Ids& tokens : ended.new_tokens) longest = std::max(longest, tokens.size());
  for (const Ids& tokens : ended.new_tokens) {
    if (tokens.size() > 1 && tokens.size() < longest) ends.insert(tokens.size());
  }
  EXPECT_EQ(ended.plans_built, std::ssize(ends) + 1);
  EXPECT_EQ(ended.plan_replays, ended.decode_steps);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(ended.new_tokens[i],
              generate({prompts[i]}, {.eos_token_id = Ids{free.new_tokens[0][10]}}, 30).new_tokens[0]);
  }
}

#ifdef MNEME_COUNTS_ALLOCATIONS
std::atomic<std::int64_t> n_dispatches{0};

std::unique_ptr<at::ObserverContext> count_dispatch(const at::RecordFunction&) {
  n_dispatches.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

/// Nothing comes from the heap and nothing goes to ATen from one token to the next.
TEST_P(StepPlans, AReplayAllocatesNothingAndAsksNothingOfAten) {
  const at::CallbackHandle handle = at::addGlobalCallback(at::RecordFunctionCallback(count_dispatch));
  at::empty({1});
  EXPECT_GT(n_dispatches, 0);
  for (const Kind& kind : kinds()) {
    for (const bool samples : {false, true}) {
      GenerateOptions options = kind.options;
      options.do_sample = samples;
      options.top_k = 20;
      options.seed = 5;
      std::vector<std::int64_t> allocations, dispatches;
      allocations.reserve(200), dispatches.reserve(200);
      options.on_token = [&](std::int64_t sequence, std::int64_t) {
        if (sequence != 0) return;
        allocations.push_back(testing::n_allocations());
        dispatches.push_back(n_dispatches);
      };
      // A thread takes scratch memory once, whenever it comes to work first, and a cache that grows takes blocks: what
      // a step allocates comes every time.
      const std::int64_t n_steps = 69, n_may_allocate = kind.takes_memory_once ? 0 : 6;
      std::int64_t fewest = n_steps;
      for (int round = 0; round < 6 && fewest > n_may_allocate; ++round) {
        allocations.clear(), dispatches.clear();
        generate({some_ids(9, 1), some_ids(70, 2)}, options, 150);
        ASSERT_EQ(allocations.size(), 150u);
        std::int64_t n_allocating = 0;
        for (std::size_t i = 80; i + 1 < allocations.size(); ++i) {
          n_allocating += allocations[i + 1] != allocations[i];
          EXPECT_EQ(dispatches[i + 1], dispatches[i]) << kind.name << " step " << i;
        }
        fewest = std::min(fewest, n_allocating);
      }
      EXPECT_LE(fewest, n_may_allocate) << kind.name << (samples ? " sampling" : "");
    }
  }
  at::removeCallback(handle);
}
#endif

INSTANTIATE_TEST_SUITE_P(Models, StepPlans,
                         ::testing::Values("llama", "mistral_window8", "gpt2", "qwen3_moe", "mamba", "qwen3_next"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mneme
