// Every policy and bound works on an open graph, of one class or of several that wait for each other; a compiled step
// and its open graph are one problem.
#include "runtime/simulate/open_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/plan/recording.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/bubbles.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "runtime/simulate/report.h"
#include "tests/base/messages.h"
#include "tests/graph/open_graph_sample.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::simulate {
namespace {

Report planned_by_program(const Problem& problem) {
  Report report = report_plan(problem, policy::named_policy("program"));
  EXPECT_TRUE(report.planned()) << report.refusal;
  return report;
}

std::vector<std::string> all_open_policies() {
  std::vector<std::string> names = policy::graph_policy_names();
  names.emplace_back("recorded");
  return names;
}

TEST(OpenProblem, EveryPolicyPlansAnOpenGraph) {
  const Problem problem = open_problem(testing::sample_open_graph(), {});
  for (const std::string& name : all_open_policies()) {
    const Report report = report_plan(problem, policy::named_policy(name));
    ASSERT_TRUE(report.planned()) << name << ": " << report.refusal;
    EXPECT_GE(report.step_ns(), report.bounds.best() - 2) << name;
    EXPECT_GE(report.first().plan->scratch_bytes, 1500) << name;  // y and z are in use at once
    EXPECT_EQ(report.first().plan->collectives.size(), 1U) << name;
  }
}

TEST(OpenProblem, ThreadsAndCopiesRunBesideComputations) {
  const Problem problem = open_problem(testing::sample_open_graph(), {});
  const Report report = planned_by_program(problem);
  // launch 10, up 1000; the sum 1200 runs beside other 800 and the copy; update 200.
  EXPECT_DOUBLE_EQ(report.step_ns(), 10 + 1000 + 1200 + 200);
  EXPECT_EQ(report.first().overlap.compute, 2000);
  EXPECT_EQ(report.first().overlap.communication, 1200);
  EXPECT_EQ(report.first().overlap.exposed, 400);
  EXPECT_DOUBLE_EQ(report.bounds.critical_path, 2410);
  EXPECT_DOUBLE_EQ(report.first().alone.compute_ns, 2000);
  ASSERT_EQ(report.first().channels.size(), 1U);
  EXPECT_EQ(report.first().channels[0].stream, "tp");
  const plan::Recording recording = plan::record(*report.first().plan, {}, 1, std::nullopt);
  const auto local = std::ranges::count(recording.streams, true, &plan::RecordedStream::local);
  EXPECT_EQ(local, 2);
}

TEST(OpenProblem, RecordedRepeatsStreamsAndOrder) {
  graph::OpenGraph open = testing::sample_open_graph();
  graph::OpenClass& one = open.classes[0];
  one.streams.push_back({"stream 12"});
  one.tasks[2].stream = 4;
  const std::vector<double> begins = {0, 900, 20, 1900, 1900, 3100};
  for (std::size_t i = 0; i < begins.size(); ++i) {
    one.tasks[i].begin_ns = begins[i];
    one.tasks[i].end_ns = begins[i] + *one.tasks[i].ns;
  }
  const Problem problem = open_problem(open, {});
  EXPECT_EQ(problem.options.compute_streams, 2);
  const policy::NamedPolicy policy = default_open_policy(problem.first());
  EXPECT_EQ(policy.name, "recorded");
  const Report report = report_plan(problem, policy);
  ASSERT_TRUE(report.planned()) << report.refusal;
  EXPECT_EQ(report.first().plan->streams[0].stream.name, "stream 7");
  EXPECT_EQ(report.first().plan->streams[1].stream.name, "stream 12");
  EXPECT_EQ(problem.first().task(report.first().plan->sequence[1]).name, "other");
  one.tasks[2].stream = 0;
  const Problem one_stream = open_problem(open, {});
  const Report serial = report_plan(one_stream, policy);
  ASSERT_TRUE(serial.planned()) << serial.refusal;
  EXPECT_DOUBLE_EQ(serial.step_ns(), 10 + 800 + 1000 + 1200 + 200);
}

TEST(OpenProblem, RecordedNeedsSomethingRecorded) {
  graph::OpenGraph open = testing::sample_open_graph();
  for (graph::OpenTask& task : open.classes[0].tasks) task.stream = -1;
  const Problem problem = open_problem(open, {});
  EXPECT_EQ(default_open_policy(problem.first()).name, "program");
  EXPECT_TRUE(testing::has_parts(report_plan(problem, policy::named_policy("recorded")).refusal,
                                 {"recorded stream or begin", "begin_ns"}));
}

/// Two micro-batches beside each other, as in a step of DualPipe.
TEST(OpenProblem, ProgramKeepsComputationsOnTheirRecordedStreams) {
  graph::OpenGraph open;
  graph::OpenClass& step = open.classes.emplace_back();
  step.ranks = {0};
  step.streams = {{"stream 7"}, {"stream 9"}};
  for (int i = 0; i < 8; ++i) {
    graph::OpenTask& task = step.tasks.emplace_back();
    task.name = "gemm#" + std::to_string(i);
    task.stream = i % 2;
    task.ns = 1000;
    const int pair = i / 2;
    task.begin_ns = 1000.0 * pair;
    task.end_ns = *task.begin_ns + 1000;
  }
  EXPECT_DOUBLE_EQ(planned_by_program(open_problem(open, {})).step_ns(), 4000);
  OpenChoices one_stream;
  one_stream.compute_streams = 1;
  EXPECT_DOUBLE_EQ(planned_by_program(open_problem(open, one_stream)).step_ns(), 8000);
}

TEST(OpenProblem, ShapesTakeAMachinesRates) {
  graph::OpenGraph open = testing::sample_open_graph();
  open.classes[0].tasks[1].ns.reset();
  EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { open_problem(open, {}); }),
                                 {"'up' has a shape and no time", "--machine"}));
  OpenChoices choices;
  choices.machine = cost::Machine();
  const Problem problem = open_problem(open, choices);
  EXPECT_DOUBLE_EQ(problem.options.cost_model->costs(problem.first()).ns[1], 1000 + 2e6 / 100);
  open.classes[0].tasks[1].flops = 0;
  EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { open_problem(open, choices); }),
                                 {"'up' has neither a time nor a shape"}));
}

TEST(OpenProblem, AMachineSlowsByKindsOfOpaqueTasks) {
  OpenChoices choices;
  choices.machine = cost::Machine();
  choices.machine->slowdowns = {{.compute = "gemm", .collective = "all_reduce", .factor = 2}};
  const Problem problem = open_problem(testing::sample_open_graph(), choices);
  const Report report = planned_by_program(problem);
  // While the sum runs for 1200, `other` gets 600 of its 800 done. The copy of its result ends last.
  EXPECT_DOUBLE_EQ(report.step_ns(), 10 + 1000 + 1200 + 200 + 300);
}

TEST(OpenProblem, AMachineDoesNotSlowRecordedTimesAgain) {
  OpenChoices choices;
  choices.machine = cost::Machine();
  choices.machine->slowdowns = {{.compute = "*", .collective = "*", .factor = 2}};
  choices.machine->shared_cores = true;
  graph::OpenGraph open = testing::sample_open_graph();
  open.classes[0].tasks[0].begin_ns = 0;
  open.classes[0].tasks[0].end_ns = 10;
  const Problem problem = open_problem(open, choices);
  EXPECT_TRUE(problem.options.machine->slowdowns.empty());  // what policies see
  EXPECT_FALSE(problem.options.machine->shared_cores);
  const Report report = planned_by_program(problem);
  EXPECT_DOUBLE_EQ(report.step_ns(), 10 + 1000 + 1200 + 200);
}

TEST(OpenProblem, ACompiledStepAndItsOpenGraphAreOneProblem) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Problem compiled;
    compiled.classes = {testing::random_graph(seed)};
    compiled.machine.slowdowns = {{.compute = "", .collective = "", .factor = 1.5}};
    compiled.grid = {.x = 2, .z = 2, .data = 2};
    compiled.options.machine = std::make_shared<const cost::Machine>(compiled.machine);
    compiled.options.link_of_channel = links_of_channels(compiled.machine, compiled.grid);
    const cost::TaskCosts costs = policy::costs_of(compiled.first(), compiled.options);
    OpenChoices choices;
    choices.machine = compiled.machine;
    choices.compute_streams = 1;
    const Problem open = open_problem(open_graph_of(compiled.classes, {&costs, 1}, compiled, "r"), choices);
    ASSERT_EQ(open.first().tasks().size(), compiled.first().tasks().size());
    for (const char* name : {"program", "serial", "critical-path", "lhs", "random"}) {
      const Report a = report_plan(compiled, policy::named_policy(name));
      const Report b = report_plan(open, policy::named_policy(name));
      ASSERT_TRUE(a.planned() && b.planned()) << name << a.refusal << b.refusal;
      EXPECT_NEAR(b.step_ns(), a.step_ns(), 1e-9 * a.step_ns()) << name << " of " << seed;
      EXPECT_NEAR(b.bounds.best(), a.bounds.best(), 1e-9 * a.bounds.best()) << name << " of " << seed;
      EXPECT_EQ(b.first().plan->scratch_bytes, a.first().plan->scratch_bytes) << name << " of " << seed;
    }
  }
}

/// Stage a computes for 100 and sends; b receives, computes for 300 and sends back; a computes for 200. Then all four
/// ranks sum for 40. Messages take 10 and 20.
graph::OpenGraph two_classes() {
  using graph::OpenKind;
  graph::OpenGraph open;
  open.name = "stages";
  open.world = 4;
  open.channels = {{"pp", 2, {{0, 2}, {1, 3}}}, {"all", 4, {{0, 1, 2, 3}}}};
  const auto task = [](std::string name, OpenKind kind, double ns, std::int32_t channel = -1,
                       std::int64_t message = -1) {
    graph::OpenTask made;
    made.name = std::move(name);
    made.kind = kind;
    made.operation = kind == OpenKind::collective ? "all_reduce" : "";
    made.ns = ns;
    made.channel = channel;
    made.message = message;
    return made;
  };
  open.classes.resize(2);
  graph::OpenClass &a = open.classes[0], &b = open.classes[1];
  a.name = "a", a.ranks = {0, 1};
  b.name = "b", b.ranks = {2, 3};
  a.tasks = {task("forward", OpenKind::compute, 100), task("send", OpenKind::send, 10, 0, 0),
             task("receive", OpenKind::receive, 0, 0, 1), task("backward", OpenKind::compute, 200),
             task("sum", OpenKind::collective, 40, 1)};
  a.edges = {{0, 1}, {2, 3}, {3, 4}};
  b.tasks = {task("get", OpenKind::receive, 0, 0, 0), task("work", OpenKind::compute, 300),
             task("give", OpenKind::send, 20, 0, 1), task("total", OpenKind::collective, 40, 1)};
  b.edges = {{0, 1}, {1, 2}, {1, 3}};
  return open;
}

TEST(OpenClasses, WaitForEachOther) {
  const Problem problem = open_problem(two_classes(), {});
  const std::vector<std::string> names = policy::pipeline_policy_names();
  EXPECT_GE(names.size(), 7U);
  for (const std::string& name : names) {
    Report report = report_plan(problem, policy::named_policy(name));
    ASSERT_TRUE(report.planned()) << name << ": " << report.refusal;
    EXPECT_DOUBLE_EQ(report.step_ns(), 100 + 10 + 300 + 20 + 200 + 40) << name;
    prove_windows(problem, {&report, 1});
    EXPECT_DOUBLE_EQ(report.bounds.critical_path, 670) << name;
    EXPECT_NEAR(report.bounds.windows, 670, 1e-6) << name;
    EXPECT_DOUBLE_EQ(report.classes[1].times.compute, 300) << name;
  }
  const std::vector<BubbleGap> gaps = bubble_gaps(report_plan(problem, policy::named_policy("program")));
  EXPECT_EQ(gaps.at(0).cause, BubbleCause::activation);
  EXPECT_EQ(gaps.at(0).made_by, problem.classes[1]->find_task("work"));
}

TEST(OpenClasses, AFasterNetworkIsFasterOnBothEndsOfMessages) {
  OpenChoices choices;
  choices.bandwidths = {{"pp", 2}};
  const Report report = planned_by_program(open_problem(two_classes(), choices));
  EXPECT_DOUBLE_EQ(report.step_ns(), 100 + 5 + 300 + 10 + 200 + 40);
  ASSERT_EQ(report.first().channels.size(), 3U);
  EXPECT_EQ(report.first().channels[0].stream, "pp out");
  EXPECT_EQ(report.first().channels[1].stream, "pp in");
}

TEST(OpenClasses, AClassByItselfWaitsForNobody) {
  const Problem problem = open_problem(two_classes(), {.of_class = 0});
  const Report report = planned_by_program(problem);
  EXPECT_DOUBLE_EQ(report.step_ns(), 100 + 10 + 200 + 40);  // the send goes first on the channel's only queue
}

TEST(OpenClasses, AreRepeatedAsRecorded) {
  graph::OpenGraph open = two_classes();
  double begin = 0;
  for (graph::OpenClass& one : open.classes) {
    one.streams = {{"stream 7"}};
    for (graph::OpenTask& task : one.tasks) {
      task.begin_ns = begin;
      task.end_ns = begin += *task.ns;
      task.stream = 0;
    }
  }
  const Problem problem = open_problem(open, {});
  const policy::NamedPolicy policy = default_open_policy(problem.first());
  EXPECT_EQ(policy.name, "recorded");
  const Report report = report_plan(problem, policy);
  ASSERT_TRUE(report.planned()) << report.refusal;
  EXPECT_DOUBLE_EQ(report.step_ns(), 670);
}

// Rank 0 computes half as fast, and holds up the rank that it sends to, and at last all four.
TEST(OpenClasses, AreSimulatedRankByRankWhereRanksDiffer) {
  Problem problem = open_problem(two_classes(), {});
  problem.simulation.slow_rank = 2;
  Report report = planned_by_program(problem);
  EXPECT_DOUBLE_EQ(report.step_ns(), 200 + 10 + 300 + 20 + 400 + 40);
  EXPECT_EQ(report.simulation.ranks.size(), 4U);
  EXPECT_EQ(report.rank(1).rank, 2);
  problem.simulation.slow_rank = 1;
  const Robustness robustness = robustness_of(report, problem, {.noise = 0.2, .slow_rank = 2, .draws = 9});
  EXPECT_DOUBLE_EQ(robustness.slow_rank_ns, 970);
  EXPECT_NE(robustness.median_ns, 670);
  EXPECT_LT(std::abs(robustness.median_ns / 670 - 1), 0.5);
  graph::OpenGraph uneven = two_classes();
  uneven.classes[1].ranks = {2};
  problem = open_problem(uneven, {});
  EXPECT_TRUE(report_plan(problem, policy::named_policy("program")).planned());
  problem.simulation.noise = 0.1;
  EXPECT_TRUE(testing::has_parts(report_plan(problem, policy::named_policy("program")).refusal,
                                 {"exchanges messages with 0 ranks", "equally many ranks", "--noise"}));
}

TEST(OpenClasses, InACycleAreRefused) {
  graph::OpenGraph open = two_classes();
  open.classes[0].edges = {};
  open.classes[1].edges = {};
  for (graph::OpenClass& one : open.classes) {
    one.tensors = {{"t", 8}};
    const std::size_t receive = &one == open.classes.data() ? 2 : 0, send = &one == open.classes.data() ? 1 : 2;
    one.tasks[receive].accesses = {{0, graph::AccessMode::write}};
    one.tasks[send].accesses = {{0, graph::AccessMode::read}};
    if (send < receive) std::swap(one.tasks[send], one.tasks[receive]);
  }
  EXPECT_TRUE(testing::has_parts(testing::message_of<UserError>([&] { open_problem(open, {}); }),
                                 {"wait for each other in a cycle", "--class"}));
}

TEST(OpenClasses, AreThePipelineThatWasWritten) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 4, .message = 300});
  Problem pipeline;
  pipeline.classes = toy.classes();
  pipeline.grid = toy.grid();
  pipeline.options.cost_model = toy.prices();
  pipeline.options.link_of_channel = links_of_channels(pipeline.machine, pipeline.grid);
  const std::vector<cost::TaskCosts> costs = toy.costs();
  const Problem open = open_problem(open_graph_of(pipeline.classes, costs, pipeline, "toy"), {});
  for (const char* name : {"serial", "program", "random"}) {
    const Report a = report_plan(pipeline, policy::named_policy(name));
    const Report b = report_plan(open, policy::named_policy(name));
    ASSERT_TRUE(a.planned() && b.planned()) << name << a.refusal << b.refusal;
    EXPECT_DOUBLE_EQ(b.step_ns(), a.step_ns()) << name;
    EXPECT_DOUBLE_EQ(b.bounds.best(), a.bounds.best()) << name;
    EXPECT_EQ(b.scratch_bytes(), a.scratch_bytes()) << name;
  }
}

}  // namespace
}  // namespace weft::simulate
