#include "train/stopping.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

namespace weft::train {
namespace {

TEST(StopSignals, RemembersWhatArrived) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    std::raise(signal);
    EXPECT_EQ(StopSignals::received(), signal);
  }
}

// Ranks that are threads start and end one by one; a signal is for all of them.
TEST(StopSignals, LastsAsLongAsOneIsLeft) {
  auto first = std::make_unique<StopSignals>();
  std::raise(SIGTERM);
  auto second = std::make_unique<StopSignals>();
  EXPECT_EQ(StopSignals::received(), SIGTERM);
  first.reset();
  std::raise(SIGINT);  // still caught, and so soon that it is the same wish
  EXPECT_EQ(StopSignals::received(), SIGTERM);
  second.reset();
  const StopSignals next_run;
  EXPECT_EQ(StopSignals::received(), 0);
}

// The handler writes, so no step is waited for.
TEST(StopSignals, SaysWhatHappensBeforeTheSignalReturns) {
  ::testing::internal::CaptureStderr();
  const StopSignals silent, speaking("saving\n"), later("not this\n");
  std::raise(SIGINT);
  std::raise(SIGINT);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "saving\n");
}

TEST(StopSignalsDeathTest, ASecondSignalEndsTheProcess) {
  for (const auto& [first, second] : {std::pair(SIGTERM, SIGTERM), {SIGINT, SIGINT}, {SIGTERM, SIGINT}}) {
    EXPECT_EXIT(
        {
          const StopSignals signals;
          std::raise(first);
          std::this_thread::sleep_for(std::chrono::milliseconds(70));
          std::raise(second);
        },
        ::testing::KilledBySignal(second), "");
  }
}

TEST(StopSignalsDeathTest, WithoutOneASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        { const StopSignals signals; }
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

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

TEST(TimeLimit, EndsTheDecayWithTheTraining) {
  TimeLimit limit(60);
  EXPECT_EQ(limit.decay_share(30), 0);
  limit.begin_decay(10);
  limit.begin_decay(20);
  EXPECT_EQ(limit.decay_share(10), 0);
  EXPECT_EQ(limit.decay_share(35), 0.5);
  EXPECT_EQ(limit.decay_share(60), 1);
  EXPECT_EQ(limit.decay_share(61), 1);
  EXPECT_EQ(limit.decay_seconds(35), 25);
  // The last step begins after 60 - 1.5 * 2 - 2.
  limit.evaluation_took(2);
  limit.step_took(2);
  EXPECT_EQ(limit.decay_share(32.5), 0.5);
  EXPECT_EQ(limit.decay_share(55), 1);
}

TEST(TimeLimit, GoesOnWithTheDecayOfTheRunBefore) {
  TimeLimit limit(60, 20);
  EXPECT_EQ(limit.decay_seconds(30), 20);
  limit.begin_decay(0);
  EXPECT_EQ(limit.decay_share(0), 0.25);
  EXPECT_EQ(limit.decay_share(40), 0.75);
  EXPECT_EQ(limit.decay_seconds(40), 60);
}

TEST(TimeLimit, OfZeroLeavesTheDecay) {
  TimeLimit limit(0, 20);
  limit.begin_decay(10);
  EXPECT_EQ(limit.decay_share(50), 0);
  EXPECT_EQ(limit.decay_seconds(50), 20);
}

// The evaluation before the first step took all of the time.
TEST(TimeLimit, ADecayWithoutTimeIsOver) {
  TimeLimit limit(1);
  limit.begin_decay(2);
  EXPECT_EQ(limit.decay_share(2), 1);
}

}  // namespace
}  // namespace weft::train
