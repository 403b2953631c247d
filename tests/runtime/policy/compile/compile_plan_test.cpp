#include "runtime/policy/compile/compile_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/builtin/fit_memory.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/deep_step.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

using Graph = std::shared_ptr<const graph::Graph>;

constexpr int kLayers = 6;

std::string text(const std::vector<plan::Rewrite>& rewrites) {
  return plan::to_string(std::span<const plan::Rewrite>(rewrites));
}

/// Searches that are short enough for tests.
const std::vector<std::string> kSearches = {"portfolio:budget=12", "anneal:iterations=12"};

class Decide : public ::testing::TestWithParam<std::string> {
 protected:
  PolicyOptions limited(std::int64_t bytes) const { return {.memory_limit = bytes, .cost_model = costs_}; }
  std::int64_t scratch(const std::string& rewrites) const { return testing::serial_scratch(graph_, rewrites); }

  const Graph graph_ = testing::deep_step(kLayers, 1024, 512);
  const std::shared_ptr<const cost::CostModel> costs_ = testing::deep_costs(kLayers, 1000, 1);
  const std::unique_ptr<Policy> policy_ = make_policy(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Searches, Decide, ::testing::ValuesIn(kSearches),
                         [](const auto& info) { return info.param.substr(0, info.param.find(':')); });

TEST_P(Decide, ALimitThatDoesntBindChangesNothing) {
  const auto free = testing::decide_one(graph_, *policy_, limited(0));
  const std::int64_t needed = plan::make_plan(graph_, free.order, "").scratch_bytes;
  for (const std::int64_t limit : {needed, 10 * needed}) {
    const auto decision = testing::decide_one(graph_, *policy_, limited(limit));
    EXPECT_TRUE(decision.rewrites.empty());
    EXPECT_EQ(decision.graph->fingerprint(), graph_->fingerprint());
    EXPECT_EQ(decision.order, free.order);
  }
}

TEST_P(Decide, LayersAreComputedAgainWherePlainOrdersTakeTooMuch) {
  const std::int64_t limit = scratch("recompute=0-2");
  EXPECT_THROW(testing::order_within_memory(*policy_, *graph_, limited(limit)), UserError);
  const auto decision = testing::decide_one(graph_, *policy_, limited(limit));
  EXPECT_EQ(text(decision.rewrites), "recompute=0-2");
  EXPECT_EQ(decision.graph->fingerprint(), plan::rewrite(graph_, decision.rewrites)->fingerprint());
  const plan::Plan plan = plan::make_plan(decision.graph, decision.order, policy_->name());
  EXPECT_LE(plan.scratch_bytes, limit);
  EXPECT_TRUE(plan::check_plan(plan).empty());
  EXPECT_EQ(plan::rewrites_for_memory(plan), "recompute=0-2");
  for (const plan::Reason& reason : plan.reasons) {
    ASSERT_TRUE(reason.selection);
    EXPECT_EQ(reason.selection->rewrites, "recompute=0-2");
    EXPECT_EQ(plan::parse_reason(plan::to_string(reason), {}).selection->rewrites, "recompute=0-2");
  }
  // The state counts too.
  const std::int64_t state = state_bytes(*graph_);
  EXPECT_EQ(text(testing::decide_one(graph_, *policy_, {.memory = state + limit, .cost_model = costs_}).rewrites),
            "recompute=0-2");
}

TEST_P(Decide, TheUsersRewritesStayAndAreNotRepeated) {
  const auto chosen = plan::parse_rewrites("recompute=1;reshard=0");
  const auto decision =
      testing::decide_one(graph_, *policy_, limited(scratch("recompute=1;reshard=0;recompute=0,2")), chosen);
  EXPECT_TRUE(text(decision.rewrites).starts_with("recompute=1;reshard=0;recompute=0,2")) << text(decision.rewrites);
}

TEST_P(Decide, ARefusalTellsThatRewritesWereTried) {
  const std::int64_t least = scratch("recompute;reshard");
  EXPECT_NO_THROW(testing::decide_one(graph_, *policy_, limited(least)));
  const std::string message =
      testing::message_of<UserError>([&] { testing::decide_one(graph_, *policy_, limited(least - 1)); });
  EXPECT_TRUE(testing::contains(message, policy_->name() + ", also with layers computed again")) << message;
  EXPECT_FALSE(testing::contains(message, "--recompute")) << message;
}

// A policy that only orders doesn't change the graph.
TEST(DecideByOthers, PoliciesThatDontSearchRefuse) {
  const Graph graph = testing::deep_step(kLayers, 1024, 512);
  const PolicyOptions options{.memory_limit = testing::serial_scratch(graph, "recompute=0-2")};
  for (const std::string& name : graph_policy_names()) {
    const auto policy = make_policy(name);
    if (policy->rewrites_to_fit()) continue;
    EXPECT_THROW(testing::decide_one(graph, *policy, options), UserError) << name;
  }
}

// Any policy's step is changed if a stage doesn't fit, and refused if nothing fits.
TEST(DecideStages, KeepEachStageWithinItsLimit) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 6});
  const auto policy = make_policy("gpipe");
  const std::vector<plan::Plan> wanted = testing::checked_plans(toy.classes(), "gpipe");
  const std::int64_t least = testing::most_scratch(testing::checked_plans(toy.classes(), "serial"));
  ASSERT_LT(least, testing::most_scratch(wanted));
  EXPECT_EQ(compile(toy.classes(), *policy, {.memory_limit = testing::most_scratch(wanted)})[0].fingerprint,
            wanted[0].fingerprint);
  const std::vector<plan::Plan> changed = testing::checked_plans(toy.classes(), "gpipe", {.memory_limit = least});
  EXPECT_LE(testing::most_scratch(changed), least);
  for (const plan::Plan& plan : changed) {
    const plan::Selection* selection = plan::selection_of(plan.reasons);
    ASSERT_NE(selection, nullptr);
    EXPECT_TRUE(selection->keeps_limit);
  }
  EXPECT_THROW(compile(toy.classes(), *policy, {.memory_limit = least / 4}), UserError);
}

}  // namespace
}  // namespace weft::policy
