// Pipelines on fake devices: stages that share a device, and stages on devices of their own, train with the CPU's bits
// under every schedule and many interleavings. Plans that can't run together end a run before a device has anything.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/train/device_run.h"
#include "tests/train/tiny_run.h"

namespace weft::train {
namespace {

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
  for (const std::string& policy : policy::pipeline_policy_names()) {
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

// A schedule whose first stage sends its second message before its first.
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
