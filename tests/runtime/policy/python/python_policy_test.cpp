// Policies in Python run in a process of their own: right ones give orders, and each way to be wrong is refused.
#include "runtime/policy/python/python_policy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "runtime/policy/scheduling/timetable.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/policy/builtin/training_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::policy {
namespace {

const std::string kFile = std::string(WEFT_SOURCE_DIR) + "/tests/runtime/policy/python/policies.py";

class PythonPolicies : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "python3 has no NumPy";
  }
};

std::unique_ptr<Policy> of_file(const std::string& text) {
  TrustedLibraries libraries;
  libraries.trust(kFile + ":" + text);
  return make_policy(kFile + ":" + text, libraries);
}

std::string refusal_of_policy(const std::string& text) {
  return testing::message_of<UserError>([&] { testing::order_of(*of_file(text), *testing::summed_step(), {}); });
}

TEST_F(PythonPolicies, AFunctionGivesSafePlans) {
  const auto policy = of_file("longest_way");
  EXPECT_EQ(policy->name(), kFile + ":longest_way");
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const auto graph = testing::random_graph(seed);
    EXPECT_TRUE(plan::check_plan(compile_plan(graph, *policy)).empty());
    EXPECT_EQ(testing::order_of(*policy, *graph), testing::order_of(*of_file("longest_way"), *graph));
  }
}

TEST_F(PythonPolicies, AClassGetsParametersAndGivesRewritesReasonsAndEdges) {
  const auto graph = testing::summed_step();
  const auto policy = of_file("Chatty:words=5,name=x,seconds=30");
  EXPECT_EQ(plan::to_string(policy->rewrites(*graph, {})), "ar-to-rs-ag");
  const plan::Order order = testing::order_of(*policy, *graph);
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason).text, "words 5 for x");
  EXPECT_EQ(order.reasons.at(order.sequence[2].reason).text, "the rest");
  ASSERT_EQ(order.added_edges.size(), 1U);
  EXPECT_EQ(order.added_edges[0].distance, 1);
  EXPECT_TRUE(of_file("longest_way")->rewrites(*graph, {}).empty());
}

TEST_F(PythonPolicies, SimulatesAndSchedulesAsWeftDoes) {
  const auto graph = testing::random_graph(4);
  const plan::Order order = testing::order_of(*of_file("simulates"), *graph);
  const double step = testing::timetable_of(*graph, order, costs_of(*graph, {}), {}).makespan;
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason).text,
            fmt::format("{:.6f} {:.6f} {}", step, step, plan::make_plan(graph, order, "simulated").scratch_bytes));
}

// One sequence of all stages' tasks is divided among the stages.
TEST_F(PythonPolicies, OrdersPipelines) {
  const testing::PipelineToy toy({.stages = 3, .micro_batches = 4, .world = true});
  PolicyOptions options;
  options.cost_model = toy.prices();
  const auto policy = of_file("longest_way");
  const std::vector<plan::Plan> plans = compile(toy.classes(), *policy, options);
  EXPECT_TRUE(plan::check(testing::pointers_to(plans)).empty());
  const auto makespan = [&](const std::vector<plan::Order>& orders) {
    return timetable_of(toy.classes(), orders, toy.costs(), options).makespan;
  };
  EXPECT_LT(makespan(policy->orders(toy.classes(), options)),
            makespan(make_policy("program")->orders(toy.classes(), options)));
  const std::vector<plan::Order> judged = of_file("simulates")->orders(toy.classes(), options);
  const double step = makespan(judged);
  std::int64_t scratch = 0;
  for (std::size_t k = 0; k < judged.size(); ++k)
    scratch = std::max(scratch, plan::make_plan(toy.classes()[k], judged[k], "simulated").scratch_bytes);
  EXPECT_EQ(judged[2].reasons.at(judged[2].sequence[0].reason).text,
            fmt::format("{:.6f} {:.6f} {}", step, step, scratch));
  const auto refused = [&](const std::string& text) {
    return testing::message_of<UserError>([&] { (void)of_file(text)->orders(toy.classes(), options); });
  };
  EXPECT_NE(refused("first_alone").find("tasks of class 0"), std::string::npos) << refused("first_alone");
  EXPECT_NE(refused("first_stream").find("can't run task"), std::string::npos) << refused("first_stream");
  EXPECT_NE(refused("between_classes").find("same class"), std::string::npos) << refused("between_classes");
}

TEST_F(PythonPolicies, SeesTheWholeProblem) {
  const auto graph = testing::summed_step();
  const plan::Order order = testing::order_of(*of_file("sees"), *graph, {.memory_limit = 4096, .seed = 7});
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason).text,
            "a,r,b compute0,data write 256 limit 4096 seed 7 edges 0>1,1>2 readonly");
}

TEST_F(PythonPolicies, LateAnswersAreRefused) {
  EXPECT_NE(refusal_of_policy("endless:seconds=0.5").find("endless has no answer after 0.5 seconds"),
            std::string::npos);
  EXPECT_NE(refusal_of_policy("late_simulations:seconds=1").find("no answer after 1 seconds"), std::string::npos);
}

TEST_F(PythonPolicies, WrongAnswersAreRefused) {
  struct Case {
    const char *text, *part;
  };
  for (const Case& wrong : {Case{"raises", "ValueError: no idea (line "}, Case{"nothing", "it returns None"},
                            Case{"too_short", "sequence has shape (2,)"}, Case{"twice", "is in the sequence twice"},
                            Case{"backwards", "contradicts an edge"}, Case{"unknown", "isn't an index of the 3 tasks"},
                            Case{"negative", "negative entry -1"}, Case{"fractions", "type float64"},
                            Case{"wrong_stream", "can't run task"}, Case{"exits", "ended with exit code 3"},
                            Case{"crashes", "ended by signal"}, Case{"babbles", "writes to Weft's own pipe"},
                            Case{"few_reasons", "1 reasons"}, Case{"wrong_edge", "contradicts its sequence"},
                            Case{"changes_costs", "ValueError"}, Case{"liar", "contradicts an edge"},
                            Case{"missing", "no function or class missing"}, Case{"NoOrder", "no method order"},
                            Case{"longest_way:speed=3", "TypeError"}}) {
    EXPECT_NE(refusal_of_policy(wrong.text).find(wrong.part), std::string::npos)
        << wrong.text << ": " << refusal_of_policy(wrong.text);
  }
}

TEST_F(PythonPolicies, TextsWithoutAMeaningAreRefusedAtOnce) {
  TrustedLibraries libraries;
  libraries.trust(kFile);
  libraries.trust("missing.py:x");
  for (const std::string& text :
       {kFile, kFile + ":", kFile + ":longest_way:seconds=0", kFile + ":longest_way:x", std::string("missing.py:x")}) {
    EXPECT_THROW(make_policy(text, libraries), UserError) << text;
  }
  EXPECT_THROW(make_policy(kFile + ":longest_way"), UserError) << "not named by the command line";
}

/// A folder that is the working folder as long as this object lives.
struct WorkingFolder {
  testing::TemporaryFolder folder;
  std::filesystem::path before = std::filesystem::current_path();

  WorkingFolder() { std::filesystem::current_path(folder.path()); }
  ~WorkingFolder() { std::filesystem::current_path(before); }
};

// Modules that Weft's program, NumPy or a policy may import, each of which tells that it ran.
TEST_F(PythonPolicies, NothingOfTheWorkingFolderStandsInForAModule) {
  const WorkingFolder here;
  const std::vector<std::string> modules = {"json",   "mmap",   "types",      "traceback", "importlib", "ctypes",
                                            "signal", "random", "statistics", "numpy",     "weft",      "typing"};
  for (const std::string& module : modules) {
    here.folder.write(module + ".py", fmt::format("open('{}.ran', 'w')\n", module));
  }
  here.folder.write("beside.py", "WORD = 'beside'\n");
  here.folder.write("mine.py",
                    "import json, random, statistics\nimport numpy\nfrom weft import Order\nfrom beside import WORD\n"
                    "def mine(problem):\n"
                    "    return Order(range(len(problem)), reasons=[json.dumps(WORD)] * len(problem))\n");
  const auto graph = testing::summed_step();
  EXPECT_EQ(testing::order_of(*of_file("longest_way"), *graph).sequence.size(), graph->tasks().size());
  const plan::Order order = testing::order_of(*python_policy("mine.py", "mine"), *graph);
  EXPECT_EQ(order.reasons.at(order.sequence[0].reason).text, "\"beside\"");
  for (const std::string& module : modules) {
    EXPECT_FALSE(std::filesystem::exists(here.folder.path(module + ".ran"))) << module;
  }
}

TEST_F(PythonPolicies, RunWithTheInterpreterThatIsGiven) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path own = folder.write(
      "python", fmt::format("#!/bin/sh\necho asked >> '{}'\nexec python3 \"$@\"\n", folder.path("asked").string()));
  std::filesystem::permissions(own, std::filesystem::perms::owner_all);
  const auto graph = testing::summed_step();
  EXPECT_EQ(testing::order_of(*python_policy(kFile, "longest_way", own.string()), *graph).sequence.size(),
            graph->tasks().size());
  EXPECT_EQ(testing::TemporaryFolder::read(folder.path("asked")), "asked\n");
  EXPECT_THROW(testing::order_of(*python_policy(kFile, "longest_way", folder.path("none").string()), *graph),
               UserError);
}

}  // namespace
}  // namespace weft::policy
