// The list of published runs and what is computed of errors.
#include "study/published/published_study.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/cost/machine.h"
#include "train/config/resolved_run.h"

namespace weft::study {
namespace {

std::vector<PublishedRun> all_runs() {
  return published_runs(cost::machine_folders());
}

TEST(PublishedRuns, AreDescribedWhole) {
  const std::vector<PublishedRun> runs = all_runs();
  ASSERT_GE(runs.size(), 20U);
  for (const PublishedRun& run : runs) {
    EXPECT_FALSE(run.source.empty()) << run.name;
    EXPECT_FALSE(run.where.empty()) << run.name;
    EXPECT_FALSE(run.unknown.empty()) << run.name;
    const train::ResolvedRun resolved = train::resolve(config_of(run), 0);
    EXPECT_EQ(resolved.config.grid.ranks(), run.ranks) << run.name;
    if (run.attention.empty()) continue;
    // A library that the machine has no points of leaves it as it is.
    const cost::Machine machine = machine_of(run);
    EXPECT_TRUE(std::ranges::all_of(machine.attention, [](const auto& point) { return point.library.empty(); }) ||
                run.machine == "mi250x")
        << run.name;
  }
}

TEST(PublishedRuns, AreHalvedByTheirNames) {
  std::map<Half, int> halves;
  for (const PublishedRun& run : all_runs()) {
    ++halves[run.half];
    EXPECT_TRUE(half_of(run.name) == Half::learn || run.half == Half::judge) << run.name;
  }
  EXPECT_GE(halves[Half::learn], 20);
  EXPECT_GE(halves[Half::judge], 20);
  // CRC-32C of these digits is 0xe3069283, of its standard's example.
  EXPECT_EQ(half_of("123456789"), Half::judge);
}

TEST(PublishedRuns, OnWhichTheModelWasTooFastAreJudged) {
  std::map<std::string, Half> halves;
  for (const PublishedRun& run : all_runs()) halves[run.name] = run.half;
  for (const char* name :
       {"mpt-h100-70b-64x2048", "mpt-h100-1b-8x2048", "mpt-h100-30b-8x8192", "mpt-h100-13b-8x16384",
        "mpt-h100-1b-8x32768", "torchtitan-h100-8b-8", "torchtitan-h100-tp-8b-64", "meta-405b-8192"}) {
    ASSERT_TRUE(halves.contains(name)) << name;
    EXPECT_EQ(halves.at(name), Half::judge) << name;
  }
}

constexpr const char* kFamily = R"([[family]]
name = "f"
group = "g"
source = "s"
machine = "hgx-h100"
machine-numbers = ["network.ports=4"]
attention = "flash-attention-1"
policy = "program"
settings = ["model=gpt2-124m", "dtype=bf16"]
unknown = ["much"]

[[family.run]]
name = "a"
ranks = 8
tokens = 1000
settings = ["grid=data=8", "global-batch=8"]
)";

TEST(PublishedRuns, AreReadWithTheirFamily) {
  const std::vector<PublishedRun> runs = parse_published_runs(kFamily, "list");
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].group, "g");
  EXPECT_EQ(runs[0].policy, "program");
  EXPECT_EQ(runs[0].settings.size(), 4U);
  EXPECT_EQ(machine_of(runs[0]).network_ports, 4);
  EXPECT_EQ(machine_of(runs[0], {"hgx-h100.network.ports=2", "frontier.network.ports=1"}).network_ports, 2);
  EXPECT_THROW(parse_published_runs(std::string(kFamily) + "wrong = 1\n", "list"), UserError);
  EXPECT_THROW(machine_of(runs[0], {"hgx-h100.network.ports"}), UserError);
  const std::string twice = std::string(kFamily) + "\n[[family.run]]\nname = \"a\"\nranks = 8\ntokens = 1\n";
  EXPECT_THROW(parse_published_runs(twice, "list"), UserError);
}

TEST(PublishedStudy, SimulatesARunWithAndWithoutRatesByShape) {
  const PublishedRun run = parse_published_runs(kFamily, "list")[0];
  const PublishedRow row = simulated_run(run, {});
  EXPECT_GT(row.tokens, 0);
  EXPECT_GT(row.plain, row.tokens);  // good products' rates for all are faster
  EXPECT_NEAR(row.error(), row.tokens / 1000 - 1, 1e-12);
  PublishedRun wrong = run;
  wrong.ranks = 4;
  EXPECT_THROW(simulated_run(wrong, {}), UserError);
}

TEST(PublishedStudy, SummarizesErrors) {
  const std::array predicted = {110.0, 70.0, 100.0, 130.0}, published = {100.0, 100.0, 100.0, 100.0};
  const ErrorSummary errors = summary_of(predicted, published);
  EXPECT_EQ(errors.runs, 4U);
  EXPECT_NEAR(errors.median, 0.2, 1e-12);  // of 0, 0.1, 0.3, 0.3
  EXPECT_NEAR(errors.bias, 0.05, 1e-12);   // of −0.3, 0, 0.1, 0.3
  EXPECT_NEAR(errors.within_20, 0.5, 1e-12);
  const std::array twice = {200.0, 50.0};
  EXPECT_NEAR(fitted_factor(twice, std::array{100.0, 25.0}), 0.5, 1e-12);
  EXPECT_NEAR(fitted_factor(twice, std::array{100.0, 100.0}), 1, 1e-12);
}

TEST(PublishedStudy, RanksPairsThatDiffer) {
  const std::array published = {100.0, 102.0, 200.0, 300.0};
  const Ranking ranking = ranking_of(std::array{10.0, 5.0, 20.0, 15.0}, published);
  EXPECT_EQ(ranking.pairs, 5U);  // 100 and 102 are the same
  EXPECT_EQ(ranking.right, 4U);  // 200 before 300 isn't
}

TEST(PublishedStudy, WritesItsRowsAndSummaries) {
  PublishedRow good{.run = parse_published_runs(kFamily, "list")[0], .tokens = 900, .plain = 2000};
  good.run.half = Half::learn;
  PublishedRow judged = good, failed = good;
  judged.run.name = "b";
  judged.run.half = Half::judge;
  judged.tokens = 1100;
  failed.reason = "no plan";
  const std::vector<PublishedRow> rows{good, judged, failed};
  const Results results = results_of(rows);
  const nlohmann::json found = nlohmann::json::parse(results.file("x.json"));
  EXPECT_NEAR(found.at("factor").get<double>(), 0.5, 1e-12);
  EXPECT_EQ(found.at("runs").size(), 3U);
  ASSERT_EQ(found.at("halves").size(), 6U);
  EXPECT_EQ(found.at("halves")[3].at("half"), "judge");
  EXPECT_NEAR(found.at("halves")[3].at("median_error").get<double>(), 0.1, 1e-12);
  EXPECT_NEAR(found.at("halves")[5].at("median_error").get<double>(), 0, 1e-12);
  EXPECT_EQ(std::ranges::count(results.file("x.csv"), '\n'), 4);
  EXPECT_NE(results.file("x.svg").find("<svg"), std::string::npos);
}

}  // namespace
}  // namespace weft::study
