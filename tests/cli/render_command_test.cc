#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"

namespace mneme::cli {
namespace {

constexpr const char* kMessages = R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}])";

TEST(RenderCommandTest, PrintsExactlyWhatTheTemplateWrites) {
  const TinyModel model;
  const Finished finished = run({"render", "--model", model.path(), "--messages", "-"}, {.input = kMessages});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell, <|im_end|>\n");
  const TempFolder folder;
  EXPECT_EQ(run({"render", "--model", model.path(), "--messages", folder.write("m.json", kMessages)}).out,
            finished.out);
}

TEST(RenderCommandTest, OpensAnAnswerOrContinuesOne) {
  const TinyModel model;
  const Json opened = run_json({"render", "--model", model.path(), "--messages", "-", "--add-generation-prompt"},
                               {.input = R"([{"role": "user", "content": "Hi"}])"});
  EXPECT_EQ(opened["text"], "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(opened["ids"][0], 501);
  const Json continued = run_json({"render", "--model", model.path(), "--messages", "-", "--continue-final-message"},
                                  {.input = kMessages});
  EXPECT_THAT(continued["text"].get<std::string>(), ::testing::EndsWith("assistant\nWell, "));
}

}  // namespace
}  // namespace mneme::cli
