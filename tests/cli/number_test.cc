#include "mneme/cli/number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace mneme::cli {
namespace {

using ::testing::HasSubstr;

template <class T>
std::string refusal(const std::string& text) {
  try {
    parse_number<T>("--flag", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(NumberTest, TakesWhatIsANumberFromItsFirstByteToItsLast) {
  EXPECT_EQ(parse_number<std::int64_t>("--flag", "-12"), -12);
  EXPECT_EQ(parse_number<std::uint64_t>("--flag", "18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number<double>("--flag", "1e-3"), 1e-3);
  EXPECT_TRUE(std::isnan(parse_number<double>("--flag", "nan")));  // the range of each option is checked later
}

TEST(NumberTest, RefusesTheRestWithTheFlagAndTheText) {
  for (const char* text : {"", " ", "1e3", "0x10", "1.5", "2 ", " 2", "two", "1,2", "+1"}) {
    EXPECT_THAT(refusal<std::int64_t>(text), HasSubstr("--flag must be a whole number, it is \"")) << text;
  }
  EXPECT_THAT(refusal<std::uint64_t>("-1"), HasSubstr("0 or more"));
  for (const char* text : {"", "1,5", "half", "1.5x"}) {
    EXPECT_THAT(refusal<double>(text), HasSubstr("--flag must be a number")) << text;
  }
}

TEST(NumberTest, RefusesWhatItsTypeCannotHold) {
  EXPECT_THAT(refusal<std::int64_t>("99999999999999999999"), HasSubstr("--flag is 99999999999999999999"));
  EXPECT_THAT(refusal<int>("2147483648"), HasSubstr("2147483648"));
  EXPECT_THAT(refusal<double>("1e999"), HasSubstr("1e999"));
}

}  // namespace
}  // namespace mneme::cli
