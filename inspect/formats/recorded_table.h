// The part "weft" of a trace: streams, tasks and edges of the plan, and the steps that were recorded.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "inspect/formats/json_pull.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

inline constexpr std::int64_t kMostRecordedRanks = 1 << 20;
inline constexpr std::int64_t kLatestRecorded = std::int64_t{1} << 62;  // nanoseconds, steps

/// The tables that the events of a trace refer to.
struct RecordedTable {
  std::int64_t origin = 0;  // what their times count from
  std::unordered_map<std::string_view, std::uint32_t> task_by_name;
};

/// Reads all of a recording but the times of tasks; the table's names are the recording's. Refuses tasks that are named
/// twice and edges against their order.
RecordedTable read_recorded_table(JsonPull& in, plan::Recording& out);

}  // namespace weft::inspect
