// Policies that compute layers again and gather weights again for memory's sake, on training steps of models: the
// limit, the bits, and a step that is no longer than the one without these rewrites.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/builtin/program.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/program_order.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/random_graph.h"
#include "tests/train/grid_run.h"

namespace weft::train {
namespace {

using Graph = std::shared_ptr<const graph::Graph>;

testing::GridRun small_run(ops::Family family, const graph::Grid& grid, std::int64_t layers) {
  testing::GridRun run = testing::narrow_run(grid);
  run.model.family = family;
  run.model.layers = layers;
  run.model.hidden = 16;
  run.model.ffn = 48;
  run.model.vocab = 16;
  run.model.context = run.step.seq_len = 8;
  run.step.micro_batches = 2;
  run.step.dropout = 0.2F;
  run.steps = 6;
  return run;
}

std::int64_t serial_scratch(const Graph& graph, const std::string& rewrites) {
  const Graph after = plan::rewrite(graph, plan::parse_rewrites(rewrites));
  const plan::Order order = policy::serial_order(*after, policy::ReorderedProgram(*after).sequence());
  return plan::make_plan(after, order, "serial").scratch_bytes;
}

TEST(RecomputingPolicies, TrainWithTheBitsOfAnUnlimitedRun) {
  struct Case {
    ops::Family family;
    std::int64_t z;
    std::string policy, fitting;
  };
  for (const Case& each : {Case{ops::Family::gpt2, 1, "portfolio:budget=6", "recompute=0-1"},
                           Case{ops::Family::llama, 2, "portfolio:budget=6", "recompute;reshard"},
                           Case{ops::Family::gpt2, 2, "anneal:iterations=6", "recompute=0-1"},
                           Case{ops::Family::llama, 1, "anneal:iterations=6", "recompute"}}) {
    SCOPED_TRACE(each.policy + " " + each.fitting);
    testing::GridRun run = small_run(each.family, graph::Grid{1, 1, each.z, 1}, 3);
    const testing::GridOutcome expected = testing::run_grid(run);
    EXPECT_NE(expected.losses.front(), expected.losses.back());
    const Graph graph = ops::lower_train(run.model, run.step);
    run.policy = each.policy;
    run.memory_limit = serial_scratch(graph, each.fitting);
    const auto decision =
        testing::decide_one(graph, *policy::make_policy(run.policy), {.memory_limit = run.memory_limit});
    EXPECT_GT(decision.graph->tasks().size(), graph->tasks().size());
    testing::expect_equal(testing::run_grid(run), expected);
  }
}

/// A step of a random model on a random grid, and what its plans may take.
struct RandomStep {
  explicit RandomStep(std::uint64_t seed) {
    testing::Draws draws(seed);
    const std::int64_t data = draws.between(1, 2), z = draws.between(1, 2), y = draws.between(1, 2);
    const graph::Grid grid{1, y, z, data};
    testing::GridRun run =
        small_run(draws.chance(50) ? ops::Family::gpt2 : ops::Family::llama, grid, draws.between(1, 4));
    run.step.seq_len = draws.between(2, 8);
    run.step.micro_batches = draws.between(1, 3);
    run.step.recompute_blocks = draws.chance(15);
    run.step.reshard_after_forward = draws.chance(25);
    if (draws.chance(30)) chosen = plan::parse_rewrites(draws.chance(50) ? "recompute=0" : "bucket=1KB;reshard=0");
    lowered = ops::lower_train(run.model, run.step);
    plain = plan::rewrite(lowered, chosen);
    const std::int64_t most = serial_scratch(plain, ""), least = serial_scratch(plain, "recompute;reshard");
    options.memory_limit = draws.chance(15) ? least / 2 : least + (most - least) * draws.between(0, 12) / 10;
    options.compute_streams = static_cast<int>(draws.between(1, 2));
    options.seed = seed;
  }
  double makespan(const graph::Graph& graph, const plan::Order& order) const {
    return testing::timetable_of(graph, order, policy::costs_of(graph, options), options).makespan;
  }

  std::vector<plan::Rewrite> chosen;
  Graph lowered, plain;
  policy::PolicyOptions options;
};

void expect_within_limit_and_no_longer(int steps) {
  int rewritten = 0, saved = 0, shorter = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(steps); ++seed) {
    const auto policy = policy::make_policy(seed % 2 == 0 ? "portfolio:budget=4,messages=off" : "anneal:iterations=4");
    const RandomStep step(seed);
    std::optional<plan::Order> plain;
    try {
      plain = testing::order_within_memory(*policy, *step.plain, step.options);
    } catch (const UserError&) {
      // Plain orders take too much.
    }
    try {
      const auto decision = testing::decide_one(step.lowered, *policy, step.options, step.chosen);
      const plan::Plan plan = plan::make_plan(decision.graph, decision.order, policy->name());
      EXPECT_LE(plan.scratch_bytes, step.options.memory_limit) << seed;
      EXPECT_TRUE(plan::check_plan(plan).empty()) << seed;
      EXPECT_TRUE(std::ranges::equal(std::span(decision.rewrites).first(step.chosen.size()), step.chosen)) << seed;
      const bool changed = decision.rewrites.size() > step.chosen.size();
      EXPECT_EQ(changed, !plan::rewrites_for_memory(plan).empty()) << seed;
      rewritten += changed ? 1 : 0;
      if (!plain) {
        ++saved;
        continue;
      }
      const double before = step.makespan(*step.plain, *plain), after = step.makespan(*decision.graph, decision.order);
      EXPECT_LE(after, before) << seed;
      shorter += after < before ? 1 : 0;
    } catch (const UserError&) {
      EXPECT_FALSE(plain) << seed;
      ++refused;
    }
  }
  EXPECT_GT(rewritten, steps / 4);
  EXPECT_GT(saved, steps / 4);
  EXPECT_GT(shorter, steps / 12);
  EXPECT_GT(refused, steps / 12);
}

TEST(RecomputingPolicies, KeepTheLimitAndAreNeverLongerThanPlainOrders) {
  expect_within_limit_and_no_longer(10);
}

TEST(RecomputingPolicies, KeepTheLimitInTwentySteps) {
  expect_within_limit_and_no_longer(20);
}

}  // namespace
}  // namespace weft::train
