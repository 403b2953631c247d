// What a recorded step is bound by, and what would shorten it: each told by playing the step again with other times.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text/json_object.h"
#include "graph/open_graph.h"
#include "inspect/import/step_replay.h"

namespace weft::inspect {

/// A host is the reason for a step's length only if the step gets shorter by this share without the host's work.
inline constexpr double kHostBound = 0.05;
/// A replay that is further from the recorded length than this share says why.
inline constexpr double kFarOff = 0.05;

struct StepRemedy {
  std::string what;  // "gemm twice as fast"
  std::string flag;  // of `weft simulate`, that shows the same: "--scale 'gemm=0.5'"
  double gain_ns = 0;
};

struct StepVerdict {
  double recorded_ns = 0, replayed_ns = 0;  // of all ranks; 0: never recorded
  double without_host_ns = 0;               // with launches and other work of the host at 0
  ReplayedPath path = {};                   // of the class that ends last
  std::string_view bound_by = {};           // "computing", "communication", "host", "copying", "ranks"
  std::string text = {};                    // a sentence
  std::vector<std::string> waits = {};      // "rank 0 waits 38.000 ms for rank 1", the longest first
  std::vector<StepRemedy> remedies = {};    // at most three, each of which gains, by falling gain
  std::string off = {};                     // why the replay is far from the recorded length; "": it isn't

  double host_share() const { return replayed_ns > 0 ? 1 - without_host_ns / replayed_ns : 0; }
};

/// `lengths`: as StepReplay takes them.
StepVerdict judge_step(const graph::OpenGraph& graph, const std::vector<double>& lengths);

/// The verdict, a line for each remedy, and why the replay is far off.
std::vector<std::string> lines_of(const StepVerdict& verdict);
JsonObject verdict_json(const StepVerdict& verdict);

/// The end of the last class, on the clock that all classes share; 0: nothing was recorded.
double recorded_end(const graph::OpenGraph& graph);

/// Why a replay differs from the record by more than kFarOff: the task before which most time is unexplained, or which
/// began before what it waits for had ended; "" if the two agree.
std::string reason_far_off(const graph::OpenGraph& graph, double replayed_ns);

}  // namespace weft::inspect
