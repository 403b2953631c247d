#include "runtime/policy/pipeline/unit_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/policy/pipeline/modelled_toy.h"

namespace weft::policy {
namespace {

TEST(UnitModel, HasTimesBytesAndMessagesOfUnits) {
  const testing::ModelledToy toy(
      {.stages = 2, .micro_batches = 2, .input = 1100, .weight = 700, .message = 50, .pieces = 2},
      {.memory_limit = 9000});
  const UnitModel& model = toy.model;
  const auto id = [&](Work work, std::int32_t micro_batch, std::int32_t stage) {
    return model.shape().id({work, micro_batch, stage});
  };
  EXPECT_EQ(model.shape().unit(id(Work::input, 1, 0)), (Unit{Work::input, 1, 0}));
  EXPECT_EQ(model[id(Work::forward, 1, 0)].ns, 1000);
  EXPECT_EQ(model[id(Work::input, 0, 1)].ns, 1100);
  EXPECT_EQ(model[id(Work::weight, 0, 1)].ns, 700);
  EXPECT_EQ(model[id(Work::forward, 0, 0)].message_ns, 50);
  EXPECT_EQ(model[id(Work::forward, 0, 1)].message_ns, 0);
  // Nothing leaves stage 0 in the backward pass, so its input part has all.
  EXPECT_FALSE(model[id(Work::weight, 0, 0)].exists);
  EXPECT_EQ(model[id(Work::input, 0, 0)].ns, 1800);
  // Two tensors of 256 floats are saved for both parts of the backward pass, and y for the input part.
  EXPECT_EQ(model[id(Work::forward, 0, 1)].takes, 2 * 1024 + 64);
  EXPECT_EQ(model.limit(1), 9000);
}

TEST(UnitModel, WaysToTheEndLeadThroughMessages) {
  const testing::ModelledToy toy({.stages = 2, .micro_batches = 1, .input = 1100, .weight = 700, .message = 50});
  const std::vector<double> ways = toy.model.ways_to_end();
  EXPECT_EQ(ways[toy.model.shape().id({Work::weight, 0, 1})], 700);
  EXPECT_EQ(ways[toy.model.shape().id({Work::input, 0, 1})], 1100 + 50 + 1800);
  EXPECT_EQ(ways[toy.model.shape().id({Work::forward, 0, 0})], 1000 + 50 + 1000 + 1100 + 50 + 1800);
}

TEST(UnitClock, ACircleOfRanksNeverEnds) {
  const testing::ModelledToy toy({.stages = 2, .micro_batches = 2});
  UnitSequences sequences = toy.model.sequences_of(
      {{{{Work::forward, 0, 0}}, {{Work::forward, 1, 0}}, {{Work::backward, 0, 0}}, {{Work::backward, 1, 0}}},
       {{{Work::forward, 0, 1}}, {{Work::backward, 0, 1}}, {{Work::forward, 1, 1}}, {{Work::backward, 1, 1}}}});
  UnitClock clock(toy.model);
  EXPECT_EQ(clock.times_of(sequences).makespan, 8000);
  // Stage 0 waits for a gradient before the forward pass of micro-batch 1, with which stage 1 begins.
  std::swap(sequences[0][1], sequences[0][2]);
  std::swap(sequences[1][0], sequences[1][3]);
  EXPECT_TRUE(std::isinf(clock.times_of(sequences).makespan));
}

}  // namespace
}  // namespace weft::policy
