// Whole runs on any grid, of which only the result and the metrics are compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <sstream>
#include <vector>

#include "runtime/comm/launch.h"
#include "train/trainer.h"

namespace weft::testing {

/// Trains on config.ranks threads; rank 0's result.
inline train::TrainResult trained_on_grid(const train::RunConfig& config) {
  const train::ResolvedRun run = train::resolve(config, 0);
  train::TrainResult result;
  std::ostringstream errors;
  const auto body = [&](comm::World& world) {
    train::Trainer trainer(world, run, train::Trainer::Console::silent);
    train::TrainResult own = trainer.run();
    if (world.rank() == 0) result = std::move(own);
    return 0;
  };
  EXPECT_EQ(comm::run_ranks(static_cast<int>(run.config.ranks), body, errors), 0) << errors.str();
  return result;
}

/// Numbers of metrics that differ in rounding alone.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i] - expected[i]), 1e-5 * std::abs(expected[i])) << i;
  }
}

}  // namespace weft::testing
