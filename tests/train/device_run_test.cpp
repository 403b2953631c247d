// A training step on the fake device: its memory needs before the run, its reported position during the run, and its
// end when a peer is lost.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/execute/device/device_executor.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/train/grid_run.h"
#include "train/run/run_devices.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

testing::GridRun run_of_two_ranks() {
  return testing::narrow_run(graph::Grid{1, 1, 1, 2});
}

constexpr std::int64_t kKernelScratch = 4096;

testing::GridRun on_one_fake(std::int64_t memory_bytes) {
  testing::GridRun run = run_of_two_ranks();
  run.make_executor = [grid = run.step.grid, memory_bytes](comm::World& world, const execute::State& state) {
    auto team = execute::make_team(world, [&] {
      auto device = testing::make_fake_device({.memory_bytes = memory_bytes, .scratch_bytes = kKernelScratch});
      const execute::DeviceExecutorOptions options{.memory_bytes = device->memory().free / world.size()};
      return std::make_shared<execute::DeviceTeam>(std::move(device), world.size(), grid, options);
    });
    return std::make_unique<execute::DeviceExecutor>(std::move(team), world, state);
  };
  return run;
}

// Runs a body with a program of the run's step on each rank.
testing::RanksEnd run_programs(const testing::GridRun& run,
                               const std::function<void(comm::World&, execute::Program&)>& body) {
  return testing::end_of_ranks(static_cast<int>(run.step.grid.ranks()), [&](comm::World& world) {
    execute::Program program = testing::program_of(run, world, {});
    body(world, program);
  });
}

TEST(DeviceRun, WhatRanksNeedTogetherIsComparedWithTheDevice) {
  std::atomic<std::int64_t> state = 0, scratch = 0;
  const auto measure = [&](comm::World&, const execute::Program& program) {
    state = program.state_bytes();
    scratch = program.plan("train").scratch_bytes;
    EXPECT_EQ(program.scratch_bytes(), scratch + kKernelScratch);
  };
  ASSERT_EQ(run_programs(on_one_fake(1 << 30), measure).errors, "");
  const std::int64_t need = 2 * (state + scratch + kKernelScratch);
  const auto nothing = [](comm::World&, const execute::Program&) {};
  EXPECT_EQ(run_programs(on_one_fake(need), nothing).errors, "");
  for (const std::int64_t memory : {need - 2, std::int64_t{2 * state}, 2 * state - 2, std::int64_t{2}}) {
    const testing::RanksEnd end = run_programs(on_one_fake(memory), nothing);
    EXPECT_EQ(end.code, 2);
    EXPECT_NE(end.errors.find("a rank needs at least "), std::string::npos) << end.errors;
    EXPECT_EQ(end.errors.find("activations") != std::string::npos, memory >= 2 * state) << end.errors;
    EXPECT_EQ(end.errors.find("--attention-workspace") != std::string::npos, memory >= 2 * (state + scratch));
  }
  // With room for tables and the places of inputs and results the step runs.
  const testing::GridOutcome outcome = testing::run_grid(on_one_fake(need + (1 << 16)));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
}

// Collectives that hold their streams until they are let go, and notice nothing themselves: like a kernel of NCCL's
// that waits for a peer.
class HeldTransport final : public execute::DeviceTransport {
 public:
  HeldTransport(comm::World& world, std::atomic<std::uint32_t>& go) : world_(world), go_(go) {}

  std::string_view name() const override { return "held"; }
  bool needs_host() const override { return true; }
  void join(graph::Channel /*channel*/) override {}
  void prepare(execute::Device& /*device*/, std::span<const execute::ChannelCalls> /*plans*/) override {}
  void begin_step(bool /*loads*/) override {}
  void enqueue(execute::Device& device, graph::Channel /*channel*/, execute::DeviceStream stream,
               const comm::CollectiveCall& /*call*/) override {
    device.wait_value(stream, &go_, 1);
  }
  void check() override { world_.expect_peers(); }
  void stop() noexcept override { go_ = 1; }

 private:
  comm::World& world_;
  std::atomic<std::uint32_t>& go_;
};

testing::GridRun held(std::vector<std::atomic<std::uint32_t>>& go) {
  testing::GridRun run = run_of_two_ranks();
  run.make_executor = [grid = run.step.grid, &go](comm::World& world, const execute::State& state) {
    auto transport = std::make_unique<HeldTransport>(world, go[static_cast<std::size_t>(world.rank())]);
    auto team = std::make_shared<execute::DeviceTeam>(testing::make_fake_device({.patience = std::chrono::seconds(60)}),
                                                      1, grid, execute::DeviceExecutorOptions{}, std::move(transport));
    return std::make_unique<execute::DeviceExecutor>(std::move(team), world, state);
  };
  return run;
}

// Until the executor has stopped moving with some tasks done.
void wait_for_stall(const execute::Executor& executor) {
  std::uint64_t last = 0;
  for (int same = 0; same < 20;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const execute::ExecutorStatus status = executor.status();
    same = status.running && status.completed > 0 && status.completed == last ? same + 1 : 0;
    last = status.completed;
  }
}

TEST(DeviceRun, ALongStepIsSeenMovingAndWhereItStands) {
  std::vector<std::atomic<std::uint32_t>> go(2);
  const auto body = [&](comm::World& world, execute::Program& program) {
    const execute::Executor& executor = program.executor();
    EXPECT_NE(executor.describe().find("between steps"), std::string::npos);
    std::thread watcher([&] {
      wait_for_stall(executor);
      const plan::Plan& plan = program.plan("train");
      const std::string text = executor.describe(), collective = plan.graph->task(plan.collectives.front()).name;
      EXPECT_NE(text.find("data has not yet passed '" + collective + "'"), std::string::npos) << text;
      EXPECT_NE(text.find("compute0 has passed '"), std::string::npos) << text;
      go[static_cast<std::size_t>(world.rank())] = 1;
    });
    program.run("train");
    watcher.join();
    EXPECT_FALSE(executor.status().running);
    const std::uint64_t completed = executor.status().completed;
    EXPECT_GT(completed, 5U);
    program.run("train");
    EXPECT_GT(executor.status().completed, completed);
  };
  EXPECT_EQ(run_programs(held(go), body).errors, "");
}

TEST(DeviceRun, ALostPeerEndsAStepAtOnce) {
  std::vector<std::atomic<std::uint32_t>> go(2);
  std::atomic<const execute::Executor*> first{nullptr};
  std::atomic<bool> left{false};
  Clock::time_point lost;
  const auto body = [&](comm::World& world, execute::Program& program) {
    if (world.rank() == 1) {
      while (first == nullptr) std::this_thread::yield();
      wait_for_stall(*first);
      lost = Clock::now();
      left = true;
      throw std::runtime_error("gone");
    }
    first = &program.executor();
    try {
      program.run("train");
      ADD_FAILURE() << "a step without the last rank";
    } catch (const comm::PeerLost&) {
      EXPECT_TRUE(left);
      EXPECT_LT(Clock::now() - lost, std::chrono::seconds(2));
      throw;
    }
  };
  const testing::RanksEnd end = run_programs(held(go), body);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.errors, "weft: error: rank 1: gone\n");
}

TEST(DeviceRun, DevicesAreToldWithTheirRanksAndCommunicator) {
  std::vector<std::atomic<std::uint32_t>> go(2);
  for (const bool shared : {true, false}) {
    const auto body = [&](comm::World& world, const execute::Program& program) {
      const RunDevices devices = find_devices(world, program.executor().runs_on(), 1);
      EXPECT_EQ(to_string(devices),
                shared ? "fake, 2 ranks; communicator local" : "2 × fake, 2 ranks; communicator held");
    };
    EXPECT_EQ(run_programs(shared ? on_one_fake(1 << 30) : held(go), body).errors, "");
  }
}

}  // namespace
}  // namespace weft::train
