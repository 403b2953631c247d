// Plans of Weft written as PyTorch's profiler would have recorded them, and read back: how many of the waits between
// streams are found, and how many of the found ones are real?
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "inspect/import/kineto_file.h"
#include "inspect/import/recovered_step.h"
#include "inspect/import/step_replay.h"
#include "runtime/simulate/simulator.h"
#include "tests/inspect/import/kineto_text.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/simulated_plan.h"

namespace weft::inspect {
namespace {

using testing::KinetoText;

/// Names of the two tasks.
using Waits = std::set<std::pair<std::string, std::string>>;

struct Found {
  std::size_t real = 0, found = 0, both = 0;
  double precision() const { return found == 0 ? 1 : static_cast<double>(both) / static_cast<double>(found); }
  double recall() const { return real == 0 ? 1 : static_cast<double>(both) / static_cast<double>(real); }
  void add(const Waits& truth, const Waits& recovered) {
    real += truth.size();
    found += recovered.size();
    for (const auto& wait : recovered) both += truth.contains(wait) ? 1 : 0;
  }
};

RecoveredStep recovered_from(const std::string& text) {
  const TraceOutline outline = parse_kineto_outline(text_source(text), "t.json");
  TraceChannels channels(2);
  return recover_step(parse_kineto_events(text_source(text), outline, std::nullopt), std::nullopt, channels);
}

/// Edges between device tasks of two streams.
Waits waits_of(const RecoveredStep& step) {
  Waits out;
  for (const graph::OpenEdge& edge : step.graph.edges) {
    const graph::OpenTask &from = step.graph.tasks[edge.from], &to = step.graph.tasks[edge.to];
    const bool device = from.kind != graph::OpenKind::host && to.kind != graph::OpenKind::host;
    if (device && from.stream != to.stream) out.emplace(from.operation, to.operation);
  }
  return out;
}

std::string kernel_of(const plan::Plan& plan, graph::TaskId task) {
  const bool collective = graph::channel_of(plan.graph->task(task).operation) != nullptr;
  return fmt::format("{}{}", collective ? "ncclDevKernel_" : "kernel_", task.index());
}

/// A simulated step, issued by one thread in the plan's order: an event is recorded behind each task, and waited for
/// where the plan waits.
std::string as_kineto(const plan::Plan& plan, const plan::StepTrace& step, Waits& waits) {
  KinetoText text;
  const std::int64_t shift = 10'000'000 - step.begin;  // the host is done with its calls before the step begins
  std::int64_t time = 0, correlation = 0;
  std::vector<std::int64_t> recorded(plan.graph->tasks().size());
  for (const graph::TaskId task : plan.sequence) {
    const plan::Position at = plan.position[task.index()];
    const auto& entry = plan.streams[at.stream.index()].entries[at.entry];
    const auto stream = static_cast<std::int64_t>(at.stream.index());
    for (const plan::Wait& wait : entry.waits) {
      if (wait.distance > 0) continue;
      const graph::TaskId source = plan.streams[wait.stream.index()].entries[wait.entry].task;
      waits.emplace(kernel_of(plan, source), kernel_of(plan, task));
      text.call("cudaStreamWaitEvent", 77, time += 100, 50, ++correlation);
      text.slice("cuda_sync", "Stream Wait Event", 0, stream, time, 0,
                 fmt::format(R"("stream": {}, "device": 0, "correlation": {}, "wait_on_stream": {},
                             "wait_on_cuda_event_record_corr_id": {})",
                             stream, correlation, wait.stream.index(), recorded[source.index()]));
    }
    const plan::TaskTime& when = step.times[at.stream.index()][at.entry];
    text.call("cudaLaunchKernel", 77, time += 100, 50, ++correlation);
    text.kernel(kernel_of(plan, task), stream, when.begin + shift, when.end - when.begin, correlation);
    text.call("cudaEventRecord", 77, time += 100, 50, ++correlation);
    recorded[task.index()] = correlation;
  }
  return text.text();
}

TEST(ImportedRoundTrip, FindsTheWaitsOfRandomPlansByTheirRecords) {
  Found found;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const auto graph = testing::random_graph(seed);
    const plan::Plan plan = plan::make_plan(graph, testing::RandomPolicy(seed, 5).order(*graph, {}), "random");
    cost::TaskCosts costs;
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      costs.ns.push_back(static_cast<double>(1 + i * 37 % 11) * 3000);
      costs.cpu_ns.push_back(0);
    }
    simulate::SimulationOptions options;
    options.grid = {.x = 2, .z = 2, .data = 2};
    options.noise = 0.3;
    const simulate::Simulation simulation = testing::simulate_plan(plan, costs, cost::Machine(), options);
    Waits truth;
    const RecoveredStep step = recovered_from(as_kineto(plan, simulation.ranks[0].steps[0], truth));
    found.add(truth, waits_of(step));
  }
  EXPECT_GT(found.real, 100U);
  EXPECT_GE(found.precision(), 0.99) << found.found;
  EXPECT_GE(found.recall(), 0.99) << found.real;
}

}  // namespace
}  // namespace weft::inspect
