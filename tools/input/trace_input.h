// From the name that a user gives to steps to look at: a trace file, the folder of a run, or a configuration to
// simulate.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "graph/grid.h"
#include "runtime/plan/recording.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "train/config/resolved_run.h"

namespace weft::tools {

struct TraceInput {
  std::string title;
  plan::Recording recording;
  double bound_ns = 0;              // of a simulated step; 0: not known
  std::string summation_note = {};  // of a simulated step: see train::summation_note()
};

/// Is it a trace file (FILE.json, FILE.json.gz) or a folder, rather than a configuration or a policy?
bool names_a_trace(const std::string& name);

/// Of a file that weft wrote, or a run folder's trace.json. Throws UserError.
TraceInput read_trace(const std::string& name);

/// Every simulated rank that was traced.
plan::Recording recording_of(const simulate::Report& report, const std::optional<graph::Grid>& grid);

/// A step of a problem under a policy, with the traces of the first `ranks` ranks where ranks differ. `grid`: of the
/// ranks, if they have one. Throws UserError on what can't be planned.
TraceInput simulate_step(simulate::Problem problem, const policy::NamedPolicy& policy, int ranks,
                         const std::optional<graph::Grid>& grid);

/// The same of a run, on its machine.
TraceInput simulate_step(const train::ResolvedRun& run, const policy::NamedPolicy& policy, int ranks);

}  // namespace weft::tools
