// A training step on the fake device as others see it: what it needs before it runs.
#include <gtest/gtest.h>

#include <atomic>
#include <sstream>

#include "runtime/device/device_executor.h"
#include "runtime/device/fake_device.h"
#include "tests/train/grid_run.h"

namespace weft {
namespace {

GridRun two_ranks() {
  GridRun run;
  run.model.family = Family::gpt2;
  run.model.layers = 1;
  run.model.hidden = 8;
  run.model.heads = 2;
  run.model.kv_heads = 2;
  run.model.ffn = 16;
  run.model.vocab = 12;
  run.model.context = 4;
  run.step.seq_len = 4;
  run.step.grid = grid_of(1, 1, 1, 2);
  run.step.micro_batch = 1;
  run.steps = 1;
  return run;
}

GridRun on_one_fake(std::int64_t memory_bytes) {
  GridRun run = two_ranks();
  run.make_executor = [grid = run.step.grid, memory_bytes](World& world, const State& state) {
    auto team = make_team(world, [&] {
      auto device = make_fake_device({.memory_bytes = memory_bytes});
      const DeviceExecutorOptions options{.memory_bytes = device->memory().free / world.size()};
      return std::make_shared<DeviceTeam>(std::move(device), world.size(), grid, options);
    });
    return std::make_unique<DeviceExecutor>(std::move(team), world, state);
  };
  return run;
}

// Runs a body with a program of the run's step on each rank.
int run_programs(const GridRun& run, const std::function<void(World&, Program&)>& body, std::ostream& errors) {
  return run_ranks(
      static_cast<int>(run.step.grid.ranks()),
      [&](World& world) {
        Program program(world, {{"train", lower_train(run.model, run.step)}},
                        {.grid = run.step.grid, .make_executor = run.make_executor});
        body(world, program);
        return 0;
      },
      errors);
}

TEST(DeviceRun, WhatRanksNeedTogetherIsComparedWithTheDevice) {
  std::atomic<std::int64_t> state = 0, scratch = 0;
  std::ostringstream errors;
  const auto measure = [&](World&, const Program& program) {
    state = program.state_bytes();
    scratch = program.plan("train").scratch_bytes;
  };
  ASSERT_EQ(run_programs(on_one_fake(1 << 30), measure, errors), 0) << errors.str();
  const std::int64_t need = 2 * (state + scratch);
  const auto nothing = [](World&, const Program&) {};
  EXPECT_EQ(run_programs(on_one_fake(need), nothing, errors), 0) << errors.str();
  EXPECT_EQ(errors.str(), "");
  for (const std::int64_t memory : {need - 2, std::int64_t{2 * state}, 2 * state - 2, std::int64_t{2}}) {
    EXPECT_EQ(run_programs(on_one_fake(memory), nothing, errors), 2);
    EXPECT_NE(errors.str().find("a rank needs at least "), std::string::npos) << errors.str();
    EXPECT_EQ(errors.str().find("activations") != std::string::npos, memory >= 2 * state) << errors.str();
    errors.str("");
  }
  // With room for kernels' scratch the step runs.
  const GridOutcome outcome = run_grid(on_one_fake(need + (1 << 16)));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

}  // namespace
}  // namespace weft
