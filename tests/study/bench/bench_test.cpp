// OverlapBench: instances of a folder, rows, what is known best, scores.
#include "study/bench/bench.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "study/bench/bench_output.h"
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

class Bench : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("two-ranks.toml", kTwoRanks);
    folder_.write("stages.toml", kStages);
    folder_.write("README.md", "no instance");
  }
  std::vector<BenchInstance> instances(const std::vector<std::string>& wanted = {}) const {
    return bench_instances(folder_.path(), wanted);
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
  const std::vector<BenchRow> rows =
      run_bench(instances(), policies({"program", "fsdp", "1f1b"}), 2, [](const Status&) {});
  std::vector<std::pair<std::string, std::string>> names;
  for (const BenchRow& row : rows) {
    EXPECT_TRUE(row.solved()) << row.reason;
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
    BenchResult result{instances(), {}, {}};
    result.rows = run_bench(result.instances, policies({"program", "serial", "zb-h1"}), threads, [](const Status&) {});
    return bench_csv(result);
  };
  EXPECT_EQ(csv(1), csv(3));
}

TEST_F(Bench, ARefusalIsARow) {
  folder_.write("small.toml", std::string(kTwoRanks) + "memory = \"1KB\"\n");
  const std::vector<BenchRow> rows = run_bench(instances({"small"}), policies({"program"}), 1, [](const Status&) {});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].solved());
  EXPECT_EQ(scores_of(rows, {})[0].solved, 0);
}

TEST_F(Bench, AStepIsKnownByItsGraphAndCosts) {
  const std::uint64_t before = step_fingerprint(instances({"two-ranks"})[0]);
  EXPECT_EQ(step_fingerprint(instances({"two-ranks"})[0]), before);
  folder_.write("two-ranks.toml", std::string(kTwoRanks) + "seed = 7\n");
  EXPECT_EQ(step_fingerprint(instances({"two-ranks"})[0]), before);
  folder_.write("two-ranks.toml", std::string(kTwoRanks) + "seq-len = 64\n");
  EXPECT_NE(step_fingerprint(instances({"two-ranks"})[0]), before);
  EXPECT_NE(step_fingerprint(instances({"stages"})[0]), before);
}

const std::vector<BenchInstance> kTwo = {{"a", "a.toml"}, {"b", "b.toml"}};
const std::vector<std::uint64_t> kSteps = {1, 2};

BenchRow row_of(const char* instance, const char* policy, double step, double bound) {
  return {.instance = instance, .policy = policy, .step_ns = step, .bound_ns = bound};
}

TEST(BestKnown, IsTheShortestStepAndTheLeastBound) {
  const std::vector<BenchRow> rows = {row_of("a", "x", 30, 20), row_of("a", "y", 25, 21), row_of("b", "x", 9, 9)};
  const std::vector<BestKnown> best = best_of(kTwo, kSteps, rows, {});
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].policy, "y");
  EXPECT_EQ(best[0].step_ns, 25);
  EXPECT_EQ(best[0].bound_ns, 20);
  EXPECT_DOUBLE_EQ(best[0].gap(), 0.25);
  EXPECT_EQ(best[1].gap(), 0);
}

TEST(BestKnown, EarlierRunsCountForTheSameStepAlone) {
  const std::vector<BenchRow> rows = {row_of("a", "x", 30, 20), row_of("b", "x", 9, 9)};
  const std::vector<BestKnown> best =
      best_of(kTwo, kSteps, rows, {{"a", 1, 24, "search", 20}, {"b", 7, 5, "old", 5}, {"c", 3, 1, "other", 1}});
  ASSERT_EQ(best.size(), 3U);
  EXPECT_EQ(best[0].policy, "search");
  EXPECT_EQ(best[1].policy, "x") << "another step than before";
  EXPECT_EQ(best[2].policy, "other");
}

TEST(BestKnown, GoesThroughItsFile) {
  const std::vector<BestKnown> best = {{"a", 77, 1234.5678, "anneal:iterations=9,seed=1", 1000}};
  const std::vector<BestKnown> again = parse_best(best_csv(best), "best.csv");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].step, 77U);
  EXPECT_NEAR(again[0].step_ns, 1234.5678, 1e-9);
  EXPECT_EQ(again[0].policy, best[0].policy);
  for (const char* wrong : {"", "a,b\n", "instance,step,step_ms,policy,bound_ms\na,0x1,1,x,1\n",
                            "instance,step,step_ms,policy,bound_ms\na,0x0000000000000001,x,x,1\n",
                            "instance,step,step_ms,policy,bound_ms\na,0x0000000000000001,-1,x,1\n"}) {
    EXPECT_THROW(parse_best(wrong, "best.csv"), UserError) << wrong;
  }
}

TEST(PolicyScores, AreGeometricMeansOverSolvedInstances) {
  const std::vector<BenchRow> rows = {row_of("a", "x", 20, 10),
                                      row_of("a", "y", 10, 10),
                                      row_of("b", "x", 10, 5),
                                      row_of("b", "y", 20, 5),
                                      {.instance = "a", .policy = "z", .reason = "no plan"}};
  const std::vector<PolicyScore> scores = scores_of(rows, best_of(kTwo, kSteps, rows, {}));
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_NEAR(scores[0].mean_ratio, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(scores[0].worst_ratio, 2);
  EXPECT_EQ(scores[0].best, 1);
  EXPECT_EQ(scores[0].ratios, (std::vector<double>{1, 2}));
  EXPECT_EQ(scores[2].policy, "z");
  EXPECT_EQ(scores[2].instances, 1);
}

TEST(BenchOutput, HasEveryPolicyAndInstance) {
  BenchResult result{kTwo, {row_of("a", "x", 2e6, 1e6), row_of("a", "y", 1e6, 1e6)}, {}};
  result.best = best_of(kTwo, kSteps, result.rows, {});
  EXPECT_EQ(bench_csv(result),
            "instance,policy,tasks,step_ms,bound_ms,above_best,exposed_ms,memory_bytes,reason\n"
            "a,x,0,2,1,1.000000,0,0,\na,y,0,1,1,0.000000,0,0,\n");
  const std::string markdown = bench_markdown(result);
  EXPECT_NE(markdown.find("100.0 %"), std::string::npos) << markdown;
  EXPECT_NE(markdown.find("no policy has a step"), std::string::npos) << "instance b";
  const std::string svg = performance_profile(result).svg();
  EXPECT_NE(svg.find("share of instances"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
