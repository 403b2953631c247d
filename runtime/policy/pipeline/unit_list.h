// A list schedule of all ranks of a pipeline together, by units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/policy/pipeline/unit_model.h"

namespace weft::policy {

/// How an idle rank chooses among the units that can begin.
enum class UnitRule : std::uint8_t {
  longest_way,      // the longest way to the end of the step, through messages
  input_then_deep,  // gradients of inputs, then the forward pass nearest to the last stage, then gradients of weights
  input_then_shallow,  // the same with the forward pass nearest to the first stage
};

std::string_view to_string(UnitRule rule);

struct UnitListOptions {
  UnitRule rule = UnitRule::longest_way;
  /// Forward passes of a chunk whose gradients of weights are to come. Those of a rank's first unfinished micro-batch
  /// may always begin.
  std::int32_t most_in_flight = INT32_MAX;
};

/// Whenever a rank is idle, it starts the best unit that can begin; each chunk takes its micro-batches in rising order.
/// A unit is held back while its bytes would leave too few for the rest of the rank's first unfinished micro-batch. So
/// that one can always go on. Where nothing fits at all, the first unit in program order starts.
UnitSequences list_units(const UnitModel& model, const UnitListOptions& options);

/// A list schedule, or one that was found otherwise, with its name and its times.
struct NamedSequences {
  std::string name;
  UnitSequences sequences;
  UnitTimes times;

  /// Whether it fits a limit that the other doesn't fit, or is shorter, or as short and takes less.
  bool better_than(const NamedSequences& other) const {
    if (times.fits != other.times.fits) return times.fits;
    return std::pair(times.makespan, times.bytes) < std::pair(other.times.makespan, other.times.bytes);
  }
};

/// List schedules by all rules, with several numbers of forward passes in flight.
std::vector<NamedSequences> all_unit_lists(const UnitModel& model);

/// The best, the first of equals.
const NamedSequences& best_of(const std::vector<NamedSequences>& all);

/// The schedules of sequences that were chosen among `orders`. `reasons`: of schedule_reasons().
PipelineSchedules chosen_schedules(const UnitModel& model, const NamedSequences& chosen,
                                   const plan::ReasonTable& reasons, std::size_t orders);

}  // namespace weft::policy
