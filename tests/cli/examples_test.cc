// The examples, as built beside the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run.h"
#include "tests/support/default_model.h"
#include "tests/support/places.h"

namespace mneme::cli {
namespace {

using ::testing::HasSubstr;

Finished example(const std::string& name, const Arguments& arguments) {
  Arguments all = {testing::built("example_") + name};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Process(all).finish();
}

class ExamplesTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(testing::built("example_") + GetParam())) GTEST_SKIP() << "not built";
  }
};

TEST_P(ExamplesTest, WorksOnASmallModel) {
  if (GetParam() == std::string("oom_fallback") || GetParam() == std::string("custom_cache") ||
      GetParam() == std::string("beams") || GetParam() == std::string("assisted") ||
      GetParam() == std::string("constrained"))
    GTEST_SKIP() << "it writes more than a random model can before it says an id that its tokenizer lacks";
  const TinyModel model;
  const Finished finished = example(GetParam(), {model.path(), "Hi"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("cache"));
}

TEST_P(ExamplesTest, WritesEnglishWithTheDefaultModel) {
  const std::string path = testing::default_model_path();
  if (path.empty()) GTEST_SKIP() << testing::kNoDefaultModel;
  const std::string name = GetParam();  // these two ask
  const bool asks = name == "custom_loop" || name == "prefix_cache" || name == "chat" || name == "constrained";
  const Finished finished =
      example(GetParam(), {path, asks ? "What is the capital of France?" : "The capital of France is"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("Paris"));
}

TEST_P(ExamplesTest, SaysHowItIsUsed) {
  EXPECT_EQ(example(GetParam(), {}).code, 2);
  EXPECT_EQ(example(GetParam(), {"/no/model"}).code, 1);
}

INSTANTIATE_TEST_SUITE_P(All, ExamplesTest,
                         ::testing::Values("generate", "custom_loop", "prefix_cache", "oom_fallback", "custom_cache",
                                           "beams", "assisted", "constrained", "chat"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace mneme::cli
