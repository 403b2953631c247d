// Sums, tables and stalls of a step that is small enough to be added up by hand; and Holistic Trace Analysis'
// definition of overlap, computed again from an exported file.
#include "inspect/report/trace_summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "inspect/formats/chrome_trace.h"
#include "runtime/simulate/simulator.h"
#include "tests/base/messages.h"
#include "tests/runtime/links.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing_sample::sample_plan;
using testing_sample::sample_step;

///   compute0   a [0,40)         c [60,80)
///   compute1        b [30,50)
///   data            r [40,70)          s [75,100)
plan::Recording two_steps() {
  const std::vector<plan::RankTrace> ranks = {{1, {sample_step(6, 0, 1000), sample_step(7, 100'000, 1000)}}};
  return plan::record(sample_plan(), ranks, 2);
}

TEST(TraceSummary, AddsUpAStep) {
  const plan::Recording recording = two_steps();
  const TraceSummary summary = summarize_trace(recording, false, 10);
  ASSERT_EQ(summary.size(), 1U);
  const StepSummary& step = summary[0];
  EXPECT_EQ(step.rank, 1);
  EXPECT_EQ(step.number, 7);
  EXPECT_EQ(step.overlap.exposed, 30'000);
  EXPECT_EQ(step.idle, 0);
  ASSERT_EQ(step.kinds.size(), 4U);
  EXPECT_EQ(step.kinds[0].name, "all_reduce");
  EXPECT_EQ(step.kinds[0].tasks, 2);
  EXPECT_EQ(step.kinds[0].busy, 55'000);
  EXPECT_EQ(step.kinds[0].exposed, 30'000);
  EXPECT_EQ(step.kinds[1].name, "gemm");
  EXPECT_EQ(step.kinds[1].busy, 40'000);
  EXPECT_EQ(step.kinds[1].flops, 8);
  ASSERT_EQ(step.channels.size(), 1U);
  EXPECT_EQ(step.channels[0].name, "data");
  EXPECT_EQ(step.channels[0].network_bytes, 32);
  EXPECT_DOUBLE_EQ(step.stream_busy.at(0), 0.6);
  EXPECT_EQ(summarize_trace(recording, true, 10).size(), 2U);
}

TEST(TraceSummary, StallsNameTheDependencyThatEndedLast) {
  const plan::Recording recording = two_steps();
  const StepSummary step = summarize_trace(recording, false, 10).at(0);
  ASSERT_EQ(step.stalls.size(), 2U);
  EXPECT_EQ(recording.tasks[step.stalls[0].task].name, "b");
  EXPECT_EQ(step.stalls[0].length(), 30'000);
  EXPECT_FALSE(step.stalls[0].last);
  EXPECT_EQ(recording.tasks[step.stalls[1].task].name, "c");
  EXPECT_EQ(step.stalls[1].begin, 140'000);
  EXPECT_EQ(recording.tasks[step.stalls[1].last.value()].name, "r");
  EXPECT_EQ(summarize_trace(recording, false, 1).at(0).stalls.size(), 1U);
}

TEST(TraceSummary, TextAndJsonSayTheSame) {
  const plan::Recording recording = two_steps();
  const TraceSummary summary = summarize_trace(recording, false, 10);
  const std::string text = styled_summary(recording, summary, {}).plain();
  EXPECT_TRUE(has_parts(
      text, {"rank 1, step 7: 0.100 ms", "of which exposed 0.030 ms; 45.5 % overlapped; idle 0.000 ms",
             "compute0 60.0 %", "all_reduce", "compute0: c waited for r on data", "compute1: b has no dependencies"}));
  const auto json = nlohmann::json::parse(summary_json(recording, summary).text());
  EXPECT_EQ(json["steps"][0]["exposed_ns"], 30'000);
  EXPECT_EQ(json["steps"][0]["stalls"][1]["last_dependency"], "r");
  EXPECT_TRUE(json["steps"][0]["stalls"][0]["last_dependency"].is_null());
}

/// Overlapped share of communication as HTA computes it: of the events with args.stream, the ones that NCCL names are
/// communication and the rest computation; merged intervals, intersected.
double hta_overlap(const std::string& file) {
  Intervals communication, compute;
  const std::regex communicates("^nccl|^hip|^hccl|ncclKernel"), ignored("Sync|^Memcpy|^Memset|^dma");
  const auto nanoseconds = [](const nlohmann::json& value) { return std::llround(value.get<double>() * 1e3); };
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const auto& event : document.at("traceEvents")) {
    if (!event.contains("dur") || !event.contains("cat") || !event.at("args").contains("stream")) continue;
    const std::string name = event.at("name");
    const std::int64_t begin = nanoseconds(event.at("ts")), end = begin + nanoseconds(event.at("dur"));
    if (std::regex_search(name, communicates)) {
      communication.push_back({begin, end});
    } else if (!std::regex_search(name, ignored)) {
      compute.push_back({begin, end});
    }
  }
  communication = merged(std::move(communication)), compute = merged(std::move(compute));
  return static_cast<double>(total_length(intersection(communication, compute))) /
         static_cast<double>(total_length(communication));
}

TEST(TraceSummary, OverlapIsThatOfHolisticTraceAnalysis) {
  EXPECT_DOUBLE_EQ(hta_overlap(chrome_trace_json(two_steps(), {.kineto_names = true})), 25.0 / 55.0);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed);
    const plan::Plan plan = plan::make_plan(graph, testing::RandomPolicy(seed).order(*graph, {}), "random");
    cost::TaskCosts costs;
    for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
      costs.ns.push_back(static_cast<double>(1000 + i * 7919 % 50'000));
      costs.cpu_ns.push_back(0);
    }
    simulate::SimulationOptions options;
    options.grid = {.x = 2, .z = 2, .data = 2};
    options.steps = 2;
    const simulate::Simulation simulation = testing::simulate_plan(plan, costs, cost::Machine(), options);
    const std::vector<plan::RankTrace> ranks = {{0, simulation.ranks.at(0).steps}};
    const plan::Recording recording = plan::record(plan, ranks, 8, options.grid);
    std::int64_t overlapped = 0, communication = 0;
    for (const StepSummary& step : summarize_trace(recording, true, 0)) {
      overlapped += step.overlap.overlapped;
      communication += step.overlap.communication;
    }
    ASSERT_GT(communication, 0);
    const double own = static_cast<double>(overlapped) / static_cast<double>(communication);
    EXPECT_NEAR(hta_overlap(chrome_trace_json(recording, {.kineto_names = true})), own, 0.005) << "seed " << seed;
  }
}

}  // namespace
}  // namespace weft::inspect
