// Plans as files: written, read back, refused, replayed and compared.
#include "runtime/plan/plan_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "runtime/plan/plan_difference.h"
#include "runtime/policy/builtin/file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/base/messages.h"
#include "tests/base/temporary_folder.h"
#include "tests/runtime/order_of.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::plan {
namespace {

std::shared_ptr<const graph::Graph> toy_step() {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64), z = toy.tensor("z", 64, graph::Role::parameter);
  toy.compute("a", {graph::write(x)});
  toy.collective("r", graph::Channel::data, {graph::read_write(x)}, 64);
  toy.compute("b", {graph::write(y)});
  toy.collective("s", graph::Channel::data, {graph::read_write(y)}, 64);
  toy.compute("c", {graph::read(x), graph::read(y), graph::write(z)});
  return toy.build();
}

PlanFile toy_file() {
  return {filed(policy::compile_plan(toy_step(), *policy::make_policy("program")), {})};
}

TEST(PlanFile, IsReadBackAsItWasWritten) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto graph = testing::random_graph(seed);
    const testing::RandomPolicy policy(seed, 2);
    const policy::PolicyOptions options{.compute_streams = 2};
    const Plan plan = make_plan(graph, testing::order_of(policy, *graph, options), policy.name());
    const PlanFile file = {filed(plan, parse_rewrites("bucket=64;reshard"))};
    EXPECT_EQ(parse_plan_file(to_json(file), "plan.json"), file);
    const Plan again = make_plan(graph, order_of(file.front(), *graph, "plan.json", {}), "again");
    EXPECT_EQ(again.fingerprint, plan.fingerprint);
    EXPECT_EQ(again.sequence, plan.sequence);
  }
}

TEST(PlanFile, EveryTruncationIsRefused) {
  const std::string text = to_json(toy_file());
  for (std::size_t size = 0; size + 2 < text.size(); ++size) {
    EXPECT_THROW(parse_plan_file(text.substr(0, size), "plan.json"), UserError) << size;
  }
}

TEST(PlanFile, WrongPartsAreNamed) {
  const std::string text = to_json(toy_file());
  struct Case {
    const char *from, *to, *part;
  };
  for (const Case& bad :
       {Case{"\"version\":1", "\"version\":3", "version 3"}, Case{"\"version\":1", "\"version\":\"1\"", "version"},
        Case{"weft-plan", "weft-graph", "format"}, Case{"\"policy\":\"program\"", "\"policy\":7", "policy"},
        Case{"\"rewrites\":\"\"", "\"rewrites\":\"buckt\"", "write bucket"},
        Case{"\"task\":\"b\"", "\"task\":\"a\"", "sequence[2].task"},
        Case{"\"task\":\"b\"", "\"task\":[[[[[[1]]]]]]", "deep"},
        Case{"\"task\":\"b\"", "\"task\":null", "sequence[2].task"},
        Case{"\"stream\":\"data\"", "\"stream\":\"dat\"", "sequence[1].stream"},
        Case{"\"channel\":\"data\"", "\"channel\":\"w\"", "streams[1].channel"},
        Case{"{\"name\":\"compute0\"}", "{\"name\":\"data\"}", "streams[1].name"},
        Case{"\"scratch_bytes\":", "\"scratch_bytes\":-", "plan.scratch_bytes"},
        Case{"\"graph\":{\"fingerprint\":\"0x", "\"graph\":{\"fingerprint\":\"0X", "graph.fingerprint"},
        Case{"\"added_edges\":[]", "\"added_edges\":{}", "added_edges"},
        Case{"\"added_edges\":[]", "\"added_edges\":[],\"more\":1", "more"},
        Case{"\"added_edges\":[]", "\"policy\":\"x\",\"added_edges\":[]", "twice"}}) {
    std::string changed = text;
    const std::size_t at = changed.find(bad.from);
    ASSERT_NE(at, std::string::npos) << bad.from;
    changed.replace(at, std::string(bad.from).size(), bad.to);
    EXPECT_TRUE(refuses([&] { parse_plan_file(changed, "plan.json"); }, {bad.part}));
  }
  EXPECT_TRUE(refuses([] { read_plan_file("/nowhere/plan.json"); }, {"/nowhere/plan.json"}));
}

TEST(PlanFile, AnotherGraphIsRefusedByItsFirstDifference) {
  const auto graph = toy_step();
  const auto refuse = [&](const auto& change, const std::string& part) {
    PlanFile file = toy_file();
    change(file.front());
    EXPECT_TRUE(refuses([&] { order_of(file.front(), *graph, "plan.json", {}); }, {part}));
  };
  refuse([](FiledPlan& f) { f.sequence[2].task = "other"; }, "task 'other' of the file is not in this graph");
  refuse([](FiledPlan& f) { f.sequence.pop_back(); }, "task 'c' of this graph is not in the file");
  refuse([](FiledPlan& f) { std::swap(f.sequence[0], f.sequence[1]); }, "contradicts an edge of the graph");
  refuse([](FiledPlan& f) { f.sequence[0].stream = 1; }, "task 'a' is on stream data, but belongs on a compute stream");
  refuse([](FiledPlan& f) { f.sequence[1].stream = 0; },
         "task 'r' is on stream compute0, but belongs on the stream of");
  refuse([](FiledPlan& f) { f.added_edges.push_back({"c", "a"}); }, "its edge from 'c' to 'a' contradicts its order");
  refuse([](FiledPlan& f) { f.added_edges.push_back({"c", "q"}); }, "task 'q' of the file is not in this graph");
}

TEST(FilePolicy, ReplaysAPlanAndLeavesOtherGraphsInProgramOrder) {
  const auto graph = toy_step();
  PlanFile stored_file = toy_file();
  FiledPlan& file = stored_file.front();
  std::swap(file.sequence[1], file.sequence[2]);  // b before r
  file.added_edges.push_back({"a", "b"});
  const testing::TemporaryFolder folder;
  const std::string stored = folder.write("plan.json", to_json(stored_file));
  const auto policy = policy::make_policy("file:" + stored);
  EXPECT_EQ(policy->name(), "file:" + stored);
  const Plan plan = policy::compile_plan(graph, *policy);
  EXPECT_EQ(filed(plan, {}).sequence, file.sequence);
  EXPECT_EQ(filed(plan, {}).added_edges, file.added_edges);
  const auto other = testing::random_graph(4);
  EXPECT_EQ(testing::order_of(*policy, *other), testing::order_of(*policy::make_policy("program"), *other));
}

TEST(FilePolicy, AppliesTheRewritesThatAreStillToBeDone) {
  testing::ToyGraph toy;
  const graph::View x = toy.tensor("x", 64, graph::Role::parameter), w = toy.tensor("w", 64, graph::Role::workspace);
  toy.compute("a", {graph::write(x)});
  toy.add("r", graph::AllReduce{graph::Channel::data, 2, 64},
          {graph::read_write(x), graph::write({w.tensor, 0, 1, 32, 32})});
  const auto graph = toy.build();
  const std::vector<Rewrite> both = parse_rewrites("split-collective=128;ar-to-rs-ag");
  const testing::TemporaryFolder folder;
  const std::string stored = folder.write(
      "plan.json", to_json({filed(policy::compile_plan(graph, *policy::make_policy("program"), {}, both), both)}));
  const auto policy = policy::make_policy("file:" + stored);
  const std::vector<std::string> expected = {"a", "r.reduce_scatter", "r.all_gather", "r#2.reduce_scatter",
                                             "r#2.all_gather"};
  for (std::size_t chosen = 0; chosen <= both.size(); ++chosen) {
    const Plan plan = policy::compile_plan(graph, *policy, {}, std::span(both).first(chosen));
    EXPECT_EQ(testing::names_of(*plan.graph), expected) << chosen;
  }
}

// Weights are packed once, as the file says, whether or not the configuration packs too.
TEST(FilePolicy, PacksTheWeightsThatTheFilePacks) {
  testing::ToyGraph toy;
  const graph::View w = toy.tensor("w", 64, graph::Role::parameter), x = toy.tensor("x", 512, graph::Role::input);
  for (const char* name : {"a", "b", "c"}) {
    const graph::View y = toy.tensor(std::string(name) + ".y", 512);
    toy.add(name, graph::Gemm{64, 8, 8},
            {graph::read({x.tensor, 0, 64, 8, 8}), graph::read({w.tensor, 0, 8, 8, 8}), graph::write(y)});
  }
  const auto graph = toy.build();
  const std::vector<Rewrite> packed = {PackWeights{2}}, never = {PackWeights{9}};
  const Plan plan = policy::compile_plan(graph, *policy::make_policy("program"),
                                         {.weight_layouts = &execute::cpu_weight_layouts()}, packed);
  const testing::TemporaryFolder folder;
  const std::string stored = folder.write("plan.json", to_json({filed(plan, packed)}));
  const auto policy = policy::make_policy("file:" + stored);
  for (const std::vector<Rewrite>& chosen : {std::vector<Rewrite>(), packed, never}) {
    EXPECT_EQ(policy::compile_plan(graph, *policy, {.weight_layouts = &execute::cpu_weight_layouts()}, chosen)
                  .graph->fingerprint(),
              plan.graph->fingerprint());
  }
}

// A file of several classes has version 2; its replay orders every stage as it was.
TEST(FilePolicy, ReplaysThePlansOfAPipeline) {
  for (const std::string name : {"1f1b", "interleaved:chunks=2", "zb-v"}) {
    const testing::PipelineToy toy(testing::shaped_for(name, {.stages = 2, .micro_batches = 4, .world = true}));
    const std::vector<Plan> plans = testing::checked_plans(toy.classes(), name);
    PlanFile file;
    for (const Plan& plan : plans) file.push_back(filed(plan, {}));
    EXPECT_EQ(parse_plan_file(to_json(file), "plan.json"), file) << name;
    const testing::TemporaryFolder folder;
    const std::string stored = folder.write("plan.json", to_json(file));
    const auto policy = policy::make_policy("file:" + stored);
    EXPECT_EQ(policy->chunks(), policy::make_policy(name)->chunks());
    const std::vector<Plan> again = policy::compile(toy.classes(), *policy);
    for (std::size_t k = 0; k < plans.size(); ++k) EXPECT_EQ(filed(again[k], {}).sequence, file[k].sequence) << name;
    EXPECT_TRUE(difference_of(file, file).same());
    PlanFile other = file;
    std::swap(other[1].sequence.front().task, other[1].sequence.back().task);
    const PlanDifference difference = difference_of(file, other);
    EXPECT_FALSE(difference.same());
    const std::string stream =
        difference.moved.empty() ? difference.other_stream.at(0).to_stream : difference.moved[0].stream;
    EXPECT_EQ(stream.find("stage 1 "), 0U) << stream;
    EXPECT_THROW((void)policy->orders(std::vector(1, toy.classes()[0]), {}), UserError);
  }
}

TEST(PlanDifference, SaysWhatMoved) {
  const FiledPlan a = toy_file().front();
  EXPECT_EQ(describe(difference_of({a}, {a})), "");
  FiledPlan b = a;
  b.policy = "mine";
  EXPECT_EQ(describe(difference_of({a}, {b})), "");  // another name for the same order
  b.streams.push_back({"compute1", true, graph::Channel::world});
  b.sequence[4].stream = 2;
  b.sequence = {b.sequence[2], b.sequence[3], b.sequence[0], b.sequence[1], b.sequence[4]};
  b.added_edges.push_back({"a", "b"});
  b.scratch_bytes += 64;
  const std::string text = describe(difference_of({a}, {b}));
  for (const char* part :
       {"policy: program → mine", "scratch bytes: ", "1 task on another stream:\n  c: compute0 → compute1",
        "1 of the tasks on compute0 changed places:", "1 of the collectives on data changed places:",
        "added edges only in the second plan: 1\n  a → b"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " not in\n" << text;
  }
  FiledPlan c = a;
  c.sequence[1].task = "r2";
  EXPECT_NE(describe(difference_of({a}, {c}))
                .find("1 task only in the first plan:\n  r\n1 task only in the second plan:\n  r2"),
            std::string::npos)
      << describe(difference_of({a}, {c}));
}

}  // namespace
}  // namespace weft::plan
