// Profiles: means by hand, samples out of traces written by hand, and costs of graphs that a profile knows in part.
#include "runtime/cost/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graph/task_signature.h"
#include "runtime/cost/cost_model.h"
#include "tests/runtime/toy_graph.h"

namespace weft::cost {
namespace {

using testing::order_of;
using testing::ToyGraph;

TEST(MiddleMean, LeavesOutAQuarterOnEachSide) {
  EXPECT_EQ(middle_mean({}), 0);
  EXPECT_EQ(middle_mean({7}), 7);
  EXPECT_EQ(middle_mean({1, 2}), 1.5);
  EXPECT_EQ(middle_mean({3, 1, 2}), 2);  // 3/4 is less than one: all stay
  EXPECT_EQ(middle_mean({1000, 2, 4, 0}), 3);
  EXPECT_EQ(middle_mean({9, 1, 5, 2, 100, 3, 4, -50}), 3.5);  // 2, 3, 4, 5
  EXPECT_EQ(middle_mean({1, 2, 3, 4, 90}), 3);
}

/// a and b of one kind on compute0, c another kind, d and e all-reduces of 8 and 16 elements on data.
struct Small {
  Small() {
    ToyGraph toy;
    const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 16), r = toy.tensor("r", 16);
    toy.compute("a", {graph::write(p)});
    toy.compute("b", {graph::write(q)});
    toy.add({"c", graph::GeluForward{16}, {graph::write(r)}});
    toy.collective("d", graph::Channel::data, {graph::read_write(p)}, 8);
    toy.collective("e", graph::Channel::data, {graph::read_write(q)}, 16);
    graph = toy.build();
    plan = plan::make_plan(
        graph,
        order_of(*graph, 1, {{"a", "compute0"}, {"b", "compute0"}, {"d", "data"}, {"c", "compute0"}, {"e", "data"}}),
        "mine");
  }
  std::string signature(const std::string& task) const {
    return graph::task_signature(*graph, graph->task(graph->find_task(task)));
  }
  /// A step with the given times of tasks, by stream in the plan's order.
  plan::StepTrace trace(const std::map<std::string, plan::TaskTime>& times) const {
    plan::StepTrace trace;
    for (const plan::StreamPlan& stream : plan.streams) {
      trace.times.emplace_back();
      for (const plan::Entry& entry : stream.entries)
        trace.times.back().push_back(times.at(graph->task(entry.task).name));
    }
    return trace;
  }
  std::shared_ptr<const graph::Graph> graph;
  plan::Plan plan;
};

TEST(ProfileSamples, AreDurationsBySignature) {
  const Small small;
  ASSERT_EQ(small.signature("a"), small.signature("b"));
  ASSERT_NE(small.signature("d"), small.signature("e"));
  ProfileSamples samples;
  samples.add(small.plan,
              small.trace({{"a", {0, 10}}, {"b", {10, 24}}, {"c", {24, 30}}, {"d", {10, 40}}, {"e", {40, 45}}}));
  samples.add(small.plan,
              small.trace({{"a", {0, 12}}, {"b", {12, 24}}, {"c", {24, 26}}, {"d", {12, 22}}, {"e", {24, 27}}}));
  EXPECT_EQ(samples.by_signature().at(small.signature("a")), (std::vector<double>{10, 14, 12, 12}));
  EXPECT_EQ(samples.by_signature().at(small.signature("d")), (std::vector<double>{30, 10}));
  const std::vector<ProfileEntry> entries = samples.entries();
  ASSERT_EQ(entries.size(), 4U);
  for (const ProfileEntry& entry : entries) {
    EXPECT_EQ(entry.cpu_ns, 0);
    EXPECT_EQ(entry.beside_ns, 0);
    if (entry.signature == small.signature("a")) {
      EXPECT_EQ(entry.ns, 12);
      EXPECT_EQ(entry.samples, 4);
      EXPECT_NEAR(entry.deviation_ns, std::sqrt(8.0 / 3), 1e-12);
    } else if (entry.signature == small.signature("d")) {
      EXPECT_EQ(entry.ns, 20);
      EXPECT_NEAR(entry.deviation_ns, std::sqrt(200.0), 1e-12);
    }
  }
}

TEST(ProfileSamples, OneSampleHasNoDeviation) {
  const Small small;
  ProfileSamples samples;
  samples.add(small.plan,
              small.trace({{"a", {0, 10}}, {"b", {10, 24}}, {"c", {24, 30}}, {"d", {10, 40}}, {"e", {40, 45}}}));
  for (const ProfileEntry& entry : samples.entries()) {
    if (entry.samples == 1) {
      EXPECT_EQ(entry.deviation_ns, 0) << entry.signature;
    }
  }
  EXPECT_TRUE(ProfileSamples().entries().empty());
}

/// Every task has the cost of its kind; collectives take half of it from the cores.
class ByKind final : public CostModel {
 public:
  TaskCosts costs(const graph::Graph& graph) const override {
    TaskCosts costs;
    for (const graph::Task& task : graph.tasks()) {
      const double ns = graph::is_collective(task.operation) ? 100 : 10;
      costs.ns.push_back(ns);
      costs.cpu_ns.push_back(graph::is_collective(task.operation) ? ns / 2 : 0);
    }
    return costs;
  }
  std::string source() const override { return "by kind"; }
};

double ns_of(const graph::Graph& graph, const TaskCosts& costs, const std::string& task) {
  return costs.ns[graph.find_task(task).index()];
}
double cpu_of(const graph::Graph& graph, const TaskCosts& costs, const std::string& task) {
  return costs.cpu_ns[graph.find_task(task).index()];
}

TEST(ProfiledCosts, AreTheProfilesWhereItKnows) {
  const Small small;
  Profile profile;
  profile.machine = "a loom";
  profile.grid.data = 2;
  profile.threads = 3;
  profile.entries = {{small.signature("a"), 25, 1, 4},
                     {small.signature("d"), 60, 0, 2, 80, 70},
                     {small.signature("e"), 60, 0, 2, 200, 70}};
  const auto model = profiled_costs(profile, std::make_shared<ByKind>());
  const TaskCosts costs = model->costs(*small.graph);
  EXPECT_EQ(ns_of(*small.graph, costs, "a"), 25);
  EXPECT_EQ(ns_of(*small.graph, costs, "b"), 25);
  EXPECT_EQ(cpu_of(*small.graph, costs, "a"), 0);
  EXPECT_EQ(ns_of(*small.graph, costs, "d"), 60);
  EXPECT_EQ(cpu_of(*small.graph, costs, "d"), 80);
  EXPECT_EQ(cpu_of(*small.graph, costs, "e"), 180);  // no more than all three cores for its own time
  EXPECT_EQ(ns_of(*small.graph, costs, "c"), 10);    // the profile has nothing of this kind
  for (const char* part : {"3 kinds", "2 ranks", "3 threads", "a loom"}) {
    EXPECT_NE(model->source().find(part), std::string::npos) << model->source();
  }
}

TEST(ProfiledCosts, AnUnknownCollectiveIsScaledLikeTheNearestInSize) {
  const Small small;
  Profile profile;
  profile.entries = {{small.signature("d"), 60, 0, 2, 5, 0}};
  TaskCosts costs = profiled_costs(profile, std::make_shared<ByKind>())->costs(*small.graph);
  EXPECT_EQ(ns_of(*small.graph, costs, "e"), 60);  // 100 · 60/100
  EXPECT_EQ(cpu_of(*small.graph, costs, "e"), 5);
  profile.entries = {{small.signature("d"), 20, 0, 2, 5, 0}};
  costs = profiled_costs(profile, std::make_shared<ByKind>())->costs(*small.graph);
  EXPECT_EQ(ns_of(*small.graph, costs, "e"), 20);
  EXPECT_EQ(cpu_of(*small.graph, costs, "e"), 5);

  ToyGraph toy;
  for (int i = 1; i <= 4; ++i) {
    toy.collective("c" + std::to_string(i), graph::Channel::data,
                   {graph::read_write(toy.tensor("t" + std::to_string(i), i, graph::Role::parameter))}, i);
  }
  const auto graph = toy.build();
  const auto signature = [&](const std::string& task) {
    return graph::task_signature(*graph, graph->task(graph->find_task(task)));
  };
  profile.entries = {{signature("c1"), 200}, {signature("c2"), 300}, {signature("c3"), 5000}};
  EXPECT_EQ(ns_of(*graph, profiled_costs(profile, std::make_shared<ByKind>())->costs(*graph), "c4"), 5000);
}

TEST(ProfiledCosts, CollectivesThatARewriteMakesTakeTheNetworksRatio) {
  // An all-reduce of the profile's step was split into a reduce-scatter and an all-gather. On z nothing was measured.
  ToyGraph toy;
  const graph::View part = toy.tensor("part", 4096, graph::Role::parameter),
                    whole = toy.tensor("whole", 8192, graph::Role::parameter),
                    workspace = toy.tensor("workspace", 4096, graph::Role::parameter);
  toy.add({"rs",
           graph::ReduceScatter{graph::Channel::data, 2, 4096},
           {graph::read(whole), graph::write(part), graph::write(workspace)}});
  toy.add({"ag", graph::AllGather{graph::Channel::z_gather, 2, 4096}, {graph::read(part), graph::write(whole)}});
  const auto graph = toy.build();
  const std::shared_ptr<const CostModel> model = analytic_costs(Machine(), {.data = 2});
  Profile profile;
  profile.threads = 2;
  const auto modelled = [&](const std::string& task) { return ns_of(*graph, model->costs(*graph), task); };
  // Of the all-reduces, the one of the rewritten sum's size is 50 times slower than modelled, a tiny one 3 times.
  const Machine laptop;
  const auto alone = [&](std::int64_t count) {
    return 1e9 * collective_time(laptop, group_span(laptop, {.data = 2}, graph::Channel::data),
                                 graph::AllReduce{graph::Channel::data, 2, count}, 4)
                     .seconds;
  };
  profile.entries = {
      {"all_reduce channel=data ranks=2 count=8192 f32", 50 * alone(8192), 0, 1, 5 * alone(8192), 60 * alone(8192)},
      {"all_reduce channel=data ranks=2 count=2 f32", 3 * alone(2), 0, 1}};
  const TaskCosts costs = profiled_costs(profile, model)->costs(*graph);
  for (const char* task : {"rs", "ag"}) {
    const std::size_t i = graph->find_task(task).index();
    EXPECT_NEAR(costs.ns[i], 50 * modelled(task), 1e-6 * costs.ns[i]) << task;
    EXPECT_EQ(costs.link_ns[i], costs.ns[i]) << task;
    EXPECT_NEAR(costs.beside_ns[i], 60 * modelled(task), 1e-6 * costs.ns[i]) << task;
    EXPECT_NEAR(costs.cpu_ns[i], 5 * modelled(task), 1e-6 * costs.ns[i]) << task;
  }
}

TEST(ProfiledCosts, OfAnEmptyProfileAreTheOthers) {
  const Small small;
  const TaskCosts costs = profiled_costs({}, std::make_shared<ByKind>())->costs(*small.graph);
  EXPECT_EQ(costs.ns, ByKind().costs(*small.graph).ns);
  EXPECT_EQ(costs.cpu_ns, ByKind().costs(*small.graph).cpu_ns);
}

}  // namespace
}  // namespace weft::cost
