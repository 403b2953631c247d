#include "runtime/policy/policy_parameters.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"

namespace weft::policy {
namespace {

std::string refusal(const std::string& text) {
  return testing::message_of<UserError>([&] {
    PolicyParameters parameters("p", text);
    parameters.integer("depth", 1, 0, 10);
    parameters.number("factor", 0.5, 0, 1);
    parameters.truth("oar", true);
    parameters.word("backward", "pre", {"pre", "post"});
    parameters.finish();
  });
}

TEST(PolicyParameters, GivesWhatStandsThereAndDefaultsForTheRest) {
  PolicyParameters parameters("p", "depth=3,oar=off,backward=post,rules=a+b");
  EXPECT_EQ(parameters.integer("depth", 1, 0, 10), 3);
  EXPECT_EQ(parameters.number("factor", 0.5, 0, 1), 0.5);
  EXPECT_FALSE(parameters.truth("oar", true));
  EXPECT_TRUE(parameters.truth("ors", true));
  EXPECT_EQ(parameters.word("backward", "pre", {"pre", "post"}), "post");
  EXPECT_EQ(parameters.text("rules", ""), "a+b");
  parameters.finish();
  EXPECT_EQ(refusal(""), "");
}

TEST(PolicyParameters, RefusesWhatItCantTake) {
  EXPECT_EQ(refusal("depth"),
            "policy p: \"depth\" isn't a parameter; expected NAME=VALUE, separated by commas\n"
            "  fix: write p:NAME=VALUE");
  EXPECT_EQ(refusal("depth=11"), "policy p: depth=11; expected an integer from 0 to 10");
  EXPECT_EQ(refusal("depth=1x"), "policy p: depth=1x; expected an integer from 0 to 10");
  EXPECT_EQ(refusal("factor=nan"), "policy p: factor=nan; expected a number from 0 to 1");
  EXPECT_EQ(refusal("oar=maybe"), "policy p: oar=maybe; expected true or false");
  EXPECT_EQ(refusal("backward=later"), "policy p: backward=later; expected one of pre, post");
  EXPECT_EQ(refusal("depth=1,depth=2"),
            "policy p: depth is given twice; expected each parameter once\n"
            "  fix: leave one out");
  EXPECT_EQ(refusal("deptj=1"),
            "policy p has no parameter \"deptj\"; expected one of depth, factor, oar, backward\n"
            "  fix: write \"depth\"");
}

}  // namespace
}  // namespace weft::policy
