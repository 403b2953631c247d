// Policies in shared libraries: the example works, and each way to be wrong is refused in words for its author.
#include "runtime/policy/library/policy_library.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/analysis.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/base/messages.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

std::string library(const std::string& name) {
  return fmt::format("{}/{}.so", WEFT_POLICY_LIBRARIES, name);
}

/// Of a text that the command line names.
std::unique_ptr<Policy> named_policy(const std::string& text) {
  TrustedLibraries libraries;
  libraries.trust(text);
  return make_policy(text, libraries);
}

TEST(PolicyLibrary, TheExampleGivesSafePlans) {
  const auto policy = named_policy(library("mine"));
  EXPECT_EQ(policy->name(), library("mine"));
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto graph = testing::random_graph(seed);
    const plan::Plan plan = compile_plan(graph, *policy);
    EXPECT_TRUE(plan::check_plan(plan).empty());
    EXPECT_EQ(testing::order_of(*policy, *graph), testing::order_of(*named_policy(library("mine")), *graph));
  }
  const plan::Plan plan = compile_plan(testing::summed_step(), *policy);
  EXPECT_EQ(plan.reasons.at(plan.streams[0].entries[0].reason),
            (plan::Reason{.text = "the longest way to the end of the step"}));
}

TEST(PolicyLibrary, TheExampleOrdersPipelines) {
  const auto policy = named_policy(library("mine"));
  for (const std::int64_t stages : {2, 4}) {
    const testing::PipelineToy toy({.stages = static_cast<std::int32_t>(stages), .micro_batches = 6, .world = true});
    PolicyOptions options;
    options.cost_model = toy.prices();
    const std::vector<plan::Plan> plans = compile(toy.classes(), *policy, options);
    EXPECT_TRUE(plan::check(testing::pointers_to(plans)).empty());
    const auto makespan = [&](const Policy& of) {
      return timetable_of(toy.classes(), of.orders(toy.classes(), options), toy.costs(), options).makespan;
    };
    EXPECT_LT(makespan(*policy), makespan(*make_policy("program")));
  }
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 2});
  EXPECT_THROW((void)compile(toy.classes(), *named_policy(library("modes") + ":good")), UserError);
}

TEST(PolicyLibrary, ReasonsEdgesAndParametersArrive) {
  const auto graph = testing::summed_step();
  const auto policy = named_policy(library("modes") + ":good");
  EXPECT_EQ(policy->name(), library("modes") + ":good");
  const plan::Order order = testing::order_of(*policy, *graph);
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason), (plan::Reason{.text = "because it is first"}));
  EXPECT_EQ(order.reasons.at(order.sequence[1].reason), plan::Reason{.table = &kLibraryReasons});
  ASSERT_EQ(order.added_edges.size(), 2U);
  EXPECT_EQ(order.added_edges[0].to, graph->find_task("b"));
  EXPECT_EQ(order.added_edges[1].distance, 1);
  EXPECT_EQ(order.added_edges[1].to, graph->find_task("a"));
  EXPECT_TRUE(plan::check_plan(compile_plan(graph, *policy)).empty());
}

TEST(PolicyLibrary, RewritesArrive) {
  const auto graph = testing::summed_step();
  EXPECT_TRUE(named_policy(library("modes") + ":good")->rewrites(*graph, {}).empty());
  const std::vector<plan::Rewrite> rewrites = named_policy(library("modes") + ":rewrites")->rewrites(*graph, {});
  EXPECT_EQ(plan::to_string(rewrites), "ar-to-rs-ag");
}

TEST(PolicyLibrary, ALibrarySimulates) {
  const auto graph = testing::summed_step();
  const auto policy = named_policy(library("modes") + ":simulate");
  const plan::Order order = testing::order_of(*policy, *graph);
  const double step = testing::timetable_of(*graph, order, costs_of(*graph, {}), {}).makespan;
  const std::int64_t scratch = plan::make_plan(graph, order, "simulated").scratch_bytes;
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason).text,
            fmt::format("step {:.6f} last {:.6f} scratch {}", step, step, scratch));
  const plan::Reason& refused = order.reasons.at(order.sequence[1].reason);
  EXPECT_TRUE(plan::is_for_memory(refused));
  EXPECT_NE(refused.text.find("contradicts an edge"), std::string::npos) << refused.text;
}

TEST(PolicyLibrary, TheExampleBeatsCriticalPathSomewhere) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const cost::TaskCosts costs = costs_of(*graph, {});
    const auto step = [&](const std::string& policy) {
      return testing::timetable_of(*graph, testing::order_of(*named_policy(policy), *graph), costs, {}).makespan;
    };
    if (step(library("mine")) < step("critical-path")) ++better;
  }
  EXPECT_GE(better, 3);
}

TEST(PolicyLibrary, WrongAnswersAreRefusedInWordsForTheAuthor) {
  const auto graph = testing::summed_step();
  struct Case {
    const char *mode, *part;
  };
  for (const Case& wrong :
       {Case{"throw", "an exception left order(): no memory left"}, Case{"throw-int", "an exception left order()"},
        Case{"silent", "order() returns 5 without a word"}, Case{"fail", "parameter 'depth' must be positive"},
        Case{"late", "rewrites in rewrites()"}, Case{"missing", "sequence[2] of 3 is not filled"},
        Case{"twice", "task 0 ('a') is in the sequence twice"},
        Case{"unknown", "sequence[1] = 3 isn't an index of the 3 tasks"}, Case{"backwards", "contradicts an edge"},
        Case{"stream", "streams[1] = 0 (compute0) can't run task 'r'"},
        Case{"no-stream", "streams[0] = 99 can't run task 'a'"}, Case{"reason", "reasons[0] = 3"},
        Case{"edge", "its edge from task 1 to task 0"}, Case{"edge-out", "its edge from task 0 to task 3"},
        Case{"edge-distance", "its edge from task 0 to task 1"}, Case{"edge-null", "its order has 1 edges"}}) {
    const auto policy = named_policy(library("modes") + ":" + wrong.mode);
    EXPECT_TRUE(refuses([&] { testing::order_of(*policy, *graph); }, {wrong.part}));
  }
  for (const Case& wrong : {Case{"bad-rewrite", "shuffle"}, Case{"early", "it simulates in rewrites()"}}) {
    const auto policy = named_policy(library("modes") + ":" + wrong.mode);
    EXPECT_TRUE(refuses([&] { policy->rewrites(*graph, {}); }, {wrong.part}));
  }
}

TEST(PolicyLibrary, AnOlderVersionIsRefusedWithTheLineThatRebuildsIt) {
  const std::string path = library("version_1");
  EXPECT_TRUE(refuses([&] { named_policy(path); },
                      std::vector<std::string>{"compiled for version 1 of the interface; expected version 2",
                                               "-shared -I PREFIX/include version_1.cpp -o " + path}));
}

TEST(PolicyLibrary, OtherLibrariesAreRefusedWhenLoaded) {
  EXPECT_TRUE(refuses([] { named_policy(library("other_version")); }, {"compiled for version 3 of the interface"}));
  EXPECT_TRUE(refuses([] { named_policy(library("other_size")); }, {"set size to sizeof(weft2_policy)"}));
  EXPECT_TRUE(refuses([] { named_policy(library("no_entry")); }, {"it exports no function weft_policy_entry_2"}));
  EXPECT_TRUE(refuses([] { named_policy("./nowhere.so:x=1"); }, {"can't load the policy ./nowhere.so"}));
}

}  // namespace
}  // namespace weft::policy
