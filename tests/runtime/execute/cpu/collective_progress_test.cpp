// Collectives start when their waits hold, and advance at every poll.
#include "runtime/execute/cpu/collective_progress.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/runtime/comm/ranks.h"
#include "tests/runtime/execute/cpu/loaded_toy.h"

namespace weft::execute {
namespace {

/// Calls body(toy, memory) with a toy that is ready to run.
template <class Body>
void with_toy(const Body& body) {
  testing::on_ranks(1, [&](comm::World& world) {
    const std::vector<graph::Channel> channels = {graph::Channel::data};
    const CommunicatorSet communicators(world, channels);
    testing::LoadedToy toy(communicators);
    CpuMemory memory(toy.state);
    memory.allocate(toy.loaded.plan->scratch_bytes);
    toy.loaded.prepare(memory, nullptr);
    body(toy, memory);
  });
}

TEST(CollectiveProgress, ACollectiveWaitsForItsInputs) {
  with_toy([](testing::LoadedToy& toy, CpuMemory&) {
    const TickClock clock;
    CollectiveProgress progress(clock, nullptr);
    toy.loaded.traces.begin(0, 0, clock);
    progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].next, 0U);
    EXPECT_FALSE(toy.loaded.streams[1].in_flight);
    toy.computed(1);
    while (toy.loaded.streams[1].completed == 0) progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].finished, 1);
    EXPECT_EQ(toy.loaded.streams[1].next, 1U);
    EXPECT_GT(toy.loaded.traces.times(1)[0].end, 0);
    progress.poll(toy.loaded);
    EXPECT_EQ(toy.loaded.streams[1].finished, 1);
  });
}

TEST(CollectiveProgress, IsDueAWhileAfterTheLastLook) {
  with_toy([](testing::LoadedToy& toy, CpuMemory&) {
    const TickClock clock;
    CollectiveProgress progress(clock, nullptr);
    progress.poll(toy.loaded);
    const std::int64_t now = clock.now();
    EXPECT_FALSE(progress.due(now - clock.ticks_in(1'000'000)));
    EXPECT_TRUE(progress.due(now + clock.ticks_in(200'000)));
  });
}

TEST(CollectiveProgress, ResultsAreLookedAt) {
  with_toy([](testing::LoadedToy& toy, CpuMemory& memory) {
    const TickClock clock;
    FiniteCheck check(memory);
    CollectiveProgress progress(clock, &check);
    toy.state.get<float>("x")[0] = std::numeric_limits<float>::infinity();
    toy.computed(1);
    while (toy.loaded.streams[1].completed == 0) progress.poll(toy.loaded);
    ASSERT_TRUE(check.first().has_value());
    EXPECT_EQ(check.first()->task, toy.graph->find_task("sum"));
    check.begin_step();
    EXPECT_FALSE(check.first().has_value());
  });
}

}  // namespace
}  // namespace weft::execute
