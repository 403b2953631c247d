#include "runtime/policy/pipeline/unit_list.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/policy/pipeline/modelled_toy.h"

namespace weft::policy {
namespace {

TEST(UnitList, HasEveryUnitOnceAndKeepsCaps) {
  const testing::ModelledToy toy(
      {.stages = 3, .micro_batches = 6, .chunks = {2, graph::ChunkPlacement::v}, .message = 100});
  for (const NamedSequences& list : all_unit_lists(toy.model)) {
    std::set<UnitId> units;
    std::size_t count = 0;
    for (const auto& sequence : list.sequences) {
      units.insert(sequence.begin(), sequence.end());
      count += sequence.size();
    }
    EXPECT_EQ(count, units.size()) << list.name;
    EXPECT_EQ(count, 6 * (6 * 3 - 1)) << list.name;  // virtual stage 0 has no part for weights
    EXPECT_TRUE(list.times.fits) << list.name;
  }
  // Of one chunk, and apart from stage 0.
  const testing::ModelledToy plain({.stages = 4, .micro_batches = 9});
  const UnitSequences sequences = list_units(plain.model, {UnitRule::longest_way, 3});
  for (std::size_t rank = 1; rank < 4; ++rank) {
    std::int32_t in_flight = 0, most = 0;
    for (const UnitId unit : sequences[rank]) {
      in_flight += plain.model.shape().unit(unit).work == Work::forward ? 1 : 0;
      most = std::max(most, in_flight);
      in_flight -= plain.model.shape().unit(unit).work == Work::weight ? 1 : 0;
    }
    EXPECT_EQ(most, 3);
  }
}

TEST(UnitList, HoldsUnitsBackForMemory) {
  const testing::PipelineShape shape{.stages = 3, .micro_batches = 8, .message = 700, .saved = 4096};
  const testing::ModelledToy free(shape);
  UnitClock clock(free.model);
  const UnitTimes times = clock.times_of(list_units(free.model, {UnitRule::longest_way}));
  const testing::ModelledToy limited(shape, {.memory_limit = times.bytes * 2 / 3});
  UnitClock limited_clock(limited.model);
  const UnitTimes kept = limited_clock.times_of(list_units(limited.model, {UnitRule::longest_way}));
  EXPECT_TRUE(kept.fits);
  EXPECT_LE(kept.bytes, times.bytes * 2 / 3);
  // Where nothing fits, all units still run.
  const testing::ModelledToy tight(shape, {.memory_limit = 1});
  UnitClock tight_clock(tight.model);
  EXPECT_FALSE(tight_clock.times_of(list_units(tight.model, {UnitRule::longest_way})).fits);
}

TEST(UnitList, TheBestFitsThenIsShortThenSmall) {
  const auto with = [](double makespan, bool fits, std::int64_t bytes) {
    return NamedSequences{"", {}, {makespan, fits, bytes}};
  };
  EXPECT_TRUE(with(2, true, 9).better_than(with(1, false, 1)));
  EXPECT_TRUE(with(1, true, 9).better_than(with(2, true, 1)));
  EXPECT_TRUE(with(1, true, 1).better_than(with(1, true, 9)));
  EXPECT_FALSE(with(1, true, 1).better_than(with(1, true, 1)));
}

}  // namespace
}  // namespace weft::policy
