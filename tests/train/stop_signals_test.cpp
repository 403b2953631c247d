#include "train/stop_signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <memory>

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
  std::raise(SIGINT);  // still caught
  EXPECT_EQ(StopSignals::received(), SIGINT);
  second.reset();
  const StopSignals next_run;
  EXPECT_EQ(StopSignals::received(), 0);
}

TEST(StopSignalsDeathTest, ASecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignalsDeathTest, WithoutOneASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        { const StopSignals signals; }
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace weft::train
