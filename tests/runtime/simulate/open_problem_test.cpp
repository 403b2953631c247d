// Every policy and bound works on an open graph; a compiled step and its open graph are one problem.
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
#include "tests/base/messages.h"
#include "tests/graph/open_graph_sample.h"
#include "tests/runtime/random_graph.h"

namespace weft::simulate {
namespace {

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
  const Report report = report_plan(problem, policy::named_policy("program"));
  ASSERT_TRUE(report.planned()) << report.refusal;
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
  const Report report = report_plan(problem, policy::named_policy("program"));
  ASSERT_TRUE(report.planned()) << report.refusal;
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
  const Report report = report_plan(problem, policy::named_policy("program"));
  ASSERT_TRUE(report.planned()) << report.refusal;
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

}  // namespace
}  // namespace weft::simulate
