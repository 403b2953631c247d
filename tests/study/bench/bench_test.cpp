// OverlapBench: instances of a folder, rows, what is known best, scores.
#include "study/bench/bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "study/bench/bench_figures.h"
#include "tests/base/temporary_folder.h"

namespace weft::study {
namespace {

constexpr const char* kTwoRanks = R"(# Two ranks. More is not told.
model = "tiny"
grid = "z=2"
machine = "laptop"
global-batch = 4
)";

constexpr const char* kStages = R"(# Two stages.
model = "tiny"
grid = "pipe=2"
machine = "laptop"
global-batch = 4
micro-batch = 1
)";

constexpr const char* kGraph = R"({"format":"weft open graph","version":1,"name":"toy","source":"test","world":1,
"channels":[{"name":"data","group_size":2}],
"classes":[{"name":"","ranks":[0],"streams":[{"name":"compute"}],"tasks":[
{"name":"a","kind":"compute","ns":10},
{"name":"r","kind":"collective","channel":0,"ns":30},
{"name":"b","kind":"compute","ns":20}],"edges":[{"from":0,"to":1}]}]})";

std::vector<policy::NamedPolicy> policies(std::initializer_list<const char*> names) {
  std::vector<policy::NamedPolicy> all;
  for (const char* name : names) all.push_back(policy::named_policy(name));
  return all;
}

std::vector<BenchRow> rows_of(const std::vector<BenchInstance>& instances, std::initializer_list<const char*> names,
                              int threads = 1) {
  CertificateBook book;
  const auto all = policies(names);
  return run(experiment_of(instances, all, threads, book));
}

class Bench : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("two-ranks.toml", kTwoRanks);
    folder_.write("stages.toml", kStages);
    folder_.write("README.md", "no instance");
  }
  std::vector<BenchInstance> instances(const std::vector<std::string>& wanted = {}) const {
    std::vector<BenchInstance> all = bench_instances(folder_.path(), wanted);
    for (BenchInstance& each : all) each.step = step_of(each);
    return all;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Bench, InstancesAreTheFilesOfAFolder) {
  const std::vector<BenchInstance> all = instances();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "stages");
  EXPECT_EQ(all[1].name, "two-ranks");
  EXPECT_EQ(all[1].about, "Two ranks. More is not told.");
  EXPECT_EQ(instances({"stages"}).size(), 1U);
  EXPECT_THROW(instances({"stagse"}), UserError);
  EXPECT_THROW(bench_instances(folder_.path() / "nothing"), UserError);
  folder_.write("stages.graph.json", kGraph);
  EXPECT_THROW(instances(), UserError) << "two files of one name";
}

TEST_F(Bench, EachPolicyRunsOnTheStepsThatItOrders) {
  const std::vector<BenchRow> rows = rows_of(instances(), {"program", "fsdp", "1f1b"}, 2);
  std::vector<std::pair<std::string, std::string>> names;
  for (const BenchRow& row : rows) {
    EXPECT_TRUE(row.possible()) << row.reason;
    EXPECT_GE(row.step_ns, row.bound_ns) << row.policy;
    EXPECT_GT(row.bound_ns, 0);
    EXPECT_GT(row.tasks, 0);
    names.emplace_back(row.instance, row.policy);
  }
  using Names = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(names.size(), 4U);
  EXPECT_EQ((Names{names[0], names[2], names[3]}),
            (Names{{"stages", "program"}, {"two-ranks", "program"}, {"two-ranks", "fsdp"}}));
}

TEST_F(Bench, ThreadsDontChangeTheResult) {
  const auto csv = [&](int threads) {
    return row_columns().csv(rows_of(instances(), {"program", "serial", "zb-h1"}, threads));
  };
  EXPECT_EQ(csv(1), csv(3));
}

TEST_F(Bench, ARefusalIsARow) {
  folder_.write("small.toml", std::string(kTwoRanks) + "memory = \"1KB\"\n");
  const std::vector<BenchRow> rows = rows_of(instances({"small"}), {"program"});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].possible());
  EXPECT_EQ(scores_of(rows, {})[0].solved, 0);
}

TEST_F(Bench, AStepIsKnownByAllThatItsLengthDependsOn) {
  const auto fingerprint = [&](const std::string& name) { return instances({name})[0].step.fingerprint; };
  const std::uint64_t before = fingerprint("two-ranks");
  EXPECT_EQ(fingerprint("two-ranks"), before);
  folder_.write("two-ranks.toml", std::string(kTwoRanks) + "seed = 7\n");
  EXPECT_EQ(fingerprint("two-ranks"), before);
  for (const char* change : {"seq-len = 64\n", "memory = \"1GB\"\n", "streams = 2\n"}) {
    folder_.write("two-ranks.toml", std::string(kTwoRanks) + change);
    EXPECT_NE(fingerprint("two-ranks"), before) << change;
  }
  EXPECT_NE(fingerprint("stages"), before);
  EXPECT_EQ(instances({"stages"})[0].step.classes, 2U);
}

TEST_F(Bench, ARowStandsForItsPolicyOnItsStep) {
  std::vector<BenchRow> rows = rows_of(instances({"two-ranks"}), {"program"});
  BenchRow point{.instance = "two-ranks", .policy = "program", .step = rows[0].step};
  EXPECT_TRUE(stands(rows, point));
  rows[0].step ^= 1;
  EXPECT_FALSE(stands(rows, point)) << "of another step";
  rows[0].step ^= 1;
  point.policy = "lhs";
  EXPECT_FALSE(stands(rows, point));
  point.policy = rows[0].policy = "mine.py:Mine";
  EXPECT_FALSE(stands(rows, point)) << "the file may have changed";
}

TEST_F(Bench, BoundsAreComputedAgainWithoutPolicies) {
  for (const BenchInstance& instance : instances()) {
    const std::vector<BenchRow> rows = rows_of({instance}, {"lhs", "ddp-bucket", "zb-v"});
    ASSERT_FALSE(rows.empty());
    std::vector<BenchRow> again = rows;
    for (BenchRow& row : again) row.bound_ns /= 2, row.proof = 0;
    again.push_back(again[0]);
    again.back().graph ^= 1;
    CertificateBook book;
    refresh_bounds(instance, again, book);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(again[i].bound_ns, rows[i].bound_ns) << rows[i].policy;
    EXPECT_EQ(again.back().bound_ns, rows[0].bound_ns / 2) << "of a graph that only its policy's search finds";
    EXPECT_EQ(again.back().proof, 0);
    EXPECT_EQ(again[0].proof, rows[0].proof);
  }
}

TEST_F(Bench, RowsGoThroughTheirFiles) {
  folder_.write("small.toml", std::string(kTwoRanks) + "memory = \"1KB\"\n");
  std::vector<BenchRow> rows = rows_of(instances(), {"program", "lhs"});
  for (BenchRow& row : rows) row.planning_ms = 1.5;
  const std::string csv = row_columns().csv(rows), planning = planning_csv(rows);
  std::vector<BenchRow> again = row_columns().read(csv, "results.csv", "");
  enter_planning(again, planning_columns().read(planning, "planning.csv", ""));
  ASSERT_EQ(again.size(), rows.size());
  EXPECT_EQ(row_columns().csv(again), csv);
  EXPECT_EQ(planning_csv(again), planning);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(again[i].step, rows[i].step);
    EXPECT_EQ(again[i].graph, rows[i].graph);
    EXPECT_EQ(again[i].possible(), rows[i].possible());
    EXPECT_EQ(again[i].step_ns, rows[i].step_ns);
    EXPECT_EQ(again[i].bound_ns, rows[i].bound_ns);
  }
}

TEST(BenchRows, AreInTheOrderOfPoliciesAndOneEach) {
  std::vector<BenchRow> rows;
  for (const char* policy : {"mine.py:B", "lhs", "program", "lhs"}) {
    BenchRow row{.instance = "a", .policy = policy};
    row.step_ns = static_cast<double>(rows.size());
    enter_row(rows, row);
  }
  sort_rows(rows);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].policy, "program");
  EXPECT_EQ(rows[1].policy, "lhs");
  EXPECT_EQ(rows[1].step_ns, 3) << "the last that was entered";
  EXPECT_EQ(rows[2].policy, "mine.py:B");
}

const std::vector<BenchInstance> kTwo = {{"a", "a.toml", "", {.fingerprint = 1}},
                                         {"b", "b.toml", "", {.fingerprint = 2}}};

BenchRow solved_row(const char* instance, const char* policy, double step, double bound) {
  const std::uint64_t of = *instance == 'a' ? 1 : 2;
  return {.instance = instance, .policy = policy, .step = of, .graph = of, .step_ns = step, .bound_ns = bound};
}

TEST(BestKnown, IsTheShortestStepAndTheLeastBoundOfItsGraphs) {
  std::vector<BenchRow> rows = {solved_row("a", "x", 30, 20), solved_row("a", "y", 25, 21), solved_row("b", "x", 9, 9)};
  std::vector<BestKnown> best = best_of(kTwo, rows, {});
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].policy, "y");
  EXPECT_EQ(best[0].step_ns, 25);
  EXPECT_EQ(best[0].bound_ns, 21) << "two bounds of one graph";
  EXPECT_DOUBLE_EQ(best[0].gap(), 25.0 / 21 - 1);
  EXPECT_EQ(best[1].gap(), 0);
  rows[0].graph = 7;
  best = best_of(kTwo, rows, {});
  EXPECT_EQ(best[0].bound_ns, 20) << "of another graph of the step";
  EXPECT_EQ(best[0].graph, 7U);
}

TEST(BestKnown, EarlierRunsCountForTheSameStepAlone) {
  const std::vector<BenchRow> rows = {solved_row("a", "x", 30, 20), solved_row("b", "x", 9, 9)};
  const std::vector<BestKnown> best =
      best_of(kTwo, rows, {{"a", 1, 24, "search", 1, 22}, {"b", 7, 5, "old", 7, 5}, {"c", 3, 1, "other", 3, 1}});
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].policy, "search");
  EXPECT_EQ(best[0].bound_ns, 22) << "a bound that a search proved stays";
  EXPECT_EQ(best[1].policy, "x") << "another step than before";
  EXPECT_EQ(best[2].policy, "other");
}

TEST(BestKnown, GoesThroughItsFile) {
  const std::vector<BestKnown> best = {{"a", 77, 1234.5678, "anneal:iterations=9,seed=1", 78, 1000}};
  const std::string text = best_columns().csv(best);
  const std::vector<BestKnown> again = best_columns().read(text, "best.csv", "");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].step, 77U);
  EXPECT_EQ(again[0].graph, 78U);
  EXPECT_NEAR(again[0].step_ns, 1234.5678, 1e-9);
  EXPECT_EQ(again[0].policy, best[0].policy);
  EXPECT_EQ(best_columns().csv(again), text);
  const std::string head = text.substr(0, text.find('\n') + 1), number = "0x0000000000000001";
  for (const std::string& wrong :
       {head + "a,0x1,1,x," + number + ",1\n", head + "a," + number + ",x,x," + number + ",1\n",
        head + "a," + number + ",-1,x," + number + ",1\n", head + "a," + number + ",1,x,1,1\n",
        head + "a," + number + ",1,x," + number + "\n"}) {
    EXPECT_THROW(best_columns().read(wrong, "best.csv", ""), UserError) << wrong;
  }
}

TEST(PolicyScores, AreGeometricMeansOverSolvedInstances) {
  const std::vector<BenchRow> rows = {solved_row("a", "x", 20, 10),
                                      solved_row("a", "y", 10, 10),
                                      solved_row("b", "x", 10, 5),
                                      solved_row("b", "y", 20, 5),
                                      {.instance = "a", .policy = "z", .reason = "no plan"}};
  const std::vector<PolicyScore> scores = scores_of(rows, best_of(kTwo, rows, {}));
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_NEAR(scores[0].mean_ratio, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(scores[0].worst_ratio, 2);
  EXPECT_EQ(scores[0].best, 1);
  EXPECT_EQ(scores[0].ratios, (std::vector<double>{1, 2}));
  EXPECT_EQ(scores[2].policy, "z");
  EXPECT_EQ(scores[2].instances, 1);
}

TEST(PolicyScores, TellBaselines) {
  std::vector<BenchRow> rows;
  for (const char* instance : {"a", "b", "c"}) {
    rows.push_back(solved_row(instance, "lhs", 20, 10));
    rows.push_back(solved_row(instance, "serial", *instance == 'b' ? 30 : 20, 10));
    rows.push_back(solved_row(instance, "random", *instance == 'c' ? 19 : 30, 10));
    rows.push_back(solved_row(instance, "portfolio", 10, 10));  // searches, so it makes nothing a baseline
  }
  const auto dominator = [&](const char* policy) {
    const std::vector<PolicyScore> scores = scores_of(rows, {});
    return std::ranges::find(scores, policy, &PolicyScore::policy)->dominated_by;
  };
  EXPECT_EQ(dominator("serial"), "lhs");
  EXPECT_EQ(dominator("random"), "");
  EXPECT_EQ(dominator("lhs"), "");
  rows.erase(rows.begin());  // lhs on instance a
  EXPECT_EQ(dominator("serial"), "");
}

TEST(BenchOutput, HasEveryPolicyAndInstance) {
  BenchResult result{kTwo, {solved_row("a", "x", 2e6, 1e6), solved_row("a", "y", 1e6, 1e6)}, {}};
  result.best = best_of(kTwo, result.rows, {});
  EXPECT_EQ(row_columns(result.best).csv(result.rows),
            "instance,step,policy,graph,tasks,step_ms,bound_ms,above_best,exposed_ms,memory_bytes,reason\n"
            "a,0x0000000000000001,x,0x0000000000000001,0,2,1,1.000000,0,0,\n"
            "a,0x0000000000000001,y,0x0000000000000001,0,1,1,0.000000,0,0,\n");
  const std::string markdown = bench_markdown(result);
  EXPECT_NE(markdown.find("100.0 %"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("no policy has a step"), std::string::npos) << "instance b";
  const std::string svg = results_of(result).picture().svg();
  EXPECT_NE(svg.find("share of instances"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
