#include "train/time_limit.h"

#include <gtest/gtest.h>

namespace weft::train {
namespace {

TEST(TimeLimit, OfZeroIsNone) {
  TimeLimit limit(0);
  limit.evaluation_took(100);
  EXPECT_FALSE(limit.ends_training(1e9));
  EXPECT_FALSE(limit.is_up(1e9));
}

TEST(TimeLimit, KeepsTimeForAStepAndAnEvaluation) {
  TimeLimit limit(60);
  EXPECT_FALSE(limit.ends_training(59));
  EXPECT_TRUE(limit.ends_training(61));
  limit.evaluation_took(2);
  EXPECT_FALSE(limit.ends_training(56.5));
  EXPECT_TRUE(limit.ends_training(57.5));
  limit.step_took(1);
  limit.step_took(0.5);
  limit.evaluation_took(1);
  EXPECT_FALSE(limit.ends_training(55.5));
  EXPECT_TRUE(limit.ends_training(56.5));
  EXPECT_FALSE(limit.is_up(59));
  EXPECT_TRUE(limit.is_up(61));
}

// Else a run would do nothing but wait for its evaluation.
TEST(TimeLimit, KeepsAtMostATenthForAnEvaluation) {
  TimeLimit limit(60);
  limit.evaluation_took(50);
  EXPECT_FALSE(limit.ends_training(53.9));
  EXPECT_TRUE(limit.ends_training(54.1));
}

}  // namespace
}  // namespace weft::train
