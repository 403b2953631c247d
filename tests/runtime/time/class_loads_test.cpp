#include "runtime/time/class_loads.h"

#include <gtest/gtest.h>

#include "tests/runtime/links.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::time {
namespace {

class StageLoads : public ::testing::Test {
 protected:
  ClassLoads loads(const std::vector<int>& links, bool directions = true, const cost::Machine* machine = nullptr) {
    const graph::Graph& graph = *toy_.classes()[1];
    return {graph, plan::streams_of(graph, 1), costs_, machine, links, directions};
  }

  testing::PipelineToy toy_{{.stages = 3, .micro_batches = 2, .message = 100, .world = true}};
  cost::TaskCosts costs_ = toy_.costs()[1];
};

TEST_F(StageLoads, LinksAreNumberedWithoutGaps) {
  std::vector<int> links = testing::one_link(3);
  EXPECT_EQ(loads(links).links, 1U);
  links[static_cast<std::size_t>(graph::Channel::send_next)] = 9;
  EXPECT_EQ(loads(links).links, 2U);
  EXPECT_EQ(loads({}).links, loads({}).streams.size() - 1);
}

TEST_F(StageLoads, MessagesUseOneDirectionOfALink) {
  EXPECT_TRUE(loads({}).has_messages);
  EXPECT_FALSE(loads({}, false).has_messages);
  const ClassLoads every = loads({});
  int both = 0, one = 0;
  for (const StreamLoad& stream : every.streams) {
    if (!stream.compute) ++(stream.sends && stream.receives ? both : one);
  }
  EXPECT_EQ(both, 1);
  EXPECT_EQ(one, 4);
}

TEST_F(StageLoads, TasksContendForLinksAndCoresAndWhereTheySlowEachOtherDown) {
  EXPECT_FALSE(loads(testing::own_links()).contends);
  EXPECT_TRUE(loads(testing::one_link()).contends);
  cost::Machine machine;
  EXPECT_FALSE(loads({}, true, &machine).contends);
  machine.shared_cores = true;
  EXPECT_TRUE(loads({}, true, &machine).contends);
  ClassLoads sparing = loads({});
  sparing.receive(0, {.ns = 100, .beside = 0.5}, 0);
  EXPECT_TRUE(sparing.contends);
  ClassLoads sharing = loads({}, true, &machine);
  sharing.receive(0, {.ns = 100, .beside = 0.5, .use = 0.75}, 25);
  EXPECT_EQ(sharing.tasks[0].cores, 0.25);
  EXPECT_EQ(sharing.tasks[0].use, 0.75);
  costs_.beside_ns = costs_.ns;
  EXPECT_FALSE(loads({}).contends);
  for (double& ns : costs_.beside_ns) ns *= 2;
  EXPECT_TRUE(loads({}).contends);
}

TEST(LinkShares, AShareThatIsNotNeededGoesToTheOthers) {
  LinkShares shares(1);
  for (const double use : {0.25, 0.75, 1.0}) shares.add(0, use);
  shares.divide();
  EXPECT_EQ(shares.rate(0, 0.25), 1);
  EXPECT_EQ(shares.rate(0, 0.75), 0.5);
  EXPECT_EQ(shares.rate(0, 1), 0.375);
}

}  // namespace
}  // namespace weft::time
