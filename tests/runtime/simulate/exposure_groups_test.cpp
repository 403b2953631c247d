// Collectives that differ in layer and micro-batch are one group.
#include "runtime/simulate/exposure_groups.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/simulate/explained_toy.h"

namespace weft::simulate {
namespace {

using testing::kUs;
using testing::layers_step;

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

}  // namespace
}  // namespace weft::simulate
