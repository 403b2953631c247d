// Recordings without a device: outermost operators as tasks, collectives of gloo on their own threads, and the host's
// time between operators.
#include "inspect/import/cpu_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "inspect/import/readers/kineto_file.h"
#include "inspect/import/recovered_step.h"
#include "inspect/import/step_replay.h"
#include "tests/base/messages.h"
#include "tests/inspect/import/kineto_text.h"

namespace weft::inspect {
namespace {

using graph::EdgeSource;
using testing::KinetoText;

struct CpuStep {
  DeviceTrace trace;
  graph::OpenGraph graph;

  const graph::OpenClass& step() const { return graph.classes[0]; }
  std::uint32_t find(const std::string& name) const {
    const auto found = std::ranges::find(step().tasks, name, &graph::OpenTask::name);
    EXPECT_NE(found, step().tasks.end()) << name;
    return static_cast<std::uint32_t>(found - step().tasks.begin());
  }
  const graph::OpenEdge* edge(const std::string& from, const std::string& to) const {
    const std::uint32_t a = find(from), b = find(to);
    const auto found = std::ranges::find_if(step().edges, [&](const auto& e) { return e.from == a && e.to == b; });
    return found == step().edges.end() ? nullptr : &*found;
  }
  double replayed() const { return replay_steps(graph).at(0).length(); }
};

CpuStep cpu_step(const KinetoText& text) {
  const std::string content = text.text();
  const TraceOutline outline = parse_kineto_outline(text_source(content), "t.json");
  EXPECT_FALSE(outline.has_device);
  const std::optional<MarkedStep> step = choose_step(outline, {});
  CpuStep out{parse_kineto_events(text_source(content), outline, step), {}};
  TraceChannels channels(2);
  out.graph.classes = {recover_step(out.trace, step, channels).graph};
  out.graph.channels = std::move(channels).channels();
  out.graph.world = 2;
  graph::check(out.graph);
  return out;
}

KinetoText& operation(KinetoText& text, std::string_view name, std::int64_t begin, std::int64_t length,
                      std::int64_t thread = 77, std::string_view args = "") {
  return text.slice("cpu_op", name, 1000, thread, begin, length, args);
}

/// A step of DDP: two nodes of the backward pass ask for collectives on two threads, and the main thread waits for the
/// second one before it updates.
KinetoText backward_step() {
  KinetoText text;
  text.info = R"("backend": "gloo", "rank": 0, "world_size": 2,
                 "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}])";
  text.step(1, 77, 0, 3'000'000);
  operation(text, "aten::linear", 100'000, 400'000);
  operation(text, "aten::addmm", 120'000, 300'000);
  operation(text, "autograd::engine::evaluate_function: AddmmBackward0", 600'000, 400'000);
  operation(text, "AddmmBackward0", 610'000, 300'000);
  operation(text, "c10d::allreduce_", 920'000, 40'000, 77,
            R"("Input Dims": [[[100, 10]], [], [], []], "Input type": ["TensorList", "", "", "Scalar"])");
  text.slice("user_annotation", "gloo:all_reduce", 1000, 91, 980'000, 500'000,
             R"("Input Dims": [[1000]], "Input type": ["c10::BFloat16"])");
  operation(text, "autograd::engine::evaluate_function: AddmmBackward0", 1'050'000, 300'000);
  operation(text, "AddmmBackward0", 1'060'000, 200'000);
  operation(text, "c10d::allreduce_", 1'270'000, 40'000, 77, R"("Input Dims": [[[50]], []])");
  text.slice("user_annotation", "gloo:all_reduce", 1000, 92, 1'330'000, 900'000, R"("Input Dims": [[50]])");
  operation(text, "aten::view", 1'335'000, 5'000, 92);
  operation(text, "aten::copy_", 2'050'000, 100'000, 92);
  operation(text, "aten::copy_", 2'155'000, 60'000, 92);
  operation(text, "aten::add_", 2'300'000, 600'000);
  return text;
}

TEST(CpuWork, IsTheOutermostOperatorsOfEachThread) {
  const CpuStep step = cpu_step(backward_step());
  EXPECT_EQ(std::ranges::count(step.step().tasks, graph::OpenKind::compute, &graph::OpenTask::kind), 6);
  EXPECT_EQ(step.step().tasks[step.find("aten::linear#0")].ns, 400'000);
  EXPECT_EQ(step.step().tasks[step.find("AddmmBackward0#1")].ns, 200'000) << "within a node of the backward pass";
  EXPECT_EQ(step.step().streams.at(0).name, "operators of thread 77");
  EXPECT_EQ(step.step().recorded_ns, 3'000'000);
  EXPECT_EQ(step.replayed(), 3'000'000);
}

TEST(CpuWork, HasCollectivesOfGloo) {
  const CpuStep step = cpu_step(backward_step());
  const graph::OpenTask& first = step.step().tasks[step.find("all_reduce#0")];
  EXPECT_EQ(first.kind, graph::OpenKind::collective);
  EXPECT_EQ(first.network_bytes, 2000) << "a ring of two sends as much as there is";
  EXPECT_EQ(first.sequence, 0);
  EXPECT_EQ(step.graph.channels.at(static_cast<std::size_t>(first.channel)).name, "group 0");
  EXPECT_EQ(step.step().tasks[step.find("all_reduce#1")].sequence, 1);
  ASSERT_NE(step.edge("way from c10d::allreduce_#0, 1", "all_reduce#0"), nullptr);
  EXPECT_EQ(step.edge("way from c10d::allreduce_#0, 1", "all_reduce#0")->source, EdgeSource::launch);
  EXPECT_EQ(step.step().tasks[step.find("way from c10d::allreduce_#0, 1")].ns, 20'000) << "from the end of the request";
}

// Ranks don't wait for each other's copies.
TEST(CpuWork, TakesCopiesAfterTheExchangeApart) {
  const CpuStep step = cpu_step(backward_step());
  EXPECT_EQ(step.step().tasks[step.find("all_reduce#0")].ns, 500'000);
  EXPECT_EQ(step.step().tasks[step.find("all_reduce#1")].ns, 720'000);
  const graph::OpenTask& copies = step.step().tasks[step.find("gloo:all_reduce copies#0")];
  EXPECT_EQ(copies.ns, 180'000);
  EXPECT_EQ(copies.kind, graph::OpenKind::copy);
  EXPECT_NE(step.edge("all_reduce#1", "gloo:all_reduce copies#0"), nullptr);
}

TEST(CpuWork, WaitsInLongPausesForWhatEndedInThem) {
  const CpuStep step = cpu_step(backward_step());
  std::vector<std::string> waits;  // for the second collective, whose end at 2.23 ms the pause up to 2.3 ms holds
  for (const graph::OpenEdge& edge : step.step().edges) {
    if (edge.from == step.find("gloo:all_reduce copies#0")) waits.push_back(step.step().tasks[edge.to].name);
    EXPECT_NE(edge.from, step.find("all_reduce#0")) << "the later one holds the thread up";
  }
  ASSERT_EQ(waits.size(), 1U);
  const graph::OpenTask& pause = step.step().tasks[step.find(waits[0])];
  EXPECT_EQ(pause.kind, graph::OpenKind::host);
  EXPECT_EQ(pause.ns, 70'000) << "what it did after it had waited";
  CpuStep faster = cpu_step(backward_step());
  faster.graph.classes[0].tasks[step.find("all_reduce#1")].ns = 100'000;
  EXPECT_LT(faster.replayed(), 2'500'000);
}

// gloo has no reduce-scatter of its own, and two threads may begin in either order.
TEST(CpuWork, TellsCollectivesByWhoAskedForThem) {
  KinetoText text;
  text.step(1, 77, 0, 1'000'000);
  operation(text, "c10d::_allgather_base_", 10'000, 10'000, 77, R"("Input Dims": [[200], [100]])");
  operation(text, "c10d::_reduce_scatter_base_", 30'000, 10'000, 77, R"("Input Dims": [[300], [600]])");
  text.slice("user_annotation", "gloo:all_reduce", 1000, 91, 45'000, 100'000, R"("Input Dims": [[600]])");
  text.slice("user_annotation", "gloo:all_gather", 1000, 92, 46'000, 100'000, R"("Input Dims": [[100]])");
  operation(text, "aten::add_", 200'000, 300'000);
  const CpuStep step = cpu_step(text);
  EXPECT_NE(step.edge("way from c10d::_allgather_base_#0, 1", "all_gather#0"), nullptr);
  EXPECT_NE(step.edge("way from c10d::_reduce_scatter_base_#0, 1", "reduce_scatter#0"), nullptr);
  EXPECT_EQ(step.step().tasks[step.find("all_gather#0")].channel,
            step.step().tasks[step.find("reduce_scatter#0")].channel);
}

TEST(CpuWork, TakesWhatRecordsOfCommunicationSay) {
  KinetoText text;
  text.info = R"("rank": 0, "world_size": 4)";
  operation(text, "c10d::allreduce_", 10'000, 10'000, 77, R"("Input Dims": [[8]])");
  operation(
      text, "record_param_comms", 11'000, 2'000, 77,
      R"("Collective name": "allreduce", "In msg nelems": 8, "Out msg nelems": 8, "Group size": 2, "dtype": "Float",
               "Process Group Name": "3", "Process Group Description": "dp", "Seq": 12)");
  text.slice("user_annotation", "gloo:all_reduce", 1000, 91, 25'000, 100'000, R"("Input Dims": [[8]])");
  const CpuStep step = cpu_step(text);
  const graph::OpenTask& task = step.step().tasks[step.find("all_reduce#0")];
  EXPECT_EQ(step.graph.channels.at(static_cast<std::size_t>(task.channel)).name, "dp");
  EXPECT_EQ(task.sequence, 12);
  EXPECT_EQ(task.network_bytes, 32);
}

TEST(CpuWork, OfATraceWithoutOperatorsIsNone) {
  KinetoText text;
  text.step(1, 77, 0, 1'000);
  EXPECT_TRUE(refuses([&] { cpu_step(text); }, {"no work"}));
}

}  // namespace
}  // namespace weft::inspect
