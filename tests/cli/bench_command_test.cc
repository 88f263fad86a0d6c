#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"

namespace mneme::cli {
namespace {

Arguments bench(const TinyModel& model, const Arguments& more) {
  Arguments all = {"bench", "--model", model.path(), "--dtype", "float32", "--max-new-tokens", "4", "--repeat", "2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(BenchCommandTest, MeasuresEveryDepthAndBatchSize) {
  const TinyModel model;
  const Json result = run_json(bench(model, {"--depths", "0,9", "--batch-sizes", "1,3"}));
  ASSERT_EQ(result["results"].size(), 4u);
  for (const Json& line : result["results"]) {
    EXPECT_GT(line["decode_tokens_per_s"].get<double>(), 0);
    EXPECT_NEAR(line["step_ms"].get<double>() * line["decode_tokens_per_s"].get<double>(),
                1e3 * line["batch_size"].get<double>(), 1e-6);
    EXPECT_EQ(line.contains("prefill_tokens_per_s"), line["depth"] != 0);
    if (line.contains("prefill_tokens_per_s")) {
      EXPECT_EQ(line["prefill_rounds"], 2);
    }
    EXPECT_GT(line["bytes_per_step"].get<double>(), line["cache_bytes"].get<double>());
    EXPECT_NEAR(line["gigabytes_per_s"].get<double>() * line["step_ms"].get<double>() * 1e6,
                line["bytes_per_step"].get<double>(), 1);
  }
  EXPECT_EQ(result["results"][1]["depth"], 9);
  EXPECT_EQ(result["results"][2]["batch_size"], 3);
  EXPECT_GT(result["stream_gbps"]["before"].get<double>(), 0);
  EXPECT_GT(result["weight_bytes"], 0);
}

TEST(BenchCommandTest, DepthsThatAreNoNumbersAreNotCalledIds) {
  EXPECT_THAT(refused({"bench", "--depths", "4k"}),
              ::testing::AllOf(::testing::HasSubstr("4k"), ::testing::HasSubstr("numbers")));
}

TEST(BenchCommandTest, TakesEveryCache) {
  const TinyModel model;
  for (const Arguments& cache : {Arguments{"--cache-implementation", "static"}, Arguments{"--no-use-cache"},
                                 Arguments{"--cache-implementation", "offloaded"},
                                 Arguments{"--cache-config", R"({"backend": "int8", "residual_length": 0})"}}) {
    Arguments more = {"--depths", "9"};
    more.insert(more.end(), cache.begin(), cache.end());
    EXPECT_GT(run_json(bench(model, more))["results"][0]["decode_tokens_per_s"].get<double>(), 0) << cache.front();
  }
}

TEST(BenchCommandTest, ShowsATable) {
  const TinyModel model;
  const Finished finished = run(bench(model, {"--depths", "0"}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, ::testing::HasSubstr("decode tok/s"));
  EXPECT_THAT(finished.err, ::testing::HasSubstr("memory reads"));
}

TEST(BenchCommandTest, RefusesWhatCannotBeMeasured) {
  const TinyModel model;
  for (const auto& [more, words] : {std::pair<Arguments, const char*>{{"--depths", "-1"}, "depth must be 0 to 2^24"},
                                    {{"--depths", "100000"}, "max_position_embeddings"},
                                    {{"--batch-sizes", "0"}, "batch size must be 1 to 2^24"},
                                    {{"--max-new-tokens", "1"}, "must be 2 to 2^20"},
                                    {{"--repeat", "0"}, "repeat must be 1 to 1000"}}) {
    Arguments all = {"bench", "--model", model.path()};
    all.insert(all.end(), more.begin(), more.end());
    const Finished finished = run(all);
    EXPECT_EQ(finished.code, 2) << words;
    EXPECT_THAT(finished.err, ::testing::HasSubstr(words));
  }
}

}  // namespace
}  // namespace mneme::cli
