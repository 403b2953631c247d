// Gathers that are enqueued as one group: the plan with its groups is proved like any plan, devices that know each byte
// find no race, and no bit changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/plan/checker.h"
#include "tests/train/device_run.h"

namespace weft::train {
namespace {

// Its members stand in the place of the last; they wait as one, and who waits for one waits for the last.
void join_group(plan::Plan& plan, const std::vector<std::size_t>& group) {
  std::vector<graph::TaskId> members;
  for (const std::size_t i : group) members.push_back(plan.sequence[i]);
  const auto is_member = [&](graph::TaskId id) { return std::ranges::find(members, id) != members.end(); };
  const plan::Position last = plan.position[members.back().index()];
  std::vector<plan::Wait> waits;
  for (plan::StreamPlan& stream : plan.streams) {
    for (plan::Entry& entry : stream.entries) {
      if (is_member(entry.task)) {
        waits.insert(waits.end(), entry.waits.begin(), entry.waits.end());
        entry.waits.clear();
      }
      for (plan::Wait& wait : entry.waits) {
        if (is_member(plan.streams[wait.stream.index()].entries[wait.entry].task)) wait.entry = last.entry;
      }
    }
  }
  const plan::Position first = plan.position[members.front().index()];
  plan.streams[first.stream.index()].entries[first.entry].waits = waits;
}

// The groups leave the sequence for the place of their last members.
plan::Plan grouped_plan(const execute::DevicePlan& loaded) {
  plan::Plan plan = *loaded.plan;
  std::vector<graph::TaskId> sequence;
  for (std::size_t i = 0; i < loaded.steps.size(); ++i) {
    const execute::DeviceStep& step = loaded.steps[i];
    if (!step.gathers.empty()) {
      join_group(plan, step.gathers);
      for (const std::size_t member : step.gathers) sequence.push_back(loaded.plan->sequence[member]);
    } else if (!step.gathered_later) {
      sequence.push_back(loaded.plan->sequence[i]);
    }
  }
  plan.sequence = sequence;
  return plan;
}

struct GatheringRun {
  graph::Grid grid;
  const char* policy;
  bool zero1 = false;
};

class GroupedGathers : public ::testing::TestWithParam<GatheringRun> {};

TEST_P(GroupedGathers, AreProvedAndChangeNoBit) {
  testing::GridRun run = testing::narrow_run(GetParam().grid);
  run.model.layers = 3;
  run.steps = 5;
  run.policy = GetParam().policy;
  run.step.zero1 = GetParam().zero1;
  const testing::GridOutcome on_cpu = testing::run_grid(run);
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    testing::GridRun grouped_run = run;
    std::mutex mutex;
    std::vector<const execute::DeviceTeam*> teams(4);
    grouped_run.make_executor = [&](comm::World& world, const execute::State& state) {
      auto team = std::make_shared<execute::DeviceTeam>(
          testing::make_fake_device({.seed = seed + 1000 * static_cast<std::uint64_t>(world.rank())}), 1, run.step.grid,
          execute::DeviceExecutorOptions{.kept_steps = 1, .trace_every = 2, .group_gathers = true},
          execute::make_staged_transport(world, run.step.grid));
      {
        const std::lock_guard lock(mutex);
        teams[static_cast<std::size_t>(world.rank())] = team.get();
      }
      return execute::make_device_executor(std::move(team), world, state);
    };
    std::size_t groups = 0;
    grouped_run.before_step = [&](const comm::World& world, std::int64_t step) {
      if (step != 2) return;
      const std::lock_guard lock(mutex);
      for (const auto& loaded : teams[static_cast<std::size_t>(world.rank())]->ranks.front().plans) {
        const plan::Plan plan = grouped_plan(*loaded);
        for (const plan::Violation& each : plan::check_plan(plan)) ADD_FAILURE() << each.message;
        groups += static_cast<std::size_t>(
            std::ranges::count_if(loaded->steps, [](const auto& each) { return !each.gathers.empty(); }));
      }
    };
    testing::expect_equal(testing::run_grid(grouped_run), on_cpu);
    EXPECT_GT(groups, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GroupedGathers,
                         ::testing::Values(GatheringRun{{.z = 2}, "program"}, GatheringRun{{.z = 2}, "fsdp"},
                                           GatheringRun{{.z = 2}, "critical-path"}, GatheringRun{{.z = 2}, "lhs"},
                                           GatheringRun{{.x = 2, .z = 2}, "program"},
                                           GatheringRun{{.data = 2}, "program", true}),
                         [](const auto& info) { return "GatheringRun" + std::to_string(info.index); });

}  // namespace
}  // namespace weft::train
