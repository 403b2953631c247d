// The bar of 4D parallelism: every grid trains like one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "graph/analysis.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/policy.h"
#include "tests/train/grid_run.h"

namespace weft {
namespace {

ModelConfig grid_model(Family family) {
  ModelConfig model;
  model.family = family;
  model.layers = 2;
  model.hidden = family == Family::llama ? 96 : 48;
  model.heads = family == Family::llama ? 24 : 12;
  model.kv_heads = 12;
  model.ffn = 60;
  model.vocab = 61;  // no axis divides it
  model.context = 12;
  model.tied = family == Family::gpt2;
  return model;
}

const std::vector<Grid>& grids() {
  static const std::vector<Grid> all = {
      grid_of(2, 1, 1, 1), grid_of(1, 2, 1, 1), grid_of(1, 1, 2, 1), grid_of(1, 1, 1, 2), grid_of(2, 2, 1, 1),
      grid_of(2, 1, 2, 1), grid_of(1, 2, 2, 1), grid_of(2, 2, 2, 1), grid_of(1, 1, 2, 2), grid_of(2, 2, 1, 2),
      grid_of(3, 1, 1, 1), grid_of(1, 3, 1, 1), grid_of(1, 1, 3, 1)};
  return all;
}

// A step of two micro-batches of 24 sequences in all, on any of the grids.
GridRun grid_run(Family family, const Grid& grid) {
  GridRun run;
  run.model = grid_model(family);
  run.step.grid = grid;
  run.step.seq_len = 6;
  run.step.micro_batches = 2;
  run.step.micro_batch = 24 / (2 * grid.batch_ranks());
  run.step.dropout = 0.1F;
  run.step.clip = 0.5F;
  return run;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                 const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(std::abs(found[i] - expected[i]), tolerance * std::abs(expected[i])) << what << " of step " << i;
  }
}

class GridBar : public ::testing::TestWithParam<std::tuple<Family, Grid>> {
 protected:
  Family family() const { return std::get<0>(GetParam()); }
  Grid grid() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(
    Grids, GridBar, ::testing::Combine(::testing::Values(Family::gpt2, Family::llama), ::testing::ValuesIn(grids())),
    [](const auto& info) {
      const Grid& grid = std::get<1>(info.param);
      return fmt::format("{}_x{}y{}z{}data{}", to_string(std::get<0>(info.param)), grid.x, grid.y, grid.z, grid.data);
    });

TEST_P(GridBar, GradientsOfTheFirstStep) {
  GridRun run = grid_run(family(), grid());
  run.steps = 1;
  run.step.beta1 = 0;  // the first moment is the gradient
  run.step.clip = 0;
  GridRun serial = grid_run(family(), {});
  serial.steps = 1;
  serial.step.beta1 = 0;
  serial.step.clip = 0;
  const GridOutcome expected = run_grid(serial), found = run_grid(run);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  const auto [difference, name] = worst_difference(found, expected, ".m");
  EXPECT_LE(difference, 1e-5) << name;
}

TEST_P(GridBar, TwentySteps) {
  const GridOutcome expected = run_grid(grid_run(family(), {}));
  for (const bool recompute : {false, true}) {
    GridRun run = grid_run(family(), grid());
    run.step.recompute_blocks = recompute;
    const GridOutcome found = run_grid(run);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    expect_near(found.losses, expected.losses, 1e-6, "loss");
    expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
    const auto [difference, name] = worst_difference(found, expected, "");
    EXPECT_LE(difference, 1e-5) << name << (recompute ? ", recomputed" : "");
  }
}

// What a grid computes under a policy, to the bit.
TEST_P(GridBar, PoliciesChangeNoBit) {
  GridRun run = grid_run(family(), grid());
  run.steps = 3;
  run.policy = "serial";
  const GridOutcome serial = run_grid(run);
  run.policy = "program";
  const GridOutcome program = run_grid(run);
  ASSERT_EQ(program.exit_code, 0) << program.errors;
  EXPECT_EQ(program.losses, serial.losses);
  EXPECT_EQ(program.arrays, serial.arrays);
}

TEST_P(GridBar, Bf16IsNearItsOwnSerialRun) {
  GridRun run = grid_run(family(), {});
  run.step.dtype = DType::bf16;
  run.steps = 10;
  const GridOutcome expected = run_grid(run);
  GridRun cut = grid_run(family(), grid());
  cut.step.dtype = DType::bf16;
  cut.steps = 10;
  const GridOutcome found = run_grid(cut);
  ASSERT_EQ(found.exit_code, 0) << found.errors;
  expect_near(found.losses, expected.losses, 2e-2, "loss");
  expect_near(found.norms, expected.norms, 2e-2, "gradient norm");
  for (const auto& [name, values] : expected.arrays) {
    if (name.ends_with(".m") || name.find("bias") != std::string::npos) continue;
    EXPECT_LE(relative_difference(found.arrays.at(name), values), 2e-2) << name;
  }
}

// A rank that issues collectives in another order than its peers is named, by the checker and not by a hang.
TEST_P(GridBar, AnotherOrderOfCollectivesIsCaught) {
  const GridRun run = grid_run(family(), grid());
  const auto graph = lower_train(run.model, run.step);
  const Order order = make_policy("program")->order(*graph, {});
  const Plan plan = make_plan(graph, order, "program");
  EXPECT_TRUE(check_plan(plan).empty());

  // What may come late in the program comes first, so the second micro-batch overtakes the first.
  std::vector<double> priority;
  for (std::size_t i = 0; i < graph->tasks().size(); ++i) priority.push_back(static_cast<double>(i));
  std::vector<Placement> placements(graph->tasks().size());
  for (const Placement& placement : order.sequence) placements[placement.task.index()] = placement;
  Order other = order;
  other.sequence.clear();
  for (const TaskId id : topological_order(*graph, priority)) other.sequence.push_back(placements[id.index()]);
  const Plan overtaking = make_plan(graph, other, "other");
  EXPECT_TRUE(check_plan(overtaking).empty());  // each rank's plan is safe by itself

  const std::vector<const Plan*> ranks = {&plan, &overtaking};
  const auto violations = check_collectives_across_ranks(ranks);
  ASSERT_FALSE(violations.empty());
  EXPECT_NE(violations.front().message.find("rank 1 issues"), std::string::npos) << violations.front().message;
}

/// By task: whether it must come before `task` within a step.
std::vector<bool> ancestors_of(const Graph& graph, TaskId task) {
  std::vector<std::vector<std::size_t>> before(graph.tasks().size());
  for (const Edge& edge : graph.edges()) {
    if (edge.distance == 0) before[edge.to.index()].push_back(edge.from.index());
  }
  std::vector<bool> found(graph.tasks().size());
  for (std::vector<std::size_t> open = {task.index()}; !open.empty();) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t earlier : before[at]) {
      if (!found[earlier]) open.push_back(earlier);
      found[earlier] = true;
    }
  }
  return found;
}

/// The order with `late`, and what it needs, moved before `early`.
Order overtaken(Order order, TaskId early, TaskId late, const std::vector<bool>& needed) {
  const auto place = [&](TaskId task) {
    return std::ranges::find(order.sequence, task, [](const Placement& placement) { return placement.task; });
  };
  std::stable_partition(place(early), place(late) + 1, [&](const Placement& placement) {
    return placement.task == late || needed[placement.task.index()];
  });
  return order;
}

// Of every communicator: whichever two neighbours of its queue the graph lets a rank swap, the swap is named.
TEST_P(GridBar, EveryChannelsSwapIsCaught) {
  const GridRun run = grid_run(family(), grid());
  const auto graph = lower_train(run.model, run.step);
  const Order order = make_policy("program")->order(*graph, {});
  const Plan plan = make_plan(graph, order, "program");
  std::map<Channel, std::vector<TaskId>> queues;
  for (const TaskId id : plan.collectives) queues[*channel_of(graph->task(id).operation)].push_back(id);
  for (const auto& [channel, queue] : queues) {
    SCOPED_TRACE(to_string(channel));
    int swaps = 0;
    for (std::size_t i = 0; i + 1 < queue.size(); ++i) {
      const TaskId early = queue[i], late = queue[i + 1];
      const std::vector<bool> needed = ancestors_of(*graph, late);
      if (needed[early.index()]) continue;
      ++swaps;
      Plan swapped = plan;
      if (swaps == 1) {  // a whole plan that is safe by itself
        swapped = make_plan(graph, overtaken(order, early, late, needed), "other");
        EXPECT_TRUE(check_plan(swapped).empty());
      } else {
        std::iter_swap(std::ranges::find(swapped.collectives, early), std::ranges::find(swapped.collectives, late));
      }
      EXPECT_NE(swapped.collectives, plan.collectives);
      const std::vector<const Plan*> ranks = {&plan, &plan, &swapped};
      const auto violations = check_collectives_across_ranks(ranks);
      ASSERT_EQ(violations.size(), 1U) << graph->task(early).name << " and " << graph->task(late).name;
      EXPECT_NE(violations[0].message.find("rank 2 issues "), std::string::npos) << violations[0].message;
    }
    // Everything but the world's few scalars, which follow from one another.
    if (channel != Channel::world) {
      EXPECT_GT(swaps, 0);
    }
  }
  for (const Channel channel : {Channel::x, Channel::y, Channel::z_gather, Channel::z_scatter, Channel::data}) {
    EXPECT_EQ(queues.contains(channel), group_size(grid(), channel) > 1) << to_string(channel);
  }
}

struct Flags {
  const char* name;
  void (*set)(StepConfig&);
};

// Ways to keep and to send that change no number, or only how gradients are rounded on the wire.
TEST(GridFlags, KeepingAndSendingInOtherWays) {
  for (const Family family : {Family::gpt2, Family::llama}) {
    GridRun serial = grid_run(family, {});
    serial.steps = 4;
    const GridOutcome expected = run_grid(serial);
    for (const Grid& grid : {grid_of(1, 1, 1, 2), grid_of(1, 1, 2, 2), grid_of(2, 2, 2, 1), grid_of(2, 1, 1, 2)}) {
      for (const Flags& flags :
           {Flags{"zero-1", [](StepConfig& s) { s.zero1 = true; }},
            Flags{"reshard", [](StepConfig& s) { s.reshard_after_forward = true; }},
            Flags{"reshard, recompute", [](StepConfig& s) { s.reshard_after_forward = s.recompute_blocks = true; }},
            Flags{"zero-1, reshard, recompute",
                  [](StepConfig& s) { s.zero1 = s.reshard_after_forward = s.recompute_blocks = true; }}}) {
        SCOPED_TRACE(std::string(to_string(family)) + " " + to_string(grid) + " " + flags.name);
        GridRun run = grid_run(family, grid);
        run.steps = 4;
        const GridOutcome plain = run_grid(run);
        flags.set(run.step);
        const GridOutcome found = run_grid(run);
        ASSERT_EQ(found.exit_code, 0) << found.errors;
        expect_near(found.losses, expected.losses, 1e-6, "loss");
        expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
        const auto [difference, name] = worst_difference(found, expected, "");
        EXPECT_LE(difference, 1e-5) << name;
        EXPECT_EQ(found.losses.front(), plain.losses.front());
      }
      GridRun narrow = grid_run(family, grid);
      narrow.steps = 4;
      narrow.step.reduce_dtype = DType::bf16;
      const GridOutcome found = run_grid(narrow);
      ASSERT_EQ(found.exit_code, 0) << found.errors;
      expect_near(found.losses, expected.losses, 2e-3, "loss");
      expect_near(found.norms, expected.norms, 1e-2, "gradient norm");
    }
  }
}

// Two KV heads on up to six ranks of x·y: ranks of x share them.
TEST(GridSharedHeads, TrainLikeOneRank) {
  const auto shared = [](const Grid& grid) {
    GridRun run = grid_run(Family::llama, grid);
    run.model.heads = 12;
    run.model.kv_heads = 2;
    run.steps = 4;
    return run;
  };
  const GridOutcome expected = run_grid(shared({}));
  for (const Grid& grid : {grid_of(4, 1, 1, 1), grid_of(2, 2, 1, 1), grid_of(6, 1, 1, 1), grid_of(2, 2, 2, 1)}) {
    SCOPED_TRACE(to_string(grid));
    ASSERT_TRUE(local_heads(shared(grid).model, grid).kv_shared);
    const GridOutcome found = run_grid(shared(grid));
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    expect_near(found.losses, expected.losses, 1e-6, "loss");
    const auto [difference, name] = worst_difference(found, expected, "");
    EXPECT_LE(difference, 1e-5) << name;
  }
}

/// The grids that a refusal names, each as a whole: "choose x=1 or x=3 or --grid x=2,y=1,z=1,data=1".
std::vector<Grid> grids_to_choose(const std::string& refusal, const Grid& refused) {
  std::vector<Grid> named;
  std::string rest = refusal.substr(refusal.find("choose ") + 7);
  const auto sizes_into = [](Grid& grid, std::string sizes) {
    if (const std::size_t flag = sizes.find("--grid "); flag != std::string::npos) sizes.erase(0, flag + 7);
    for (std::size_t at = 0; at < sizes.size();) {
      const std::size_t end = std::min(sizes.find(',', at), sizes.size()), equals = sizes.find('=', at);
      for (const Axis axis : kAxes) {
        if (sizes.substr(at, equals - at) == to_string(axis)) grid.on(axis) = std::stoll(sizes.substr(equals + 1));
      }
      at = end + 1;
    }
  };
  for (bool more = true; more;) {
    const std::size_t end = rest.find(" or ");
    more = end != std::string::npos;
    named.push_back(refused);
    sizes_into(named.back(), rest.substr(0, end));
    if (more) rest.erase(0, end + 4);
  }
  return named;
}

// Whatever the model, the grid and the flags: training equals one rank's, or is refused by name before it begins.
TEST(GridProperty, TwoHundredRandomRunsEqualOneRankOrAreRefused) {
  std::mt19937 random(5);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  const std::vector<std::string> policies = {"program",    "serial", "random:seed=3", "fsdp", "fsdp:reshard=false",
                                             "ddp-bucket", "axonn",  "critical-path"};
  int trained = 0, refused = 0, narrow = 0;
  for (int trial = 0; trial < 200; ++trial) {
    GridRun run;
    ModelConfig& model = run.model;
    model.family = draw(0, 1) == 0 ? Family::gpt2 : Family::llama;
    model.layers = draw(1, 2);
    model.kv_heads = draw(1, 4);
    model.heads = model.kv_heads * draw(1, 3);
    if (model.family == Family::gpt2) model.kv_heads = model.heads;
    model.hidden = model.heads * 2 * draw(1, 4);
    model.ffn = draw(1, 4) * 12;
    model.vocab = draw(5, 70);
    model.context = draw(3, 8);
    model.tied = draw(0, 1) == 0;
    StepConfig& step = run.step;
    do {
      step.grid = grid_of(draw(1, 3), draw(1, 3), draw(1, 3), draw(1, 2));
    } while (step.grid.ranks() > 8);
    std::shuffle(step.grid.order.begin(), step.grid.order.end(), random);
    step.seq_len = draw(2, model.context);
    step.micro_batches = draw(1, 2);
    step.micro_batch = draw(1, 2);
    step.recompute_blocks = draw(0, 1) == 0;
    step.reshard_after_forward = draw(0, 1) == 0;
    step.zero1 = draw(0, 1) == 0;
    step.dropout = draw(0, 1) == 0 ? 0.0F : 0.2F;
    step.clip = draw(0, 1) == 0 ? 0.0F : 0.3F;
    step.reduce_dtype = draw(0, 3) == 0 ? DType::bf16 : DType::f32;
    for (const char* rewrite :
         {"recompute", "recompute=0", "reshard", "reshard=0", "bucket=512", "split-collective=128", "ar-to-rs-ag"}) {
      if (draw(0, 4) == 0) run.rewrites += (run.rewrites.empty() ? "" : ";") + std::string(rewrite);
    }
    run.policy = policies[static_cast<std::size_t>(draw(0, std::ssize(policies) - 1))];
    run.steps = 2;
    SCOPED_TRACE(
        fmt::format("trial {}: {}, heads {}/{}, hidden {}, ffn {}, vocab {}, grid {}, {} gradients, policy {}, "
                    "rewrites {}",
                    trial, to_string(model.family), model.heads, model.kv_heads, model.hidden, model.ffn, model.vocab,
                    to_string(step.grid), to_string(step.reduce_dtype), run.policy, run.rewrites));
    try {
      validate_grid(model, step.grid);
    } catch (const UserError& error) {
      ++refused;
      const std::string text = error.what();
      EXPECT_NE(text.find("does not divide by"), std::string::npos) << text;
      ASSERT_NE(text.find("choose "), std::string::npos) << text;
      bool names_axis = false;  // with the size that doesn't fit
      for (const Axis axis : kAxes) {
        names_axis = names_axis ||
                     text.find(fmt::format(" by {} = {};", to_string(axis), step.grid.on(axis))) != std::string::npos;
      }
      EXPECT_TRUE(names_axis) << text;
      for (const Grid& other : grids_to_choose(text, step.grid)) {
        EXPECT_FALSE(other == step.grid) << text;
        EXPECT_NO_THROW(validate_grid(model, other)) << text;
      }
      continue;
    }
    ++trained;
    GridRun serial = run;
    serial.step.grid = {};
    serial.step.zero1 = false;
    serial.step.micro_batch *= step.grid.batch_ranks();
    serial.policy = "serial";
    serial.rewrites = "";
    const GridOutcome expected = run_grid(serial), found = run_grid(run);
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    if (step.reduce_dtype == DType::bf16) {  // gradients are rounded on the wire
      ++narrow;
      EXPECT_LE(std::abs(found.losses[0] - expected.losses[0]), 1e-6 * expected.losses[0]) << "before any gradient";
      expect_near(found.losses, expected.losses, 2e-3, "loss");
      expect_near(found.norms, expected.norms, 1e-2, "gradient norm");
      continue;
    }
    expect_near(found.losses, expected.losses, 1e-6, "loss");
    expect_near(found.norms, expected.norms, 1e-5, "gradient norm");
    // What began at zero is, after two steps, made of normalised gradients alone, the smallest of them rounding errors.
    for (const auto& [name, values] : expected.arrays) {
      if (name.find("attn.qkv.bias") != std::string::npos || name.ends_with(".m")) continue;
      EXPECT_LE(relative_difference(found.arrays.at(name), values), name.ends_with("bias") ? 1e-3 : 1e-5) << name;
    }
  }
  EXPECT_GT(trained, 60);
  EXPECT_GT(refused, 40);
  EXPECT_GT(narrow, 10);
}

}  // namespace
}  // namespace weft
