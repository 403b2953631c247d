// Profiles: means by hand, samples out of traces written by hand, and costs of graphs that a profile knows in part.
#include "runtime/cost/profile.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/task_signature.h"
#include "runtime/cost/cost_model.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/toy_graph.h"

namespace weft::cost {
namespace {

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
    plan = testing::plan_in(graph, "a b d c e");
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
  EXPECT_TRUE(samples.entries().empty());
  samples.add(small.plan,
              small.trace({{"a", {0, 10}}, {"b", {10, 24}}, {"c", {24, 30}}, {"d", {10, 40}}, {"e", {40, 45}}}));
  for (const ProfileEntry& entry : samples.entries()) {
    if (entry.samples == 1) {
      EXPECT_EQ(entry.deviation_ns, 0) << entry.signature;
    }
  }
  samples.add(small.plan,
              small.trace({{"a", {0, 12}}, {"b", {12, 52}}, {"c", {52, 54}}, {"d", {12, 22}}, {"e", {24, 27}}}));
  const std::vector<ProfileEntry> entries = samples.entries();
  ASSERT_EQ(entries.size(), 4U);
  for (const ProfileEntry& entry : entries) {
    EXPECT_EQ(entry.cpu_ns, 0);
    EXPECT_EQ(entry.beside_ns, 0);
    if (entry.signature == small.signature("a")) {
      EXPECT_EQ(entry.ns, 19);  // of the steps' means 12 and 26
      EXPECT_EQ(entry.samples, 4);
      EXPECT_NEAR(entry.deviation_ns, std::sqrt(596.0 / 3), 1e-12);
    } else if (entry.signature == small.signature("d")) {
      EXPECT_EQ(entry.ns, 20);
      EXPECT_NEAR(entry.deviation_ns, std::sqrt(200.0), 1e-12);
    }
  }
}

/// Every task has the cost of its kind; collectives take half of it from the cores.
std::shared_ptr<const CostModel> by_kind() {
  return testing::priced_tasks([](const graph::Task& task) {
    return graph::is_collective(task.operation) ? testing::TaskPrice{100, 50} : testing::TaskPrice{10};
  });
}

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
  const auto model = profiled_costs(profile, by_kind());
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
  TaskCosts costs = profiled_costs(profile, by_kind())->costs(*small.graph);
  EXPECT_EQ(ns_of(*small.graph, costs, "e"), 60);  // 100 · 60/100
  EXPECT_EQ(cpu_of(*small.graph, costs, "e"), 5);
  profile.entries = {{small.signature("d"), 20, 0, 2, 5, 0}};
  costs = profiled_costs(profile, by_kind())->costs(*small.graph);
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
  EXPECT_EQ(ns_of(*graph, profiled_costs(profile, by_kind())->costs(*graph), "c4"), 5000);
}

TEST(ProfiledCosts, CollectivesThatARewriteMakesTakeTheNetworksRatio) {
  // An all-reduce of the profile's step was split into a reduce-scatter and an all-gather. On z nothing was measured.
  ToyGraph toy;
  const graph::View part = toy.tensor("part", 4096, graph::Role::parameter),
                    whole = toy.tensor("whole", 8192, graph::Role::parameter),
                    workspace = toy.tensor("workspace", 4096, graph::Role::parameter);
  toy.add("rs", graph::ReduceScatter{graph::Channel::data, 2, 4096},
          {graph::read(whole), graph::write(part), graph::write(workspace)});
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
  // Measured in a step, and not beside computations: the nearest that was tells the rest.
  profile.entries.push_back({graph::task_signature(*graph, graph->task(graph->find_task("rs"))), 4000, 0, 1});
  const TaskCosts measured = profiled_costs(profile, model)->costs(*graph);
  const std::size_t rs = graph->find_task("rs").index();
  EXPECT_EQ(measured.ns[rs], 4000);
  EXPECT_NEAR(measured.beside_ns[rs], 4000 * 60.0 / 50, 1e-6);
  EXPECT_NEAR(measured.cpu_ns[rs], 4000 * 5.0 / 50, 1e-6);
}

TEST(ProfiledCosts, OfAnEmptyProfileAreTheOthers) {
  const Small small;
  const TaskCosts costs = profiled_costs({}, by_kind())->costs(*small.graph);
  EXPECT_EQ(costs.ns, by_kind()->costs(*small.graph).ns);
  EXPECT_EQ(costs.cpu_ns, by_kind()->costs(*small.graph).cpu_ns);
}

using nlohmann::json;

Profile profile() {
  Profile profile;
  profile.machine = "a \"loom\" of λ";
  profile.grid = {2, 1, 4, 3};
  profile.threads = 5;
  profile.entries = {{"add count=8 f32", 12.5, 0.1, 40},
                     {"all_reduce channel=data ranks=2 count=8 f32", 1e9, 2000, 7, 500.5, 3e9}};
  profile.slowdowns = {{"add", "all_reduce", 1.25}, {"add", "all_gather", 1}};
  return profile;
}

std::string profile_refusal(const std::string& text) {
  return testing::message_of<UserError>([&] { parse_profile(text, "p.json"); });
}

template <class Change>
std::string changed(Change change) {
  json document = json::parse(profile_json(profile()));
  change(document);
  return document.dump();
}

TEST(ProfileFile, OfAPipelineIsReadBack) {
  Profile written = profile();
  EXPECT_FALSE(json::parse(profile_json(written)).contains("pipe"));
  written.grid.pipe = 2;
  written.core_pools = {{{0, 2, 47}, 1}, {{1, 3}, 8}};
  const Profile read = parse_profile(profile_json(written), "p.json");
  EXPECT_EQ(read.grid, written.grid);
  EXPECT_EQ(read.core_pools, written.core_pools);
  const auto refused = [&](const json& pools) {
    json document = json::parse(profile_json(written));
    document["core_pools"] = pools;
    return profile_refusal(document.dump());
  };
  EXPECT_TRUE(testing::contains(refused({{{"ranks", {0, 48}}, {"cores", 1}}}), "48"));
  EXPECT_TRUE(testing::contains(refused({{{"ranks", {0, 1}}, {"cores", 0}}}), "cores is 0"));
  EXPECT_TRUE(
      testing::contains(refused({{{"ranks", {0, 1}}, {"cores", 1}}, {{"ranks", {1, 2}}, {"cores", 1}}}), "repeats 1"));
}

TEST(ProfileFile, IsReadBack) {
  const Profile written = profile();
  const Profile read = parse_profile(profile_json(written), "p.json");
  EXPECT_EQ(read.machine, written.machine);
  EXPECT_EQ(read.grid, written.grid);
  EXPECT_EQ(read.threads, 5);
  EXPECT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.slowdowns.size(), 2U);
  EXPECT_EQ(profile_json(read), profile_json(written));
  EXPECT_TRUE(parse_profile(profile_json(Profile()), "p.json").entries.empty());
  EXPECT_EQ(profile_refusal(changed([](json&) {})), "");  // accepted without the other tests' changes
}

TEST(ProfileFile, TimesAreRoundedToATenthOfANanosecond) {
  Profile exact = profile();
  exact.entries[0].ns = 1.0 / 3;
  EXPECT_EQ(parse_profile(profile_json(exact), "p.json").entries[0].ns, 0.3);
}

TEST(ProfileFile, OtherFilesAreRefused) {
  for (const std::string text : {"", "{", "weft", "\xff\xfe"}) EXPECT_NE(profile_refusal(text), "") << text;
  for (const std::string text : {"[]", "1", "{}", R"({"format": "weft-plan"})"}) {
    EXPECT_TRUE(testing::contains(profile_refusal(text), "p.json isn't a profile")) << profile_refusal(text);
    EXPECT_TRUE(testing::contains(profile_refusal(text), "`weft profile` makes one")) << profile_refusal(text);
  }
  EXPECT_TRUE(testing::contains(profile_refusal(changed([](json& d) { d["version"] = 1; })), "p.json has version 1"));
  EXPECT_TRUE(
      testing::contains(profile_refusal(changed([](json& d) { d.erase("version"); })), "p.json has no version"));
}

TEST(ProfileFile, EveryPartMustBeThere) {
  for (const char* key : {"machine", "grid", "threads", "entries", "slowdowns"}) {
    const std::string message = profile_refusal(changed([&](json& d) { d.erase(key); }));
    EXPECT_TRUE(testing::contains(message, std::string("p.json has no ") + key + ";")) << message;
  }
  for (const char* key : {"signature", "ns", "deviation_ns", "samples", "cpu_ns", "beside_ns"}) {
    const std::string message = profile_refusal(changed([&](json& d) { d["entries"][1].erase(key); }));
    EXPECT_TRUE(testing::contains(message, std::string("entries[1] has no ") + key + ";")) << message;
  }
}

TEST(ProfileFile, EveryPartMustBeBelievable) {
  struct Case {
    json::json_pointer key;
    json value;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"/machine"_json_pointer, 3, "a text"},
      {"/grid"_json_pointer, json::array({1, 2, 3}), "the sizes of x, y, z and data"},
      {"/grid"_json_pointer, 4, "the sizes of x, y, z and data"},
      // Ranks of a grid are counted in 64 bits.
      {"/grid"_json_pointer, json::array({std::int64_t{1} << 40, std::int64_t{1} << 40, 1, 1}), "grid"},
      {"/grid/2"_json_pointer, 0, "an integer from 1"},
      {"/grid/3"_json_pointer, 1.5, "an integer from 1"},
      {"/threads"_json_pointer, 0, "an integer from 1"},
      {"/threads"_json_pointer, 1e300, "an integer from 1"},
      {"/threads"_json_pointer, UINT64_MAX, "an integer from 1"},
      {"/entries"_json_pointer, json::object(), "a list"},
      {"/entries/0"_json_pointer, 7, "an object"},
      {"/entries/0/signature"_json_pointer, nullptr, "a text"},
      {"/entries/0/ns"_json_pointer, -1, "a time from 0"},
      {"/entries/0/ns"_json_pointer, "12", "a time from 0"},
      {"/entries/0/deviation_ns"_json_pointer, 1e16, "a time from 0"},
      {"/entries/1/cpu_ns"_json_pointer, true, "a time from 0"},
      {"/entries/1/beside_ns"_json_pointer, -0.1, "a time from 0"},
      {"/entries/1/samples"_json_pointer, -1, "an integer from 0"},
      {"/entries/1/samples"_json_pointer, 2.5, "an integer from 0"},
      {"/entries/1/signature"_json_pointer, "add count=8 f32", "each signature once"},
      {"/slowdowns"_json_pointer, 1, "a list"},
      {"/slowdowns/0"_json_pointer, "adamw", "an object"},
      {"/slowdowns/0/compute"_json_pointer, 1, "a text"},
      {"/slowdowns/1/collective"_json_pointer, nullptr, "a text"},
      {"/slowdowns/0/factor"_json_pointer, 0.9, "a factor from 1"},
      {"/slowdowns/0/factor"_json_pointer, 101, "a factor from 1"},
      {"/slowdowns/0/factor"_json_pointer, "2", "a factor from 1"},
      {"/slowdowns/1/collective"_json_pointer, "all_reduce", "each pair once"}};
  for (const auto& [key, value, part] : cases) {
    const std::string message = profile_refusal(changed([&, &key = key, &value = value](json& d) { d[key] = value; }));
    EXPECT_TRUE(testing::contains(message, part)) << key << ": " << message;
    EXPECT_TRUE(testing::contains(message, "p.json")) << message;
  }
}

TEST(ProfileFile, FilesThatCannotBeReadAreRefusedByName) {
  const testing::TemporaryFolder folder;
  const std::string missing = folder.path("missing.json").string();
  EXPECT_TRUE(testing::contains(testing::message_of<UserError>([&] { load_profile(missing); }), missing));
  folder.write("p.json", profile_json(profile()));
  EXPECT_EQ(load_profile(folder.path("p.json").string()).entries.size(), 2U);
  folder.write("empty.json", "");
  EXPECT_TRUE(testing::contains(
      testing::message_of<UserError>([&] { load_profile(folder.path("empty.json").string()); }), "empty.json"));
}

TEST(ProfileFile, TheMachineHasAName) {
  EXPECT_NE(cpu_name(), "");
  EXPECT_EQ(cpu_name().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace weft::cost
