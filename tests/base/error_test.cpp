// Error messages name the fix.
#include "base/error.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(UserError, SaysWhatWasFoundExpectedAndHowToFixIt) {
  EXPECT_STREQ(UserError("heads = 7", "a divisor of 64", "--set model.heads=8").what(),
               "heads = 7; expected a divisor of 64\n  fix: --set model.heads=8");
  EXPECT_STREQ(UserError("no such file", "", "").what(), "no such file");
}

TEST(UserError, QuotesHostileNamesHarmlessly) {
  EXPECT_STREQ(UserError("tensor '\x1b[2J\xc2\x9b\x7f' twice\nindeed", "", "").what(),
               "tensor '\\x1b[2J\\u009b\\u007f' twice\nindeed");
  const std::string message = UserError("begin" + std::string(1'000'000, 'x') + "end", "", "give less").what();
  EXPECT_LT(message.size(), 2200U);
  EXPECT_TRUE(message.starts_with("beginxxx"));
  EXPECT_TRUE(message.ends_with("xxxend\n  fix: give less"));
  EXPECT_NE(message.find("(1000008 bytes)"), std::string::npos);
}

TEST(NearestName, FindsTypos) {
  const std::vector<std::string> names = {"seq-len", "steps", "seed", "micro-batch"};
  EXPECT_EQ(nearest_name("seqlen", names), "seq-len");
  EXPECT_EQ(nearest_name("step", names), "steps");
  EXPECT_EQ(nearest_name("micro-batches", names), "micro-batch");
  EXPECT_EQ(nearest_name("stpes", std::vector<std::string>{"stages", "steps"}), "steps");  // two letters are swapped
  EXPECT_EQ(nearest_name("policy", names), "");
  EXPECT_EQ(nearest_name("steps" + std::string(65, 's'), names), "");
}

TEST(FirstLine, LeavesOutTheFix) {
  EXPECT_EQ(first_line(UserError("2 ranks", "3", "--ranks 3").what()), "2 ranks; expected 3");
  EXPECT_EQ(first_line("one line"), "one line");
  EXPECT_EQ(first_line(""), "no reason is known");
}

}  // namespace
}  // namespace weft
