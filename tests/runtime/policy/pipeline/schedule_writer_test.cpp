#include "runtime/policy/pipeline/schedule_writer.h"

#include <gtest/gtest.h>

namespace weft::policy {
namespace {

TEST(ScheduleWriter, CountsUnitsByChunkAndNamesTheirParts) {
  const PipelineShape shape{.ranks = 3, .chunks = {2, graph::ChunkPlacement::v}, .micro_batches = 2};
  static constexpr plan::ReasonTable kReasons = schedule_reasons("mine");
  ScheduleWriter writer(kReasons, shape, 1);
  writer.begin(Part::warm_up);
  writer.forward(0);
  writer.forward(1);
  writer.begin(Part::steady);
  writer.forward_beside_backward(0, 1);
  writer.input(1);
  EXPECT_EQ(writer.count(Work::input, 1), 2);
  EXPECT_EQ(writer.count(Work::weight, 1), 1);
  writer.forward(0);  // of micro-batch 2, which the program doesn't have
  const RankSchedule schedule = writer.take();
  ASSERT_EQ(schedule.size(), 4U);
  EXPECT_EQ(schedule[0].unit, (Unit{Work::forward, 0, 1}));
  EXPECT_EQ(schedule[1].unit, (Unit{Work::forward, 0, 4}));
  EXPECT_EQ(schedule[2].unit, (Unit{Work::forward, 1, 1}));
  EXPECT_EQ(schedule[2].beside, (Unit{Work::backward, 0, 4}));
  EXPECT_EQ(schedule[3].unit, (Unit{Work::input, 1, 4}));
  EXPECT_EQ(to_string(schedule[1].reason), "mine: warm-up, chunk 2 forward 1 of 1");
  EXPECT_EQ(to_string(schedule[2].reason), "mine: steady, chunk 1 forward beside chunk 2 backward 1 of 1");
}

}  // namespace
}  // namespace weft::policy
