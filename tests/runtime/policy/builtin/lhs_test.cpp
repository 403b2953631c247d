#include "runtime/policy/builtin/lhs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::policy {
namespace {

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

TEST(LhsRules, AreParsedAndRefused) {
  EXPECT_EQ(parse_lhs_rules("less-memory+near"),
            (std::vector<LhsRule>{LhsRule::less_memory, LhsRule::near, LhsRule::program}));
  EXPECT_EQ(parse_lhs_rules(""), std::vector<LhsRule>{LhsRule::program});
  EXPECT_EQ(to_string(LhsRule::less_memory), "less-memory");
  EXPECT_THROW(parse_lhs_rules("near+"), UserError);
  EXPECT_THROW(parse_lhs_rules("near+near"), UserError);
  try {
    parse_lhs_rules("crtical");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "policy lhs: unknown rule \"crtical\"; expected of memory, release, near, communication, hide, "
                 "critical, unlock, consumer, less-memory, program, joined by +\n  fix: write \"critical\"");
  }
}

}  // namespace
}  // namespace weft::policy
