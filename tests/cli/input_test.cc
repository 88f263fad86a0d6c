#include "mneme/cli/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"
#include "tests/support/thrown.h"

namespace mneme::cli {
namespace {

using Ids = std::vector<std::int64_t>;
using testing::thrown;

TEST(InputTest, IdsWithOrWithoutSpaces) {
  EXPECT_EQ(parse_numbers("1,2,3"), Ids({1, 2, 3}));
  EXPECT_EQ(parse_numbers(" 1 , 22\n,3 "), Ids({1, 22, 3}));
  EXPECT_EQ(parse_numbers("-1"), Ids({-1}));  // the model says what is wrong with it
  EXPECT_EQ(parse_numbers(""), Ids());
  EXPECT_EQ(parse_numbers(" "), Ids());
}

TEST(InputTest, WhatIsNoListOfNumbersIsRefused) {
  for (const char* text : {"a", "1,a", "1 2", "1,,2", ",1", "1,", "1, ", "1.5", "0x1", "9223372036854775808"}) {
    EXPECT_THAT(thrown(ErrorKind::kInvalidArgument, [&] { parse_numbers(text); }), ::testing::HasSubstr("\"")) << text;
  }
}

TEST(InputTest, FilesAreReadByteForByte) {
  const testing::TempFolder folder;
  const std::string content("a\r\n\0b\n", 6);
  EXPECT_EQ(read_text(folder.write("text", content)), content);
  thrown(ErrorKind::kIo, [&] { read_text(folder.path()); });
  thrown(ErrorKind::kIo, [&] { read_text(folder.path() + "/none"); });
}

}  // namespace
}  // namespace mneme::cli
