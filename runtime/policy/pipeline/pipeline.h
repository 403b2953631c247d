// The words in which pipeline schedules are written: units of work, and the sequence of them that a rank runs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "runtime/plan/reason.h"

namespace weft::policy {

/// The work of one virtual stage on one micro-batch. `input` is the part of the backward pass that the previous stage
/// waits for, `weight` the rest, and `backward` both in program order.
enum class Work : std::uint8_t { forward, input, weight, backward };

/// All work in its parts.
inline constexpr std::array kParts = {Work::forward, Work::input, Work::weight};

struct Unit {
  Work work = Work::forward;
  std::int32_t micro_batch = 0, stage = 0;  // the virtual stage
  friend bool operator==(const Unit&, const Unit&) = default;
};

/// A unit of a part, as a number: in each part by micro-batch, then by virtual stage.
using UnitId = std::uint32_t;

/// One entry of a schedule: a unit, or two whose tasks alternate, so that one computes while the other communicates.
struct ScheduledUnit {
  Unit unit;
  std::optional<Unit> beside = {};
  plan::Reason reason = {};  // of its place: "1f1b: warm-up, forward 2 of 3"
};

/// Each unit of a rank once.
using RankSchedule = std::vector<ScheduledUnit>;

/// A part of a schedule.
enum class Part : std::uint8_t { warm_up = 4, steady, main_part, cool_down, at_the_end, all_forward, all_backward };

/// The reasons of a schedule's entries. Numbers: words (the part, the work), chunks from 1, the place among the entries
/// with the same words and chunks, and their number.
enum ScheduleReason : std::uint16_t { kUnit, kUnitOfChunk, kUnitsBeside, kUnitOfStage };
inline constexpr plan::ReasonText kScheduleTexts[] = {
    {"{policy}: {word}, {word} {} of {}"},
    {"{policy}: {word}, chunk {} {word} {} of {}"},
    {"{policy}: {word}, chunk {} forward beside chunk {} backward {} of {}"},
    {"{policy}: {word} of stage {}, unit {} of {}"},
};
/// Of kinds of work, then of parts, by their numbers.
inline constexpr std::array kScheduleWords = std::to_array<std::string_view>(
    {"forward", "backward for the input", "backward for weights", "backward", "warm-up", "steady", "main part",
     "cool-down", "at the end", "all forward first", "all backward last"});

/// The table of a policy that schedules pipelines.
constexpr plan::ReasonTable schedule_reasons(std::string_view policy) {
  return {policy, kScheduleTexts, kScheduleWords};
}

struct PipelineShape {
  std::int32_t ranks = 1;
  graph::PipelineChunks chunks;
  std::int32_t micro_batches = 1;

  std::int32_t stages() const { return static_cast<std::int32_t>(chunks.stages(ranks)); }
  std::int32_t stage_on(std::int32_t rank, std::int32_t chunk) const {
    return static_cast<std::int32_t>(chunks.stage_on(rank, chunk, ranks));
  }
  std::int32_t rank_of(std::int32_t stage) const {
    return static_cast<std::int32_t>(chunks.rank_of_stage(stage, ranks));
  }
  /// The number of units of all parts.
  std::size_t units() const { return id({Work::backward, 0, 0}); }
  UnitId id(const Unit& unit) const {
    return static_cast<UnitId>((static_cast<std::int32_t>(unit.work) * micro_batches + unit.micro_batch) * stages() +
                               unit.stage);
  }
  Unit unit(UnitId id) const {
    const auto in_pass = static_cast<UnitId>(stages()), all = static_cast<UnitId>(micro_batches);
    return {static_cast<Work>(id / in_pass / all), static_cast<std::int32_t>(id / in_pass % all),
            static_cast<std::int32_t>(id % in_pass)};
  }
};

/// Whether any task belongs to a virtual stage.
bool has_stages(graph::Classes classes);

/// The shape of a program. Throws UserError in the name of `policy` unless each rank holds the virtual stages that
/// `chunks` gives it.
PipelineShape shape_of(graph::Classes classes, const graph::PipelineChunks& chunks, std::string_view policy);

}  // namespace weft::policy
