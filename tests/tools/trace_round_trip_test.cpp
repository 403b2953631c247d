// Weft's own steps, exported with nothing but what PyTorch's profiler writes and read back: are the waits between
// streams found, does the step take as long, and does an explanation name the same causes?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "inspect/formats/pytorch_trace.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/trace_import.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/explain.h"
#include "runtime/simulate/open_problem.h"
#include "study/policy_step.h"
#include "tests/tools/small_step.h"
#include "train/step/planning.h"

namespace weft::tools {
namespace {

using Pairs = std::set<std::pair<std::size_t, std::size_t>>;  // indices into Recording::tasks
using Causes = std::map<std::size_t, simulate::ExposureCause>;

struct RoundTrip {
  std::size_t real = 0, found = 0, both = 0;  // waits between streams
  double error_percent = 0;                   // of the replay
  double recorded_ns = 0, step_ns = 0;        // step_ns: simulated under `recorded`
  double machine_step_ns = 0;                 // the same on a machine
  Causes causes;                              // of exposed collectives

  double precision() const { return found == 0 ? 1 : static_cast<double>(both) / static_cast<double>(found); }
  double recall() const { return real == 0 ? 1 : static_cast<double>(both) / static_cast<double>(real); }
};

inspect::ImportedTrace imported(const plan::Recording& recording, const inspect::PytorchTraceOptions& options) {
  std::string text;
  inspect::write_pytorch_trace(recording, 0, options, [&](std::string_view piece) { text += piece; });
  const inspect::TraceOutline outline = inspect::parse_kineto_outline(text_source(text), "rank_0.json");
  const std::optional<inspect::MarkedStep> step = inspect::choose_step(outline, {});
  inspect::TraceChannels channels(outline.world);
  std::vector<inspect::RecoveredStep> steps;
  steps.push_back(
      inspect::recover_step(inspect::parse_kineto_events(text_source(text), outline, step), step, channels));
  return inspect::join_ranks(std::move(steps), {{.file = "rank_0.json", .rank = 0}}, std::move(channels), outline.world,
                             "kineto");
}

/// By imported task: the recorded one. Both are in order on each stream; the exporter numbers streams from 7.
std::vector<std::optional<std::size_t>> originals(const plan::Recording& recording, const graph::OpenClass& step) {
  std::map<std::string, std::vector<std::size_t>> of_stream;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    of_stream[fmt::format("stream {}", 7 + recording.tasks[i].stream)].push_back(i);
  }
  std::map<std::string, std::size_t> next;
  std::vector<std::optional<std::size_t>> out;
  for (const graph::OpenTask& task : step.tasks) {
    const std::string& stream = step.streams[static_cast<std::size_t>(task.stream)].name;
    const bool host = task.kind == graph::OpenKind::host;
    out.push_back(host ? std::nullopt : std::optional(of_stream.at(stream).at(next[stream]++)));
  }
  return out;
}

double simulated_ns(const graph::OpenGraph& open, const std::optional<cost::Machine>& machine) {
  simulate::OpenChoices choices;
  choices.machine = machine;
  const simulate::Report report =
      simulate::report_plan(simulate::open_problem(open, choices), policy::named_policy("recorded"));
  EXPECT_TRUE(report.planned()) << report.refusal;
  return report.step_ns();
}

RoundTrip round_trip(const plan::Recording& recording, const inspect::PytorchTraceOptions& options,
                     const std::optional<cost::Machine>& machine = std::nullopt) {
  const inspect::ImportedTrace trace = imported(recording, options);
  const graph::OpenClass& step = trace.graph.classes.at(0);
  const std::vector<std::optional<std::size_t>> of = originals(recording, step);
  Pairs truth, found;
  for (const plan::RecordedWait& wait : plan::waits_between_streams(recording)) {
    if (wait.distance == 0) truth.emplace(wait.from, wait.to);
  }
  for (const graph::OpenEdge& edge : step.edges) {
    if (!of[edge.from] || !of[edge.to] || step.tasks[edge.from].stream == step.tasks[edge.to].stream) continue;
    found.emplace(*of[edge.from], *of[edge.to]);
  }
  RoundTrip out;
  out.real = truth.size();
  out.found = found.size();
  for (const auto& pair : found) out.both += truth.contains(pair) ? 1 : 0;
  out.error_percent = trace.ranks.at(0).error_percent();
  out.recorded_ns = step.recorded_ns;
  const simulate::Problem problem = simulate::open_problem(trace.graph, {});
  const simulate::Report report = simulate::report_plan(problem, policy::named_policy("recorded"));
  EXPECT_TRUE(report.planned()) << report.refusal;
  out.step_ns = report.step_ns();
  out.machine_step_ns = simulated_ns(trace.graph, machine);
  for (const simulate::ExposedCollective& each :
       simulate::explain(problem, report, {.only = {}, .most_remedied = 0, .rewrites = false}).collectives) {
    out.causes.emplace(of[each.task.index()].value(), each.cause);
  }
  return out;
}

/// A simulated step of Weft.
struct NativeStep {
  plan::Recording recording;
  cost::Machine machine;
  double step_ns = 0;
  Causes causes;
};

NativeStep native_step(const std::string& model, const std::string& grid, const std::string& machine,
                       const std::string& policy) {
  train::RunConfig config;
  std::vector<train::Setting> settings;
  const auto set = [&](const char* key, const std::string& value) { settings.push_back({key, value, "--set"}); };
  set("model", model), set("model.layers", "4"), set("grid", grid), set("machine", machine), set("policy", policy);
  train::apply_command_line(config, settings);
  const train::ResolvedRun run = train::resolve(std::move(config), 0);
  const simulate::Problem problem = train::planning_problem(run);
  const simulate::Report report = simulate::report_plan(problem, run.policy);
  EXPECT_TRUE(report.planned()) << report.refusal;
  NativeStep out{study::recording_of(report, run.config.grid), problem.machine, report.step_ns(), {}};
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < out.recording.tasks.size(); ++i) by_name[out.recording.tasks[i].name] = i;
  for (const simulate::ExposedCollective& each :
       simulate::explain(problem, report, {.only = {}, .most_remedied = 0, .rewrites = false}).collectives) {
    out.causes.emplace(by_name.at(report.first().graph().task(each.task).name), each.cause);
  }
  return out;
}

/// What a trace can tell: a wait that a policy chose looks like one for data, and recorded times hold contention.
bool can_be_told(simulate::ExposureCause cause) {
  using enum simulate::ExposureCause;
  return cause == data_dependency || cause == queued;
}

struct Configuration {
  const char *model, *grid, *machine, *policy;
};

class TraceRoundTrip : public ::testing::TestWithParam<Configuration> {};

TEST_P(TraceRoundTrip, FindsWaitsLengthAndCauses) {
  const Configuration& of = GetParam();
  const NativeStep native = native_step(of.model, of.grid, of.machine, of.policy);
  for (const bool records : {true, false}) {
    const RoundTrip trip = round_trip(native.recording, {.sync_records = records}, native.machine);
    ASSERT_GT(trip.real, 0U);
    EXPECT_GE(trip.precision(), records ? 0.99 : 0.95) << records << " of " << trip.found;
    EXPECT_GE(trip.recall(), records ? 0.99 : 0.95) << records << " of " << trip.real;
    EXPECT_LE(std::abs(trip.error_percent), 1) << records;
    EXPECT_NEAR(trip.step_ns, native.step_ns, 0.02 * native.step_ns) << records;
    EXPECT_NEAR(trip.machine_step_ns, native.step_ns, 0.02 * native.step_ns) << records;
    for (const auto& [task, cause] : native.causes) {
      if (!can_be_told(cause)) continue;
      const auto found = trip.causes.find(task);
      ASSERT_NE(found, trip.causes.end()) << records << " " << native.recording.tasks[task].name;
      EXPECT_EQ(to_string(found->second), to_string(cause)) << records << " " << native.recording.tasks[task].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, TraceRoundTrip,
                         ::testing::Values(Configuration{"tiny", "data=2", "laptop", "serial"},
                                           Configuration{"tiny", "data=2", "laptop", "critical-path"},
                                           Configuration{"gpt2-124m", "y=2,data=2", "dgx-h100", "axonn"},
                                           Configuration{"gpt2-124m", "y=2,data=2", "dgx-h100", "program"},
                                           Configuration{"gpt2-124m", "z=4", "dgx-h100", "lhs"},
                                           Configuration{"gpt2-124m", "z=4", "dgx-h100", "program"},
                                           Configuration{"gpt2-124m", "x=2,y=2,z=2,data=2", "dgx-h100", "program"},
                                           Configuration{"gpt2-124m", "x=2,y=2,z=2,data=2", "dgx-h100", "axonn"}));

class ExecutedRoundTrip : public testing::SmallStep {};

TEST_F(ExecutedRoundTrip, FindsWaitsAndLengthOfARunThatTookPlace) {
  testing::succeeded(weft("train", {"--grid", "data=2", "--steps", "4", "--trace-steps", "3", "--run-dir", "run"}));
  const plan::Recording recording = inspect::read_recording(folder_.path("run/trace.json"));
  for (const bool records : {true, false}) {
    const RoundTrip trip = round_trip(recording, {.sync_records = records});
    ASSERT_GT(trip.real, 0U);
    EXPECT_GT(trip.both, 0U) << records;
    if (records) {  // without records, how many are found depends on the run's times
      EXPECT_GE(trip.precision(), 0.99) << trip.found;
      EXPECT_GE(trip.recall(), 0.99) << trip.real;
    }
    EXPECT_LE(std::abs(trip.error_percent), 2) << records;
    EXPECT_NEAR(trip.step_ns, trip.recorded_ns, 0.02 * trip.recorded_ns) << records;
  }
}

}  // namespace
}  // namespace weft::tools
