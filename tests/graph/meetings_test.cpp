#include "graph/meetings.h"

#include <gtest/gtest.h>

#include "tests/runtime/pipeline_toy.h"

namespace weft::graph {
namespace {

using MemberNames = std::vector<std::string>;

MemberNames members_of(const testing::PipelineToy& toy, const Meetings& meetings, std::size_t rank,
                       const std::string& task) {
  MemberNames names;
  const std::uint32_t step = meetings.of(rank, toy.classes()[rank]->find_task(task).index());
  if (step == Meetings::kNone) return names;
  for (const ClassTask& member : meetings.all()[step].members)
    names.push_back(std::to_string(member.of_class) + " " + toy.classes()[member.of_class]->tasks()[member.task].name);
  return names;
}

TEST(Meetings, PairMessagesAndJoinSharedCollectives) {
  const testing::PipelineToy toy({.stages = 3, .world = true, .embedding = true});
  const Meetings meetings(toy.classes());
  EXPECT_EQ(members_of(toy, meetings, 1, "mb1.S1.fwd.receive"),
            (MemberNames{"0 mb1.S0.fwd.send", "1 mb1.S1.fwd.receive"}));
  EXPECT_EQ(members_of(toy, meetings, 1, "mb0.S1.bwd.send"),
            (MemberNames{"1 mb0.S1.bwd.send", "0 mb0.S0.bwd.receive"}));
  EXPECT_EQ(members_of(toy, meetings, 2, "gradient_norm"),
            (MemberNames{"0 gradient_norm", "1 gradient_norm", "2 gradient_norm"}));
  EXPECT_EQ(members_of(toy, meetings, 0, "embedding_gradient"),
            (MemberNames{"0 embedding_gradient", "2 embedding_gradient"}));
  EXPECT_EQ(members_of(toy, meetings, 1, "mb0.S1.fwd.p0"), MemberNames{});
}

// On two ranks with chunks in a loop, messages of both ways go to the same neighbour.
TEST(Meetings, TwoRanksInALoop) {
  const testing::PipelineToy toy({.stages = 2, .chunks = {2, graph::ChunkPlacement::loop}});
  const Meetings meetings(toy.classes());
  EXPECT_EQ(members_of(toy, meetings, 0, "mb0.S2.fwd.receive"),
            (MemberNames{"1 mb0.S1.fwd.send", "0 mb0.S2.fwd.receive"}));
  EXPECT_EQ(members_of(toy, meetings, 1, "mb0.S1.bwd.receive"),
            (MemberNames{"0 mb0.S2.bwd.send", "1 mb0.S1.bwd.receive"}));
}

}  // namespace
}  // namespace weft::graph
