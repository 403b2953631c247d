// Causes, words and gains on graphs small enough to simulate by hand; times in microseconds.
#include "runtime/simulate/explain.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/base/messages.h"
#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::expect_whole;
using testing::found;
using testing::held_back;
using testing::kNoRewrites;
using testing::kUs;
using testing::layers_step;
using testing::remedies_of;
using testing::TimedStep;

// a | c | b
TEST(Explain, ACollectiveThatEverythingWaitsFor) {
  const TimedStep step({{"a", "compute0", 10, "", "p"}, {"c", "data", 20, "p"}, {"b", "compute0", 5, "p"}});
  const Explanation explanation = step.explained();
  ASSERT_EQ(explanation.collectives.size(), 1U);
  const ExposedCollective& c = explanation.collectives[0];
  EXPECT_EQ(c.cause, ExposureCause::data_dependency);
  EXPECT_EQ(to_string(c.cause), "data dependency");
  EXPECT_EQ(identifier_of(c.cause), "data_dependency");
  EXPECT_EQ(step.graph->task(c.input).name, "a");
  EXPECT_EQ(c.exposed_ns, 20 * kUs);
  EXPECT_EQ(c.duration_ns, 20 * kUs);
  EXPECT_EQ(c.alone_ns, 20 * kUs);
  EXPECT_EQ(c.ready_ns, 10 * kUs);
  EXPECT_EQ(c.begin_ns, 10 * kUs);
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c"), (std::vector<std::string>{"no_time: 20"}));
  ASSERT_EQ(explanation.path.size(), 3U);
  EXPECT_EQ(explanation.path[0].kind, "add");
  EXPECT_EQ(explanation.path[1].kind, "all_reduce on data");
  EXPECT_EQ(explanation.path[1].ns, 20 * kUs);
  EXPECT_EQ(explanation.path[2].first, "b");
  expect_whole(explanation, step.report().step_ns());
  EXPECT_TRUE(explanation.rewrites.empty());
}

// b needs c and comes before d and e, which don't.
TEST(Explain, ComputationsThatStandInTheWrongOrder) {
  const TimedStep step({{"a", "compute0", 10, "", "p"},
                        {"c", "data", 20, "p"},
                        {"b", "compute0", 5, "p"},
                        {"d", "compute0", 8, "", "q"},
                        {"e", "compute0", 15, "", "r"}});
  ASSERT_EQ(step.report().step_ns(), 58 * kUs);
  const Explanation explanation = step.explained();
  const ExposedCollective& c = found(explanation, *step.graph, "c");
  // To run b later is to run d and e first: one order, one remedy. b is small, and no other computation of the pass
  // reads what it writes.
  EXPECT_EQ(c.cause, ExposureCause::local_task);
  EXPECT_EQ(identifier_of(c.cause), "local_task");
  EXPECT_EQ(step.graph->task(c.in_the_way).name, "b");
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c"), (std::vector<std::string>{"local_task: 20", "no_time: 20"}));
  // b, d and e are one piece of three additions.
  ASSERT_EQ(explanation.path.size(), 3U);
  EXPECT_EQ(explanation.path[2].tasks, 3);
  EXPECT_EQ(explanation.path[2].first, "b");
  EXPECT_EQ(explanation.path[2].last, "e");
  EXPECT_EQ(explanation.path[2].ns, 28 * kUs);
  expect_whole(explanation, step.report().step_ns());
}

// c2 is ready with c1, but c1 goes first.
TEST(Explain, ACollectiveInAQueue) {
  const TimedStep step({{"a", "compute0", 10, "", "pq"},
                        {"c1", "data", 30, "p"},
                        {"c2", "data", 10, "q"},
                        {"b", "compute0", 5, "q"},
                        {"d", "compute0", 4, "p"}});
  ASSERT_EQ(step.report().step_ns(), 59 * kUs);
  const Explanation explanation = step.explained();
  ASSERT_EQ(explanation.collectives.size(), 2U);
  EXPECT_EQ(step.graph->task(explanation.collectives[0].task).name, "c1");  // exposed for longer
  const ExposedCollective& c2 = found(explanation, *step.graph, "c2");
  EXPECT_EQ(c2.cause, ExposureCause::queued);
  EXPECT_EQ(step.graph->task(c2.in_the_way).name, "c1");
  EXPECT_EQ(c2.late_ns(), 30 * kUs);
  EXPECT_EQ(c2.ready_ns, 10 * kUs);
  EXPECT_EQ(c2.begin_ns, 40 * kUs);
  // To overtake c1 is to be issued after a: one order, one remedy.
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c2"),
            (std::vector<std::string>{"pass_queue: 5", "computations_first: 4", "no_time: 10"}));
  expect_whole(explanation, step.report().step_ns());
}

// The policy lets c wait for d.
TEST(Explain, ACollectiveThatThePolicyHoldsBack) {
  const TimedStep step = held_back();
  ASSERT_EQ(step.report().step_ns(), 65 * kUs);
  const Explanation explanation = step.explained();
  const ExposedCollective& c = found(explanation, *step.graph, "c");
  EXPECT_EQ(c.cause, ExposureCause::chosen);
  EXPECT_EQ(step.graph->task(c.in_the_way).name, "d");
  EXPECT_EQ(c.late_ns(), 30 * kUs);
  EXPECT_EQ(c.too_late_ns(), 20 * kUs);
  EXPECT_EQ(c.exposed_ns, 20 * kUs);
  EXPECT_EQ(remedies_of(explanation, *step.graph, "c"), (std::vector<std::string>{"issue_earlier: 20", "no_time: 20"}));
  expect_whole(explanation, step.report().step_ns());
}

TEST(Explain, TheMostExposedGroupsGetRemedies) {
  const TimedStep layers = layers_step();
  ExplainOptions options = kNoRewrites;
  options.most_remedied = 1;
  const Explanation explanation = layers.explained(options);
  for (std::size_t group = 0; group < explanation.groups.size(); ++group) {
    EXPECT_EQ(!explanation.groups[group].remedies.empty(), group < 1);
  }
}

TEST(Explain, OneCollectiveByNameOrTheNearest) {
  const TimedStep layers = layers_step();
  ExplainOptions options = kNoRewrites;
  options.only = "mb1.L1.up.reduce";
  const Explanation explanation = layers.explained(options);
  ASSERT_EQ(explanation.collectives.size(), 1U);
  EXPECT_EQ(explanation.collectives[0].exposed_ns, 9 * kUs);
  EXPECT_FALSE(explanation.groups[0].remedies.empty());
  ASSERT_EQ(explanation.groups.size(), 1U);
  EXPECT_EQ(explanation.groups[0].name, "mb1.L1.up.reduce");
  options.only = "mb1.L1.up.reduc";
  EXPECT_TRUE(testing::refuses([&] { layers.explained(options); }, {"write \"mb1.L1.up.reduce\""}));
}

TEST(Explain, AGroupByItsPrintedName) {
  const TimedStep layers = layers_step();
  ExplainOptions options = kNoRewrites;
  options.only = "mb*.L*.up.reduce";
  const Explanation explanation = layers.explained(options);
  EXPECT_EQ(explanation.of_plan, 7U);
  EXPECT_EQ(explanation.collectives.size(), 6U);
  EXPECT_EQ(explanation.exposed_ns(), (9 + 5 * 4) * kUs);
  ASSERT_EQ(explanation.groups.size(), 1U);
  EXPECT_EQ(explanation.groups[0].name, options.only);
  options.only = "mb*.L*.up.reduc";
  EXPECT_TRUE(testing::refuses([&] { layers.explained(options); }, {"write \"mb*.L*.up.reduce\""}));
}

// A collective that is nearly hidden is left out, unless it is asked for by name.
TEST(Explain, HiddenCollectivesAreLeftOut) {
  const TimedStep step({{"a", "compute0", 10, "", "p"},
                        {"c", "data", 20.9, "p"},
                        {"d", "compute0", 20, "", "q"},
                        {"b", "compute0", 5, "p"}});
  EXPECT_TRUE(step.explained().collectives.empty());
  ExplainOptions options = kNoRewrites;
  options.only = "c";
  const Explanation one = step.explained(options);
  ASSERT_EQ(one.collectives.size(), 1U);
  EXPECT_EQ(one.collectives[0].exposed_ns, 900);
}

TEST(ExposureGroups, GroupsWhatDiffersInLayerAndMicroBatchAlone) {
  const testing::TimedStep layers = layers_step();
  const Explanation explanation = layers.explained();
  ASSERT_EQ(explanation.collectives.size(), 7U);
  double sum = 0;
  std::set<std::size_t> members;
  for (const ExposureGroup& group : explanation.groups) {
    double exposed = 0;
    for (const std::size_t i : group.members) {
      const ExposedCollective& member = explanation.collectives[i];
      EXPECT_EQ(member.cause, explanation.collectives[group.members.front()].cause);
      EXPECT_LE(member.exposed_ns, explanation.collectives[group.members.front()].exposed_ns);
      exposed += member.exposed_ns;
      EXPECT_TRUE(members.insert(i).second);
    }
    EXPECT_EQ(group.exposed_ns, exposed);
    sum += exposed;
  }
  EXPECT_EQ(members.size(), 7U);
  EXPECT_EQ(sum, (50 + 9 + 5 * 4) * kUs);
  ASSERT_EQ(explanation.groups.size(), 2U);
  EXPECT_EQ(explanation.groups[0].name, "L2norm.reduce");
  EXPECT_EQ(explanation.groups[0].members.size(), 1U);
  EXPECT_EQ(explanation.groups[1].name, "mb*.L*.up.reduce");
  EXPECT_EQ(explanation.groups[1].members.size(), 6U);
  const ExposedCollective& worst = explanation.collectives[explanation.groups[1].members.front()];
  EXPECT_EQ(layers.graph->task(worst.task).name, "mb1.L1.up.reduce");
}

TEST(ExposureGroups, NamesLeaveOutLayerAndMicroBatchAlone) {
  EXPECT_EQ(group_name("mb0.L3.mlp.up"), "mb*.L*.mlp.up");
  EXPECT_EQ(group_name("L11.attn.L2norm"), "L*.attn.L2norm");
  EXPECT_EQ(group_name("mb.Lx.head3"), "mb.Lx.head3");
  EXPECT_EQ(group_name("mb*.L*.up"), "mb*.L*.up");
}

// Of every policy on a real graph's costs: the path is the whole step, and the sums agree.
TEST(PathPieces, PathsOfEveryPolicyAddUpToTheStep) {
  const testing::TimedStep layers = layers_step();
  for (const std::string& policy : policy::graph_policy_names()) {
    const Report report = report_plan(layers.problem, policy::named_policy(policy));
    ASSERT_TRUE(report.planned()) << policy << ": " << report.refusal;
    const Explanation explanation = explain(layers.problem, report, {"", 0, 100, false});
    double sum = 0;
    for (const PathPiece& piece : explanation.path) sum += piece.ns;
    EXPECT_NEAR(sum, report.step_ns(), 30) << policy;
    double exposed = 0;
    for (const ExposedCollective& one : explanation.collectives) exposed += one.exposed_ns;
    EXPECT_GE(exposed, static_cast<double>(report.first().overlap.exposed)) << policy;
  }
}

}  // namespace
}  // namespace weft::simulate
