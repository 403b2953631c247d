// Training steps on fake devices have the CPU's bits, under every policy and schedule and many interleavings of
// concurrent work: no byte is touched without an order, and no stream waits for ever. Memory that a step needs is
// compared before it runs, its position is told while it runs, and it ends when a peer is lost.
#include "tests/train/device_run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/execute/device/device_team.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/policy.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/device/fake_device.h"
#include "tests/runtime/execute/device/watched_device.h"
#include "tests/runtime/policy/quick_policies.h"
#include "tests/train/tiny_run.h"
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
  run.make_executor =
      testing::sharing_a_fake(run.step.grid, {.memory_bytes = memory_bytes, .scratch_bytes = kKernelScratch},
                              {.memory_bytes = memory_bytes / run.step.grid.ranks()});
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
    return execute::make_device_executor(std::move(team), world, state);
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

// ---- every policy on three grids

// The seed's order goes on from step to step, so every step is another interleaving.
constexpr int kInterleavings = 100;

testing::GridRun tiny_run(const graph::Grid& grid, std::int64_t steps) {
  testing::GridRun run = testing::narrow_run(grid);
  run.step.micro_batches = 2;
  run.steps = steps;
  run.warmup = 1;
  return run;
}

/// Under every policy: the bits of the CPU, where `on` runs it on devices with one seed after the other.
void expect_bits_of_the_cpu(testing::GridRun run,
                            const std::function<testing::GridRun(const testing::GridRun&, std::uint64_t seed)>& on) {
  const testing::GridOutcome cpu = testing::run_grid(run);
  std::uint64_t seed = 1;
  for (const std::string& policy : testing::quick_graph_policies()) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    testing::expect_equal(testing::run_grid(on(run, ++seed)), cpu);
    if (::testing::Test::HasFailure()) return;
  }
}

testing::GridRun on_fake(const testing::GridRun& run, std::uint64_t seed) {
  return testing::on_fake(run, seed);
}
testing::GridRun on_fake_with_graphs(const testing::GridRun& run, std::uint64_t seed) {
  return testing::on_fake(run, seed, true);
}

class DeviceGrid : public ::testing::TestWithParam<graph::Grid> {};

TEST_P(DeviceGrid, EveryPolicyUnderManyInterleavings) {
  expect_bits_of_the_cpu(tiny_run(GetParam(), kInterleavings), on_fake);
}

TEST_P(DeviceGrid, ProductsWithEpilogues) {
  testing::GridRun run = tiny_run(GetParam(), 8);
  const testing::GridOutcome cpu = testing::run_grid(run);
  run.rewrites = "fuse-gelu";
  std::uint64_t seed = 1;
  for (const char* policy : {"program", "axonn", "lhs"}) {
    SCOPED_TRACE(policy);
    run.policy = policy;
    testing::expect_equal(testing::run_grid(testing::on_fake(run, ++seed)), cpu);
    testing::expect_equal(testing::run_grid(testing::on_fake(run, ++seed, true)), cpu);
  }
}

TEST_P(DeviceGrid, ReplayedGraphs) {
  const testing::GridRun run = tiny_run(GetParam(), 5);
  const testing::GridOutcome cpu = testing::run_grid(run);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::expect_equal(testing::run_grid(testing::on_fake(run, seed, true)), cpu);
    if (HasFailure()) return;
  }
}

TEST_P(DeviceGrid, DevicesThatTalkThroughTheHost) {
  expect_bits_of_the_cpu(tiny_run(GetParam(), 5), testing::on_own_fakes);
}

TEST(DeviceMicroBatches, ScatteredOneByOneOnEveryExecutor) {
  testing::GridRun run = tiny_run({1, 1, 2, 2}, 5);
  run.step.gradient_reduction = ops::GradientReduction::micro_batch;
  expect_bits_of_the_cpu(run, on_fake);
  expect_bits_of_the_cpu(run, on_fake_with_graphs);
  expect_bits_of_the_cpu(run, testing::on_own_fakes);
}

TEST(DeviceSequenceParallel, CutRowsHaveTheCpusBitsOnEveryExecutor) {
  for (const graph::Grid& grid : {graph::Grid{.x = 2}, graph::Grid{.y = 2, .data = 2}}) {
    testing::GridRun run = tiny_run(grid, 5);
    run.step.sequence_parallel = true;
    expect_bits_of_the_cpu(run, on_fake);
    expect_bits_of_the_cpu(run, on_fake_with_graphs);
    expect_bits_of_the_cpu(run, testing::on_own_fakes);
  }
}

// Rows go where each step's router sends them, in a captured step too.
TEST(DeviceExperts, ExchangedRowsHaveTheCpusBitsOnEveryExecutor) {
  for (const graph::Grid& grid :
       {graph::Grid{.z = 2, .expert = 2}, graph::Grid{.y = 2, .z = 4, .context = 2, .expert = 2}}) {
    SCOPED_TRACE(graph::to_string(grid));
    testing::GridRun run = tiny_run(grid, grid.y > 1 ? 3 : 5);
    run.model =
        testing::of_family(ops::Family::mixtral, {1, /*hidden=*/16, /*heads=*/4, /*kv_heads=*/4, /*ffn=*/8, 12, 4});
    run.lr = 0.1;  // so that steps differ in their choices
    expect_bits_of_the_cpu(run, on_fake);
    if (grid.y > 1) continue;
    expect_bits_of_the_cpu(run, on_fake_with_graphs);
    expect_bits_of_the_cpu(run, testing::on_own_fakes);
  }
}

TEST(DevicesThatTalkThroughTheHost, ALostRankEndsTheRun) {
  testing::expect_a_lost_rank_ends(testing::on_own_fakes(tiny_run(graph::Grid{2, 1, 1, 2}, 1), 1));
}

TEST_P(DeviceGrid, TheSteadyStateAllocatesNothingAndKeepsTheDeviceBusy) {
  for (const bool graphs : {false, true}) {
    const testing::FakeDeviceCounts few = testing::counts_of(tiny_run(GetParam(), 8), graphs),
                                    many = testing::counts_of(tiny_run(GetParam(), 16), graphs);
    EXPECT_EQ(many.allocations, few.allocations);
    EXPECT_EQ(many.events, few.events);
    EXPECT_EQ(many.synchronizations - few.synchronizations, 8);
    // Every fourth step is traced, and replayed like the others: it ends before the next is enqueued, and the previous
    // step has ended too.
    EXPECT_EQ(many.drains - few.drains, 4);
    EXPECT_EQ(many.graphs_launched - few.graphs_launched, graphs ? 8 : 0);
  }
}

// A traced step of a replayed run has a graph of its own, each run of which times the tasks anew.
TEST_P(DeviceGrid, TracesOfReplayedSteps) {
  std::shared_ptr<execute::DeviceTeam> team;
  testing::GridRun run = tiny_run(GetParam(), 10);
  run.make_executor =
      testing::sharing_a_fake(run.step.grid, {.seed = 5}, {.kept_steps = 3, .trace_every = 4, .graphs = true}, &team);
  ASSERT_EQ(testing::run_grid(run).exit_code, 0);
  EXPECT_EQ(std::ranges::count(team->captured, true, &execute::DeviceTeam::Captured::timed), 1);
  for (const execute::DeviceTeam::Rank& rank : team->ranks) {
    const execute::DevicePlan& loaded = *rank.plans.front();
    ASSERT_EQ(loaded.traces.size(), 3);
    for (const plan::StepTrace& trace : loaded.traces) {
      for (std::size_t s = 0; s < trace.times.size(); ++s) {
        std::int64_t last = trace.begin;
        for (std::size_t i = 0; i < trace.times[s].size(); ++i) {
          const plan::TaskTime& time = trace.times[s][i];
          for (const plan::Wait& wait : loaded.plan->streams[s].entries[i].waits) {
            if (wait.distance == 0) last = std::max(last, trace.times[wait.stream.index()][wait.entry].end);
          }
          EXPECT_LE(last, time.begin) << trace.step;
          EXPECT_LE(time.begin, time.end) << trace.step;
          last = time.end;
        }
        EXPECT_LE(last, trace.end) << trace.step;
      }
    }
  }
}

TEST(DeviceGridWatched, ALookDuringACaptureHarmsNothing) {
  const testing::GridRun run = tiny_run(graph::Grid{1, 1, 1, 2}, 6);
  int looks = 0;
  testing::GridRun watched = run;
  watched.make_executor = [&](comm::World& world, const execute::State& state) {
    return testing::watched_executor(
        world, state, run.step.grid, [](auto look) { return testing::make_fake_device({.look = look}); }, looks);
  };
  testing::expect_equal(testing::run_grid(watched), testing::run_grid(run));
  EXPECT_EQ(looks, 2) << "the graphs of traced steps and of others";
}

INSTANTIATE_TEST_SUITE_P(Grids, DeviceGrid,
                         ::testing::Values(graph::Grid{1, 1, 1, 1}, graph::Grid{2, 1, 1, 2}, graph::Grid{1, 2, 2, 1}),
                         [](const auto& info) { return testing::name_of(info.param); });

// ---- pipelines: stages that share a device, and stages on devices of their own

class DevicePipelines : public ::testing::TestWithParam<std::tuple<ops::Family, graph::Grid>> {
 protected:
  static testing::GridRun run_by(const std::string& policy) {
    const auto& [family, grid] = GetParam();
    testing::GridRun run = testing::pipeline_run(family, grid, policy);
    run.step.zero1 = grid.data > 1;
    return run;
  }
};

// GPT-2's embedding is tied, so its gradients cross from the last stage to the first.
INSTANTIATE_TEST_SUITE_P(Grids, DevicePipelines,
                         ::testing::Combine(::testing::Values(ops::Family::gpt2, ops::Family::llama),
                                            ::testing::Values(graph::Grid{.pipe = 2}, graph::Grid{.pipe = 3},
                                                              graph::Grid{.z = 2, .pipe = 2},
                                                              graph::Grid{.data = 2, .pipe = 2})),
                         [](const auto& info) {
                           return fmt::format("{}_{}", to_string(std::get<0>(info.param)),
                                              testing::name_of(std::get<1>(info.param)));
                         });

TEST_P(DevicePipelines, EveryScheduleHasTheCpusBits) {
  const testing::GridOutcome cpu = testing::run_grid(run_by("program"));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.errors;
  std::uint64_t seed = 1;
  for (const std::string& policy : testing::with_short_searches(policy::pipeline_policy_names())) {
    SCOPED_TRACE(policy);
    const testing::GridRun run = run_by(policy);
    testing::expect_equal(testing::run_grid(testing::on_fake(run, ++seed)), cpu);
    testing::expect_equal(testing::run_grid(testing::on_own_fakes(run, ++seed)), cpu);
    if (HasFailure()) return;
  }
}

TEST_P(DevicePipelines, ReplayedGraphs) {
  const testing::GridOutcome cpu = testing::run_grid(run_by("program"));
  for (const char* policy : {"1f1b", "zb-v"}) {
    SCOPED_TRACE(policy);
    testing::GridRun run = run_by(policy);
    for (const std::uint64_t seed : {3, 4}) {
      testing::expect_equal(testing::run_grid(testing::on_fake(run, seed, /*graphs=*/true)), cpu);
    }
  }
}

// The next step is enqueued while the one before it runs, but beside traced steps.
TEST(DevicePipelineFlags, RunAhead) {
  const auto drains_of = [](std::int64_t steps) {
    testing::GridRun run = testing::pipeline_run(ops::Family::llama, {.pipe = 2}, "1f1b");
    run.steps = steps;
    return testing::counts_of(run).drains;
  };
  EXPECT_EQ(drains_of(12) - drains_of(8), 2);
}

// A schedule in which the first stage sends its second message before its first.
class SendsInAnotherOrder final : public policy::Policy {
 public:
  std::string name() const override { return "sends-in-another-order"; }
  std::vector<plan::Order> orders(graph::Classes classes, const policy::PolicyOptions& options) const override {
    std::vector<plan::Order> orders = policy_->orders(classes, options);
    std::vector<plan::Placement>& sequence = orders.front().sequence;
    const auto is_send = [&](const plan::Placement& at) {
      return std::holds_alternative<graph::Send>(classes.front()->task(at.task).operation);
    };
    const auto first = std::ranges::find_if(sequence, is_send);
    const auto second = std::find_if(first + 1, sequence.end(), is_send);
    std::rotate(first, first + 1, second + 1);
    return orders;
  }

 private:
  std::unique_ptr<policy::Policy> policy_ = policy::make_policy("gpipe");
};

TEST(DevicePipelineFlags, PlansThatCannotRunTogetherReachNoDevice) {
  testing::GridRun run = testing::pipeline_run(ops::Family::llama, {.pipe = 2}, "gpipe");
  std::atomic<int> executors = 0;
  const auto counted = [&](const testing::GridRun& on) {
    testing::GridRun of = on;
    of.make_executor = [&executors, make = on.make_executor](comm::World& world, const execute::State& state) {
      ++executors;
      return make(world, state);
    };
    return testing::run_grid(of);
  };
  EXPECT_EQ(counted(testing::on_fake(run, 1)).exit_code, 0);
  EXPECT_EQ(executors.exchange(0), 2);
  run.own_policy = std::make_shared<const SendsInAnotherOrder>();
  for (const testing::GridRun& on : {testing::on_fake(run, 1), testing::on_own_fakes(run, 1)}) {
    const testing::GridOutcome refused = counted(on);
    EXPECT_EQ(refused.exit_code, 3);
    EXPECT_NE(refused.errors.find("send_next"), std::string::npos) << refused.errors;
    EXPECT_EQ(executors, 0);
  }
}

// Evaluations, checkpoints, generated text and the traces of each stage.
TEST(DevicePipelineFlags, AWholeRunIsTheCpus) {
  const testing::TemporaryFolder folder;
  const auto trained = [&](const char* name, const execute::MakeExecutor& make_executor) {
    RunConfig config = testing::tiny_run(folder, ops::Family::gpt2);
    config.grid = {.data = 2, .pipe = 2};
    config.run_dir = folder.path(name).string();
    config.eval_every = 4;
    config.save_every = 5;
    config.keep_last = 0;
    return testing::trained_on_grid(config, make_executor);
  };
  testing::GridRun on;
  on.step.grid = {.data = 2, .pipe = 2};
  const TrainResult cpu = trained("cpu", nullptr);
  EXPECT_FALSE(cpu.sample.empty());
  const auto parameters_of = [&](const char* run, const char* checkpoint) {
    return testing::TemporaryFolder::read(folder.path(run) / "checkpoints" / checkpoint / "model.safetensors");
  };
  for (const auto& [name, executor] : {std::pair{"local", testing::on_fake(on, 6).make_executor},
                                       std::pair{"staged", testing::on_own_fakes(on, 6).make_executor}}) {
    SCOPED_TRACE(name);
    const TrainResult found = trained(name, executor);
    EXPECT_EQ(found.sample, cpu.sample);
    EXPECT_EQ(found.devices.communicator, name);
    testing::expect_equal_metrics(testing::metrics_of(folder.path(name)), testing::metrics_of(folder.path("cpu")));
    for (const char* checkpoint : {"step_00000005", "step_00000010"}) {
      EXPECT_EQ(parameters_of(name, checkpoint), parameters_of("cpu", checkpoint));
    }
    for (const char* trace : {"trace.json", "trace.stage1.json"}) {
      EXPECT_GT(std::filesystem::file_size(folder.path(name) / trace), 1000U) << trace;
    }
  }
}

TEST(DevicePipelineFlags, ALostStageEndsTheRun) {
  testing::expect_a_lost_rank_ends(
      testing::on_own_fakes(testing::pipeline_run(ops::Family::llama, {.pipe = 3}, "1f1b"), 1));
}

}  // namespace
}  // namespace weft::train
