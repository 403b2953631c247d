// The first task that made a NaN or an infinity is named, in program order and over all ranks.
#include "runtime/execute/non_finite.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/device/device_team.h"
#include "runtime/execute/program/program.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

/// sum = a + b, twice = b + b, and the sum over two ranks of all that; tensors are [2, 3].
std::shared_ptr<const graph::Graph> small_graph() {
  graph::GraphBuilder builder;
  const auto tensor = [&](std::string name, graph::Role role) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {2, 3}, role}));
  };
  const graph::View a = tensor("a", graph::Role::parameter), b = tensor("b", graph::Role::parameter);
  const graph::View sum = tensor("sum", graph::Role::activation), twice = tensor("twice", graph::Role::activation);
  const graph::View total = tensor("total", graph::Role::parameter);
  const graph::View workspace = graph::whole(
      builder,
      builder.add_tensor({"workspace", DType::f32, {graph::all_reduce_workspace(6, 2)}, graph::Role::workspace}));
  builder.add_task({"make_sum", graph::Add{6}, {graph::read(a), graph::read(b), graph::write(sum)}});
  builder.add_task({"make_twice", graph::Add{6}, {graph::read(b), graph::read(b), graph::write(twice)}});
  builder.add_task({"make_total", graph::Add{6}, {graph::read(sum), graph::read(twice), graph::write(total)}});
  builder.add_task({"reduce_total",
                    graph::AllReduce{graph::Channel::data, 2, 6},
                    {graph::read_write(total), graph::write(workspace)}});
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// Where steps run: the CPU, or ranks that share a device which runs work in an order that a seed picks.
enum class Runs : std::uint8_t { on_cpu, on_device, replayed };
constexpr Runs kRuns[] = {Runs::on_cpu, Runs::on_device, Runs::replayed};

MakeExecutor executor_that(Runs runs, bool check) {
  if (runs == Runs::on_cpu) return nullptr;
  return [=](comm::World& world, const State& state) {
    auto team = make_team(world, [&] {
      const DeviceExecutorOptions options{
          .kept_steps = 0, .graphs = runs == Runs::replayed, .check_finite = check, .long_step_ns = 0};
      return std::make_shared<DeviceTeam>(testing::make_fake_device({.seed = 3}), world.size(), std::nullopt, options);
    });
    return make_device_executor(std::move(team), world, state);
  };
}

/// The reports of two ranks when `poison` puts bad numbers into their parameters.
template <class Poison>
std::string report(bool check, const std::string& policy, int streams, Poison poison, Runs runs = Runs::on_cpu) {
  const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
    Program program(world, {{"train", small_graph()}},
                    {.policy = policy::make_policy(policy),
                     .policy_options = {.compute_streams = streams},
                     .check_finite = check,
                     .make_executor = executor_that(runs, check)});
    program.state_to_device();
    program.run("train", 6);
    poison(program.state(), world.rank());
    program.state_to_device();
    program.run("train", 7);
  });
  EXPECT_EQ(end.code, end.errors.empty() ? 0 : 3);
  return end.errors;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CheckFinite, NamesTheFirstTaskOfAllRanks) {
  const auto late_and_early = [](const State& state, int rank) {
    if (rank == 1) state.get<float>("a")[4] = kInfinity;   // first seen in 'make_sum'
    if (rank == 0) state.get<float>("a")[5] = -kInfinity;  // as well
  };
  for (const std::string policy : {"serial", "program"}) {
    for (const int streams : {1, 2}) {
      for (const Runs runs : kRuns) {
        EXPECT_EQ(
            report(true, policy, streams, late_and_early, runs),
            "weft: error: rank 0: train, step 7: task 'make_sum' wrote a NaN or an infinity to 'sum' at [1, 2]\n");
      }
    }
  }
}

TEST(CheckFinite, TheRankOfTheEarlierTaskReports) {
  // 2e38 twice overflows in 'make_twice'; an infinity in 'a' shows in 'make_sum' already.
  const auto poison = [](const State& state, int rank) {
    if (rank == 0) state.get<float>("b")[0] = 2e38F;
    if (rank == 1) state.get<float>("a")[4] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(report(true, "program", 1, poison),
            "weft: error: rank 1: train, step 7: task 'make_sum' wrote a NaN or an infinity to 'sum' at [1, 1]\n");
  const auto only_overflow = [](const State& state, int rank) {
    if (rank == 0) state.get<float>("b")[0] = 2e38F;
  };
  EXPECT_EQ(report(true, "program", 1, only_overflow),
            "weft: error: rank 0: train, step 7: task 'make_twice' wrote a NaN or an infinity to 'twice' at [0, 0]\n");
}

TEST(CheckFinite, CollectivesAreLookedAtToo) {
  const auto large = [](const State& state, int) {
    for (float& value : state.get<float>("a")) value = 2e38F;
  };
  for (const Runs runs : kRuns) {
    EXPECT_EQ(
        report(true, "program", 1, large, runs),
        "weft: error: rank 0: train, step 7: task 'reduce_total' wrote a NaN or an infinity to 'total' at [0, 0]\n");
  }
}

TEST(CheckFinite, IsSilentOtherwise) {
  const auto bad = [](const State& state, int) { state.get<float>("a")[0] = kInfinity; };
  for (const Runs runs : kRuns) {
    EXPECT_EQ(report(
                  true, "program", 2, [](const State&, int) {}, runs),
              "");
    EXPECT_EQ(report(false, "program", 1, bad, runs), "");
  }
}

// Of four rows three belong to groups; the fourth is whatever was there.
TEST(CheckFinite, RowsBeyondTheLastGroupDontCount) {
  const auto found = [](float third, float fourth, Runs runs) {
    graph::GraphBuilder builder;
    const auto tensor = [&](std::string name, DType dtype, std::vector<std::int64_t> shape) {
      return graph::whole(builder,
                          builder.add_tensor({std::move(name), dtype, std::move(shape), graph::Role::parameter}));
    };
    const graph::View x = tensor("x", DType::f32, {4, 2}), y = tensor("y", DType::f32, {4, 1});
    const graph::View offsets = tensor("offsets", DType::i32, {3});
    builder.add_task(
        {"act", graph::SwiGluForward{{{4, 1}, 2, 3}}, {graph::read(x), graph::write(y), graph::read(offsets)}});
    const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
    const testing::RanksEnd end = testing::end_of_ranks(1, [&](comm::World& world) {
      Program program(world, {{"train", graph}}, {.check_finite = true, .make_executor = executor_that(runs, true)});
      const auto rows = program.state().get<float>("x");
      rows[5] = third;
      program.state().get<float>("y")[3] = fourth;
      program.state().get<std::int32_t>("offsets")[1] = 1;
      program.state().get<std::int32_t>("offsets")[2] = 3;
      program.state_to_device();
      program.run("train", 0);
    });
    return end.errors;
  };
  for (const Runs runs : kRuns) {
    EXPECT_EQ(found(1, kInfinity, runs), "");
    EXPECT_NE(found(std::numeric_limits<float>::quiet_NaN(), 1, runs).find("'y' at [2, 0]"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::execute
