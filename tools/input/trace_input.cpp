#include "tools/input/trace_input.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/formats/trace_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/open_problem.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::tools {

bool names_a_trace(const std::string& name) {
  std::error_code error;
  if (inspect::is_graph_file(name)) return false;
  return name.ends_with(".json") || name.ends_with(".json.gz") || std::filesystem::is_directory(name, error);
}

TraceInput read_trace(const std::string& name) {
  TraceInput input{.title = {}, .recording = inspect::read_recording(inspect::find_trace(name))};
  const std::vector<plan::RecordedRank>& ranks = input.recording.ranks;
  if (ranks.empty() || ranks.front().steps.empty()) {
    throw UserError(name + " holds no step", "a trace of at least one", "--trace-steps 1 or more when it is made");
  }
  input.title = fmt::format("{}: step {}, policy {}", name, ranks.front().steps.back().step, input.recording.policy);
  return input;
}

plan::Recording recording_of(const simulate::Report& report, const std::optional<graph::Grid>& grid) {
  std::vector<plan::RankTrace> ranks;
  for (const simulate::SimulatedRank& rank : report.simulation.ranks) ranks.push_back({rank.rank, rank.steps});
  return plan::record(*report.first().plan, ranks, grid ? static_cast<int>(grid->ranks()) : 1, grid);
}

TraceInput simulate_step(simulate::Problem problem, const policy::NamedPolicy& policy, int ranks,
                         const std::optional<graph::Grid>& grid) {
  problem.simulation.traced_ranks = ranks;
  const simulate::Report report = simulate::report_plan(problem, policy);
  if (!report.planned()) throw UserError(report.refusal, "", "");
  const std::string where = problem.machine.name == simulate::kNoMachine ? "" : " on " + problem.machine.name;
  return {fmt::format("policy {}: step {}{}, simulated", report.policy.name, format_time(report.step_ns()), where),
          recording_of(report, grid), report.bounds.best()};
}

TraceInput simulate_step(const train::ResolvedRun& run, const policy::NamedPolicy& policy, int ranks) {
  TraceInput input = simulate_step(train::planning_problem(run), policy, ranks, run.config.grid);
  input.summation_note = train::summation_note(run.config);
  return input;
}

}  // namespace weft::tools
