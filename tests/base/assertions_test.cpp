#include "base/assertions.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Assertions, CallTheirConditionInBuildsWithThem) {
  int calls = 0;
  assert_that("it is called", [&] { return ++calls > 0; });
  EXPECT_EQ(calls, kAssertions ? 1 : 0);
}

TEST(AssertionsDeathTest, ABrokenInvariantEndsTheProcess) {
  if (!kAssertions) GTEST_SKIP() << "built without -DWEFT_ASSERTIONS=ON";
  EXPECT_DEATH(assert_that("one is two", [] { return 1 == 2; }), "one is two\n.*assertions_test.cpp");
}

}  // namespace
}  // namespace weft
