#include "base/text/first_line.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

TEST(FirstLine, LeavesOutTheFix) {
  EXPECT_EQ(first_line(UserError("2 ranks", "3", "--ranks 3").what()), "2 ranks; expected 3");
  EXPECT_EQ(first_line("one line"), "one line");
  EXPECT_EQ(first_line(""), "no reason is known");
}

}  // namespace
}  // namespace weft
