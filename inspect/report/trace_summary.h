// A summary of a recorded step: where its time went by kind and channel, where a compute stream stalled and for
// whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/text/json_object.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Tasks of one kind, or of one channel, in a step of one rank; nanoseconds.
struct KindTimes {
  std::string name;
  std::int64_t tasks = 0, busy = 0;
  std::int64_t exposed = 0;  // of communication: while no computation ran
  double flops = 0, network_bytes = 0;
};

/// A gap on a compute stream, from the end of one task, or of the step's begin, to the begin of the next.
struct Stall {
  std::uint32_t stream = 0;
  std::int64_t begin = 0, end = 0;
  std::uint32_t task = 0;                  // that began after it
  std::optional<std::uint32_t> last = {};  // the dependency of `task` that ended last; none if it has none
  std::int64_t last_end = 0;               // when it did: well before `end` if the stream itself was late
  std::int64_t length() const { return end - begin; }
};

struct StepSummary {
  int rank = 0;
  plan::OverlapSummary overlap;
  std::int64_t number = 0;                 // of the step
  std::int64_t idle = 0;                   // neither computing nor communicating
  std::vector<KindTimes> kinds, channels;  // by falling time; by name
  std::vector<double> stream_busy;         // by stream, as a share of the step
  std::vector<Stall> stalls;               // longest first
};

/// With at most `stalls` of the longest stalls.
StepSummary summarize_step(const plan::Recording& recording, const plan::RecordedRank& rank,
                           const plan::RecordedStep& step, std::size_t stalls);

/// Of every rank the last step, or all; by rank, then by step.
using TraceSummary = std::vector<StepSummary>;
TraceSummary summarize_trace(const plan::Recording& recording, bool all_steps, std::size_t stalls);

/// For a terminal of `width` columns.
StyledText styled_summary(const plan::Recording& recording, const TraceSummary& summary,
                          std::optional<std::size_t> width);
JsonObject summary_json(const plan::Recording& recording, const TraceSummary& summary);

}  // namespace weft::inspect
