#include "runtime/policy/builtin/list_policies.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/scheduling/list_schedule.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

TEST(CriticalPathPolicy, StartsWhatTheLongestPathLeadsThrough) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8), z = toy.tensor("z", 8);
  toy.compute("b", {graph::write(y)});                                // 5
  toy.compute("a", {graph::write(x)});                                // 1, then c and d: 12
  toy.collective("c", graph::Channel::data, {graph::read_write(x)});  // 10
  toy.compute("d", {graph::read(x), graph::write(z)});                // 1
  const auto graph = toy.build();
  const PolicyOptions options{.cost_model = testing::named_costs({{"b", 5}, {"a", 1}, {"c", 10}, {"d", 1}})};
  const plan::Order order = testing::order_of(CriticalPathPolicy(), *graph, options);
  EXPECT_EQ(testing::sequence_of(*graph, order), "a c b d");
  EXPECT_EQ(testing::timetable_of(*graph, order, costs_of(*graph, options), options).makespan, 12);
  EXPECT_EQ(testing::reason_of(*graph, order, "a"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kLongestPath}));
  EXPECT_EQ(testing::reason_of(*graph, order, "b"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kOnlyReady}));
}

TEST(CriticalPathPolicy, TiesEndInProgramOrder) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.compute("a", {graph::write(x)});
  toy.compute("b", {graph::write(y)});
  const auto graph = toy.build();
  const plan::Order order = testing::order_of(CriticalPathPolicy(), *graph, {.cost_model = testing::named_costs({})});
  EXPECT_EQ(testing::sequence_of(*graph, order), "a b");
  EXPECT_EQ(testing::reason_of(*graph, order, "a"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kTiesOnLongestPath}));
}

// Two weights of 1 KiB, each gathered and used; the second is gathered while the first is used, if memory allows.
class TwoGathers : public ::testing::Test {
 protected:
  plan::Plan plan(std::int64_t limit) {
    const auto costs = testing::named_costs({}, 4);
    order_ = testing::order_of(CriticalPathPolicy(), *graph_, {.memory_limit = limit, .cost_model = costs});
    plan::Plan plan = plan::make_plan(graph_, order_, "critical-path");
    EXPECT_TRUE(plan::check_plan(plan).empty());
    return plan;
  }
  std::shared_ptr<const graph::Graph> graph_ = testing::two_gathers(256);
  plan::Order order_;
};

TEST_F(TwoGathers, RunAheadWithoutALimit) {
  EXPECT_EQ(plan(0).scratch_bytes, 2048);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 g1 c0 c1");
  EXPECT_EQ(plan(2048).scratch_bytes, 2048);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 g1 c0 c1");
}

TEST_F(TwoGathers, WaitForMemoryUnderALimit) {
  const plan::Plan limited = plan(2047);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 c0 g1 c1");
  EXPECT_EQ(limited.scratch_bytes, 1024);
  EXPECT_EQ(testing::waits_of(limited, "g1"), std::vector<std::string>{"compute0:c0"});
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g1"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kHeld}));
}

TEST_F(TwoGathers, FollowTheProgramWhereNothingFits) {
  EXPECT_EQ(plan(512).scratch_bytes, 1024);
  EXPECT_EQ(testing::sequence_of(*graph_, order_), "g0 c0 g1 c1");
  EXPECT_EQ(testing::reason_of(*graph_, order_, "g0"),
            (plan::Reason{.table = &ListScheduler::kReasons, .code = ListScheduler::kOverLimit}));
}

class Lhs : public ::testing::Test {
 protected:
  Lhs() {
    const graph::View x = toy_.tensor("x", 8), y = toy_.tensor("y", 8), z = toy_.tensor("z", 1024);
    toy_.compute("b", {graph::write(y)});                                // 5
    toy_.compute("e", {graph::write(z)});                                // 4, leads to f and g
    toy_.compute("a", {graph::write(x)});                                // 1, leads to c
    toy_.collective("c", graph::Channel::data, {graph::read_write(x)});  // 3
    toy_.compute("f", {graph::read(z)});                                 // 2
    toy_.compute("g", {graph::read(z)});                                 // 2
    graph_ = toy_.build();
  }
  std::string sequence(const std::string& rules) {
    const auto costs = testing::named_costs({{"b", 5}, {"e", 4}, {"a", 1}, {"c", 3}, {"f", 2}, {"g", 2}});
    order_ = testing::order_of(*make_policy("lhs:rules=" + rules), *graph_, {.cost_model = costs});
    return testing::sequence_of(*graph_, order_);
  }
  plan::Reason reason(const std::string& task) { return testing::reason_of(*graph_, order_, task); }
  static plan::Reason of_rule(LhsRule rule) {
    return {.table = &kLhsReasons, .code = static_cast<std::uint16_t>(rule)};
  }
  testing::ToyGraph toy_;
  std::shared_ptr<const graph::Graph> graph_;
  plan::Order order_;
};

TEST_F(Lhs, EachRuleOrdersByWhatItSays) {
  EXPECT_EQ(sequence("program"), "b e a c f g");
  EXPECT_EQ(reason("b"), of_rule(LhsRule::program));
  EXPECT_EQ(sequence("critical"), "e b a c f g");  // 6, then 5, then 4
  EXPECT_EQ(reason("e"), of_rule(LhsRule::critical));
  EXPECT_EQ(sequence("release"), "a c b e f g");
  EXPECT_EQ(reason("a"), of_rule(LhsRule::release));
  EXPECT_EQ(reason("b"), of_rule(LhsRule::program));
  EXPECT_EQ(sequence("near"), "a c b e f g");
  EXPECT_EQ(sequence("communication"), "a c b e f g");
  EXPECT_EQ(sequence("unlock"), "e a c b f g");       // 2, 1, 0 tasks
  EXPECT_EQ(sequence("less-memory"), "b a c e f g");  // b's bytes die with it, a adds 128, e 4096
  // c runs for 3 when a is done: e is closest to it; then nothing runs.
  EXPECT_EQ(sequence("release+hide"), "a c e b f g");
  EXPECT_EQ(reason("e"), of_rule(LhsRule::hide));
}

TEST_F(Lhs, TheFirstRuleThatDiffersDecides) {
  EXPECT_EQ(sequence("release+critical"), "a c e b f g");
  EXPECT_EQ(reason("a"), of_rule(LhsRule::release));
  EXPECT_EQ(reason("e"), of_rule(LhsRule::critical));
  EXPECT_EQ(reason("c"), plan::Reason{.table = &ListScheduler::kReasons});
}

TEST_F(Lhs, CollectivesCanFollowTheirReaders) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 8), y = toy.tensor("y", 8);
  toy.collective("gx", graph::Channel::data, {graph::write(x)});
  toy.collective("gy", graph::Channel::data, {graph::write(y)});
  toy.compute("fy", {graph::read(y)});
  toy.compute("fx", {graph::read(x)});
  graph_ = toy.build();
  EXPECT_EQ(sequence("consumer"), "gy gx fy fx");
  EXPECT_EQ(reason("gy"), of_rule(LhsRule::consumer));
}

using Rules = std::vector<LhsRule>;

std::string refusal_of_rules(const std::string& text) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mine.toml";
  std::ofstream(file) << text;
  return testing::message_of<UserError>([&] { read_lhs_rules(file); });
}

TEST(LhsRules, AreParsedAndRefused) {
  EXPECT_EQ(parse_lhs_rules("less-memory+near"), (Rules{LhsRule::less_memory, LhsRule::near, LhsRule::program}));
  EXPECT_EQ(parse_lhs_rules("program+near"), (Rules{LhsRule::program, LhsRule::near}));
  EXPECT_EQ(parse_lhs_rules(""), Rules{LhsRule::program});
  EXPECT_THROW(parse_lhs_rules("near+"), UserError);
  EXPECT_THROW(parse_lhs_rules("near+near"), UserError);
  EXPECT_EQ(testing::message_of<UserError>([] { parse_lhs_rules("crtical"); }),
            "policy lhs: unknown rule \"crtical\"; expected of memory, release, near, communication, hide, critical, "
            "unlock, consumer, less-memory, program, joined by +\n  fix: write \"critical\"");
}

TEST(LhsRules, CanStandInAFile) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mine.toml";
  std::ofstream(file) << "rules = [\"hide\",  # first\n  \"unlock\"]\n";
  EXPECT_EQ(lhs_rules(file.string()), (Rules{LhsRule::hide, LhsRule::unlock, LhsRule::program}));
}

TEST(LhsRules, TheExampleIsTheDefault) {
  const Rules rules = read_lhs_rules(std::filesystem::path(WEFT_SOURCE_DIR) / "examples/lhs_rules.toml");
  EXPECT_EQ(rules, parse_lhs_rules("memory+release+critical+unlock+consumer+program"));
}

TEST(LhsRules, RefusesFilesByLine) {
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [\n\"memory\",\n\"relase\"]"),
                                 {"line 3: unknown rule \"relase\"", "release"}));
  EXPECT_TRUE(
      testing::has_parts(refusal_of_rules("rules = [\"near\",\n\"near\"]"), {"line 2: rule near occurs twice"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [1]"), {"line 1: rules[0] is 1", "a text"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = \"near\""), {"line 1: rules is \"near\"", "a list"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules(""), {"has no rules"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = [\"near\"]\nrule = 1"),
                                 {"line 2: unknown key rule", "did you mean rules?"}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules("rules = ["), {"line 1: "}));
  EXPECT_TRUE(testing::has_parts(refusal_of_rules(std::string(70'000, '#')), {"larger than"}));
}

TEST(LhsRules, AMissingFileIsNamed) {
  const std::string message = testing::message_of<UserError>([] { make_policy("lhs:rules=/nowhere/mine.toml"); });
  EXPECT_TRUE(testing::has_parts(message, {"/nowhere/mine.toml can't be read"}));
}

}  // namespace
}  // namespace weft::policy
