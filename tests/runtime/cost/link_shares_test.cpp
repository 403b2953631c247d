#include "runtime/cost/link_shares.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

TEST(LinkShares, CollectivesRunAsIfAloneWhileTheLinkIsNotFull) {
  LinkShares shares(2);
  shares.add(0, 0.25);
  shares.add(0, 0.75);
  shares.add(1, 1);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 0.25), 1);
  EXPECT_EQ(shares.rate(0, 0.75), 1);
  EXPECT_EQ(shares.rate(1, 1), 1);
}

TEST(LinkShares, AFullLinkIsSharedEvenly) {
  LinkShares shares(1);
  for (int i = 0; i < 4; ++i) shares.add(0, 1);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 1), 0.25);
}

TEST(LinkShares, AShareThatIsNotNeededGoesToTheOthers) {
  LinkShares shares(1);
  for (const double use : {0.25, 0.75, 1.0}) shares.add(0, use);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 0.25), 1);
  EXPECT_EQ(shares.rate(0, 0.75), 0.5);
  EXPECT_EQ(shares.rate(0, 1), 0.375);
}

TEST(LinkShares, LatencyAloneUsesNoLink) {
  LinkShares shares(1);
  shares.add(0, 0);
  shares.add(0, 1);
  shares.add(0, 1);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 0), 1);
  EXPECT_EQ(shares.rate(0, 1), 0.5);
  shares.clear();
  shares.add(0, 1);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 1), 1);
}

}  // namespace
}  // namespace weft::cost
