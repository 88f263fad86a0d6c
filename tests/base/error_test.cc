#include "mneme/base/error.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace mneme {
namespace {

TEST(Error, CarriesItsKindAndOneSentence) {
  const Error error(ErrorKind::kOutOfRange, "token id {} is outside the vocabulary of {}", 50000, 49152);
  EXPECT_EQ(error.kind(), ErrorKind::kOutOfRange);
  EXPECT_STREQ(error.what(), "token id 50000 is outside the vocabulary of 49152");
}

TEST(Error, IsCaughtAsARuntimeError) {
  EXPECT_THROW(throw Error(ErrorKind::kIo, "gone"), std::runtime_error);
  static_assert(std::is_nothrow_copy_constructible_v<Error>);
}

TEST(Check, ThrowsOnlyIfTheConditionFails) {
  EXPECT_NO_THROW(check(true, ErrorKind::kInvalidArgument, "never"));
  try {
    check(false, ErrorKind::kFailedPrecondition, "{} cached + {} new tokens exceed {}", 1020, 8, 1024);
    FAIL() << "check() did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailedPrecondition);
    EXPECT_STREQ(error.what(), "1020 cached + 8 new tokens exceed 1024");
  }
}

}  // namespace
}  // namespace mneme
