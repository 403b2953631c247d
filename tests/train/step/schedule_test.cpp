// Learning rates computed by hand.
#include "train/step/schedule.h"

#include <gtest/gtest.h>

namespace weft::train {
namespace {

LearningRate rate(Schedule schedule, std::int64_t steps, std::int64_t warmup) {
  return {schedule, steps, warmup, 1.0, 0.2};
}

TEST(LearningRate, WarmsUpByOneStepAheadInEverySchedule) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::wsd, Schedule::linear, Schedule::constant}) {
    const LearningRate lr = rate(schedule, 100, 4);
    EXPECT_DOUBLE_EQ(lr.at(0), 0.25);
    EXPECT_DOUBLE_EQ(lr.at(2), 0.75);
    EXPECT_DOUBLE_EQ(lr.at(3), 1.0);
    EXPECT_DOUBLE_EQ(lr.at(4), 1.0);  // r = 0
  }
}

TEST(LearningRate, CosineFallsFromLrToMinLr) {
  const LearningRate lr = rate(Schedule::cosine, 10, 2);
  EXPECT_DOUBLE_EQ(lr.at(2), 1.0);
  EXPECT_NEAR(lr.at(4), 0.2 + 0.4 * (1 + 0.70710678118654752), 1e-15);  // r = 1/4
  EXPECT_NEAR(lr.at(6), 0.6, 1e-15);                                    // r = 1/2
  EXPECT_NEAR(lr.at(10), 0.2, 1e-15);
  EXPECT_NEAR(lr.at(1000), 0.2, 1e-15);
}

TEST(LearningRate, LinearFallsEvenly) {
  const LearningRate lr = rate(Schedule::linear, 10, 2);
  EXPECT_DOUBLE_EQ(lr.at(3), 0.9);
  EXPECT_DOUBLE_EQ(lr.at(6), 0.6);
  EXPECT_DOUBLE_EQ(lr.at(10), 0.2);
  EXPECT_DOUBLE_EQ(lr.at(11), 0.2);
}

TEST(LearningRate, ConstantStays) {
  EXPECT_DOUBLE_EQ(rate(Schedule::constant, 10, 2).at(9), 1.0);
  EXPECT_DOUBLE_EQ(rate(Schedule::constant, 10, 2).at(90), 1.0);
}

TEST(LearningRate, WsdStaysForFourFifthsAndFallsByARoot) {
  const LearningRate lr = rate(Schedule::wsd, 20, 2);
  EXPECT_DOUBLE_EQ(lr.at(15), 1.0);
  EXPECT_DOUBLE_EQ(lr.at(16), 1.0);              // q = 0
  EXPECT_DOUBLE_EQ(lr.at(17), 0.2 + 0.5 * 0.8);  // q = 1/4, its root 1/2
  EXPECT_DOUBLE_EQ(lr.at(20), 0.2);
  // The decay begins at floor(0.8 * 15) = 12, which 0.8 in floating point may miss.
  EXPECT_DOUBLE_EQ(rate(Schedule::wsd, 15, 0).at(12), 1.0);
  EXPECT_LT(rate(Schedule::wsd, 15, 0).at(13), 1.0);
  // floor(0.8 * 7) = 5
  EXPECT_DOUBLE_EQ(rate(Schedule::wsd, 7, 0).at(5), 1.0);
  EXPECT_NEAR(rate(Schedule::wsd, 7, 0).at(6), 0.2 + (1 - 0.70710678118654752) * 0.8, 1e-15);
}

TEST(LearningRate, TimeMayBeAheadOfSteps) {
  for (const Schedule schedule : {Schedule::cosine, Schedule::wsd, Schedule::linear}) {
    const LearningRate lr = rate(schedule, 22, 2);
    EXPECT_DOUBLE_EQ(lr.at(1, 0.5), 1.0);  // warming up
    EXPECT_DOUBLE_EQ(lr.at(3, 0.5), lr.at(12));
    EXPECT_DOUBLE_EQ(lr.at(15, 0.5), lr.at(15));
    EXPECT_DOUBLE_EQ(lr.at(3, 0.9), lr.at(20));
    EXPECT_DOUBLE_EQ(lr.at(3, 1), 0.2);
  }
  EXPECT_DOUBLE_EQ(rate(Schedule::linear, 12, 2).at(3, 0.25), 0.8);  // between two steps
  EXPECT_DOUBLE_EQ(rate(Schedule::constant, 12, 2).at(3, 1), 1.0);
}

TEST(LearningRate, NoWarmupAndNothingButWarmup) {
  EXPECT_DOUBLE_EQ(rate(Schedule::cosine, 10, 0).at(0), 1.0);
  EXPECT_DOUBLE_EQ(rate(Schedule::linear, 4, 4).at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate(Schedule::linear, 4, 4).at(4), 0.2);
}

}  // namespace
}  // namespace weft::train
