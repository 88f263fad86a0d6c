#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cli/run.h"

namespace mneme::cli {
namespace {

const std::string kIds = "5,6,7,8,9,10,11,12,13,14";

Json nll(const TinyModel& model, const Arguments& more) {
  Arguments all = {"nll", "--model", model.path(), "--dtype", "float32"};
  all.insert(all.end(), more.begin(), more.end());
  return run_json(all);
}

TEST(NllCommandTest, IsTheSameForEveryCacheAndChunk) {
  const TinyModel model;
  const Arguments base = {"--ids", kIds, "--prefill", "4"};
  const auto with = [&](const Arguments& more) {
    Arguments all = base;
    all.insert(all.end(), more.begin(), more.end());
    return nll(model, all);
  };
  const Json expected = with({});
  EXPECT_EQ(expected["tokens"], 5);  // 10 - 1 - 4
  EXPECT_GT(expected["nll"].get<double>(), 0);
  EXPECT_EQ(with({"--cache-implementation", "static"}), expected);
  EXPECT_EQ(with({"--cache-implementation", "static", "--max-cache-len", "9"}), expected);  // the last is not read
  EXPECT_EQ(with({"--no-use-cache"}), expected);
  EXPECT_EQ(with({"--prefill-chunk-size", "3"}), expected);
}

TEST(NllCommandTest, IsTheMeanOfTheSurpriseOfEachToken) {
  const TinyModel model;
  double total = 0;
  for (const int i : {4, 5, 6, 7, 8}) {
    std::string ids;
    for (int k = 0; k <= i; ++k) ids += (k ? "," : "") + std::to_string(5 + k);
    const auto logits = run_json({"generate", "--model", model.path(), "--dtype", "float32", "--ids", ids, "--logits",
                                  "--max-new-tokens", "0"})["last_logits"][0]
                            .get<std::vector<double>>();
    double sum = 0;
    for (const double x : logits) sum += std::exp(x);
    total += std::log(sum) - logits[static_cast<std::size_t>(5 + i + 1)];
  }
  EXPECT_NEAR(nll(model, {"--ids", kIds, "--prefill", "4"})["nll"].get<double>(), total / 5, 1e-9);
}

TEST(NllCommandTest, ReadsTextAndShowsASentenceWithoutJson) {
  const TinyModel model;
  const Finished finished =
      run({"nll", "--model", model.path(), "--text-file", "-", "--prefill", "2"}, {.input = "!\"#$%&'("});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, ::testing::HasSubstr("nats a token over 5 tokens"));
}

}  // namespace
}  // namespace mneme::cli
