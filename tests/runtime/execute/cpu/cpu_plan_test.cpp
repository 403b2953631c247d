// The report for a watchdog about streams in the middle of a step.
#include "runtime/execute/cpu/cpu_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/cpu/loaded_toy.h"

namespace weft::execute {
namespace {

TEST(CpuPlan, TellsWhereStreamsStandAndWhatTheyWaitFor) {
  testing::on_ranks(1, [&](comm::World& world) {
    const std::vector<graph::Channel> channels = {graph::Channel::data};
    const CommunicatorSet communicators(world, channels);
    testing::LoadedToy toy(communicators);
    EXPECT_EQ(toy.loaded.finished_entries(), 0U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: 0 of 2 tasks done, at task 'a', running"
              "\n  stream data: 0 of 1 tasks done, at collective 'sum', waits for 'a' on compute0");
    toy.computed(1);
    EXPECT_EQ(toy.loaded.finished_entries(), 1U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: 1 of 2 tasks done, at task 'b', waits for 'sum' on data"
              "\n  stream data: 0 of 1 tasks done, at collective 'sum', posted: waits for its peers");
    toy.loaded.streams[1].finished = toy.loaded.streams[1].completed = 1;
    toy.computed(2);
    EXPECT_EQ(toy.loaded.finished_entries(), 3U);
    EXPECT_EQ(toy.loaded.describe_position(),
              "\n  stream compute0: done, 2 of 2 tasks\n  stream data: done, 1 of 1 tasks");
  });
}

}  // namespace
}  // namespace weft::execute
