#include "runtime/policy/compile_joint.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/compile_plan.h"
#include "runtime/policy/fit_memory.h"
#include "tests/runtime/policy/deep_step.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

// Of one class everything is as it was, also where memory is short.
TEST(CompileTogether, OneClassIsCompiledAlone) {
  const auto graph = testing::deep_step(6, 1024, 512);
  const auto chosen = plan::parse_rewrites("reshard=0");
  for (const char* name : {"serial", "program:depth=1", "critical-path", "portfolio:budget=12"}) {
    for (const std::int64_t limit : {std::int64_t{0}, testing::serial_scratch(graph, "reshard=0")}) {
      const auto policy = make_policy(name);
      const PolicyOptions options{.memory_limit = limit, .cost_model = testing::deep_costs(6, 1000, 1)};
      const Decision alone = decide(graph, *policy, options, chosen);
      const JointDecision joint = decide_together({&graph, 1}, *policy, options, chosen);
      EXPECT_EQ(joint.orders, std::vector<plan::Order>{alone.order});
      EXPECT_EQ(joint.graphs.front()->fingerprint(), alone.graph->fingerprint());
      EXPECT_EQ(plan::to_string(std::span<const plan::Rewrite>(joint.rewrites.front())),
                plan::to_string(std::span<const plan::Rewrite>(alone.rewrites)));
      EXPECT_EQ(compile_together({&graph, 1}, *policy, options, chosen).front().fingerprint,
                compile_plan(graph, *policy, options, chosen).fingerprint);
    }
  }
}

TEST(CompileTogether, RefusesAStageThatDoesntFit) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 6});
  const auto plans = testing::checked_plans(toy.classes(), "gpipe");
  const std::int64_t needed = std::max(plans[0].scratch_bytes, plans[1].scratch_bytes);
  EXPECT_NO_THROW(compile_together(toy.classes(), *make_policy("gpipe"), {.memory_limit = needed}));
  try {
    compile_together(toy.classes(), *make_policy("gpipe"), {.memory = 4000});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "pipeline stage 0 takes 9.12 KiB of memory a rank (1.00 KiB of state and 8.12 KiB of scratch) under "
                 "policy gpipe; expected at most 3.91 KiB\n  fix: give it that much (--memory), use more stages, "
                 "recompute activations (--recompute block), or a policy that keeps fewer micro-batches alive");
  }
}

}  // namespace
}  // namespace weft::policy
