// Comparisons written by hand: their statistics and their output.
#include "study/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/escape.h"
#include "tests/base/messages.h"

namespace weft::study {
namespace {

constexpr double kMs = 1e6;

simulate::Report report(const std::string& policy, double step_ms, double bound_ms, double exposed_ms) {
  simulate::Report report;
  report.policy.name = policy;
  report.simulation.step_ns = step_ms * kMs;
  report.simulation.ranks.emplace_back();
  report.simulation.ranks[0].contention_ns = 0.25 * kMs;
  report.bounds.critical_path = bound_ms / 2 * kMs;
  report.bounds.work = bound_ms / 4 * kMs;
  report.bounds.one_machine = bound_ms * kMs;
  simulate::ClassReport& own = report.classes.emplace_back();
  own.times.communication = 12 * kMs;
  own.times.exposed = exposed_ms * kMs;
  own.channels = {{"x", 8 * kMs, exposed_ms / 4 * kMs}, {"data", 4 * kMs, exposed_ms * 3 / 4 * kMs}};
  own.alone = {8 * kMs, 12 * kMs};
  own.memory.state = 3 << 20;
  report.planning_ms = 1.5;
  return report;
}

simulate::Report refused(const std::string& policy) {
  simulate::Report report;
  report.policy.name = policy;
  report.refusal = "it can't";
  return report;
}

std::vector<PolicyStep> steps(std::vector<simulate::Report> reports) {
  std::vector<PolicyStep> steps;
  for (simulate::Report& report : reports) steps.push_back({.report = std::move(report)});
  return steps;
}

Comparison comparison() {
  Comparison comparison;
  comparison.title = "A model";
  comparison.source = "thin air";
  comparison.steps = steps({report("serial", 20, 8, 12), refused("broken"), report("program", 10, 8, 3)});
  comparison.problem = {comparison.steps[0].report.bounds, comparison.steps[0].report.first().alone};
  return comparison;
}

MeasuredSteps measured(const std::vector<double>& ms) {
  MeasuredSteps steps;
  for (const double value : ms) steps.ns.push_back(value * kMs);
  steps.times = {{.communication = 6 * kMs, .exposed = 2 * kMs}};
  return steps;
}

Comparison measured_comparison() {
  Comparison all = comparison();
  all.steps[0].measured = measured({22, 18, 20, 21, 19});
  all.steps[2].measured = measured({8, 16, 12});
  return all;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MeasuredSteps, QuantilesLieBetweenSamples) {
  const MeasuredSteps steps = measured({40, 10, 20, 30});
  EXPECT_EQ(steps.median(), 25 * kMs);
  EXPECT_EQ(steps.quantile(0), 10 * kMs);
  EXPECT_EQ(steps.quantile(1), 40 * kMs);
  EXPECT_EQ(steps.quantile(0.25), 17.5 * kMs);
  EXPECT_EQ(measured({7}).quantile(0.9), 7 * kMs);
  EXPECT_EQ(MeasuredSteps().median(), 0);
}

TEST(RankedAlike, CountsPairsThatDifferEnough) {
  Comparison three;
  three.steps = steps({report("a", 10, 1, 0), report("b", 20, 1, 0), report("c", 30, 1, 0)});
  for (std::size_t i = 0; i < 3; ++i) three.steps[i].measured = measured({std::vector<double>{11, 25, 24}[i]});
  EXPECT_NEAR(ranked_alike(three, 0.03), 2.0 / 3, 1e-12);  // b and c are measured the other way round
  EXPECT_EQ(ranked_alike(three, 0.05), 1);                 // which differ by 4.2 %
  EXPECT_EQ(ranked_alike(three, 10), 1);                   // no pair is left
  three.steps[1].report = refused("b");
  EXPECT_EQ(ranked_alike(three, 0.03), 1);
}

TEST(RankedAlike, EqualSimulatedTimesRankNothing) {
  Comparison two;
  two.steps = steps({report("a", 10, 1, 0), report("b", 10, 1, 0)});
  two.steps[0].measured = measured({11}), two.steps[1].measured = measured({25});
  EXPECT_EQ(ranked_alike(two, 0.03), 0);
  std::swap(two.steps[0].measured, two.steps[1].measured);
  EXPECT_EQ(ranked_alike(two, 0.03), 0);
}

TEST(ParetoFront, KeepsWhatNoOtherBeatsInBoth) {
  const std::vector<LimitedPlan> front = pareto_front<LimitedPlan>({{"slow", 100, 50},
                                                                    {"small", 40, 70},
                                                                    {"fast", 200, 20},
                                                                    {"beaten", 150, 60},
                                                                    {"tie", 100, 55},
                                                                    {"same time", 300, 20}});
  ASSERT_EQ(front.size(), 3U);
  EXPECT_EQ(front[0].policy, "small");
  EXPECT_EQ(front[1].policy, "slow");
  EXPECT_EQ(front[2].policy, "fast");
  EXPECT_TRUE(pareto_front<LimitedPlan>({}).empty());
}

TEST(Comparison, TheTerminalsTable) {
  EXPECT_EQ(comparison_text(comparison(), TableStyle::terminal),
            "A model\n"
            "Costs: thin air.\n"
            "\n"
            "policy   step ms  speed-up  gap %  hidden %  exposed ms  overlap %  contention ms    memory  planning ms  "
            "exp. x  exp. data\n"
            "serial     20.00     1.000  150.0       0.0       12.00        0.0           0.25  3.00 MiB          1.5  "
            "  3.00       9.00\n"
            "program    10.00     2.000   25.0      83.3        3.00       75.0           0.25  3.00 MiB          1.5  "
            "  0.75       2.25\n"
            "\n"
            "No order can take less than 8.00 ms (critical path 4.00, work 2.00, one machine 8.00); computing alone "
            "takes 8.00 ms, communicating alone 12.00 ms.\n"
            "broken: no plan: it can't\n");
}

TEST(Comparison, TheMarkdownTable) {
  Comparison small = comparison();
  small.steps.erase(small.steps.begin() + 1);
  for (PolicyStep& step : small.steps)
    step.report.classes.front().channels.pop_back();  // with one channel, its column would equal "exposed ms"
  small.problem.bounds.energy = 7 * kMs;
  const std::string text = comparison_text(small, TableStyle::markdown);
  EXPECT_TRUE(
      has(text,
          "| policy  | step ms | speed-up | gap % | hidden % | exposed ms | overlap % | contention ms |   memory "
          "| planning ms |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
          "| serial  |   20.00 |    1.000 | 150.0 |      0.0 |      12.00 |       0.0 |          0.25 | 3.00 MiB "
          "|         1.5 |\n"
          "| program |   10.00 |    2.000 |  25.0 |     83.3 |       3.00 |      75.0 |          0.25 | 3.00 MiB "
          "|         1.5 |\n"))
      << text;
  EXPECT_TRUE(has(text, "one machine 8.00, cores 7.00)")) << text;
}

TEST(Comparison, MeasuredColumns) {
  const std::string text = comparison_text(measured_comparison(), TableStyle::terminal);
  EXPECT_TRUE(has(text, "measured ms  spread %  error %  hidden %\n")) << text;
  // serial: quartiles 19 and 21 of 20; program: 10 and 14 of 12; (20 − 12) of (20 − 8).
  EXPECT_TRUE(has(text, "20.00      10.0      0.0       0.0\n")) << text;
  EXPECT_TRUE(has(text, "12.00      33.3    -16.7      66.7\n")) << text;
  EXPECT_TRUE(has(text, "more than 3 %, 100 % are ranked alike")) << text;
  EXPECT_FALSE(has(text, "stale")) << text;
}

// A measured step shorter than its bound means that the costs belong to another machine, or to this machine in the
// past.
TEST(Comparison, MeasuredBelowTheBoundMeansAStaleProfile) {
  Comparison stale = measured_comparison();
  stale.steps[2].measured = measured({7.5});
  const std::string text = comparison_text(stale, TableStyle::terminal);
  EXPECT_TRUE(has(text, "profile stale: program was measured 7.50 ms, below its bound of 8.00 ms\n")) << text;
  EXPECT_FALSE(has(text, "stale: serial"));
}

TEST(Comparison, WithoutSerialThereIsNoSpeedUp) {
  Comparison alone;
  alone.steps = steps({report("program", 10, 8, 3)});
  EXPECT_EQ(alone.serial(), nullptr);
  EXPECT_TRUE(has(comparison_text(alone, TableStyle::terminal), "10.00         -   25.0         -"));
  EXPECT_FALSE(nlohmann::json::parse(comparison_json(alone).text()).at("policies").at(0).contains("speed_up"));
  alone.steps[0].report.policy.name = "serial";
  EXPECT_EQ(alone.serial(), &alone.steps[0]);
}

TEST(Comparison, NothingPlannedIsNoTableOfNonsense) {
  Comparison none;
  none.steps = steps({refused("serial")});
  EXPECT_EQ(none.serial(), nullptr);
  const std::string text = comparison_text(none, TableStyle::terminal);
  EXPECT_FALSE(has(text, "No order")) << text;
  EXPECT_TRUE(has(text, "serial: no plan: it can't"));
}

TEST(Comparison, TheBoundIsThatOfTheConfiguredGraph) {
  Comparison rewritten = comparison();
  rewritten.steps.push_back({.report = report("rewriter", 7, 5, 1)});
  EXPECT_EQ(rewritten.bound_ns(), 8 * kMs);
  const auto json = nlohmann::json::parse(comparison_json(rewritten).text());
  EXPECT_NEAR(json.at("policies").at(2).at("hidden").get<double>(), 10.0 / 12, 1e-12);
  EXPECT_NEAR(json.at("policies").at(3).at("hidden").get<double>(), 13.0 / 15, 1e-12);  // of its own graph's, too
  EXPECT_NEAR(json.at("policies").at(3).at("gap").get<double>(), 0.4, 1e-12);           // above its own graph's bound
  const std::string text = comparison_text(rewritten, TableStyle::terminal);
  EXPECT_TRUE(has(text, "less than 8.00 ms")) << text;
  EXPECT_TRUE(has_parts(text, {"\nserial ", "\nprogram ", "\nrewriter * ", "  86.7  ", "\n*: "})) << text;
  EXPECT_TRUE(has(text, "rewriter rewrites the graph, after which no order takes less than 5.00 ms")) << text;
}

TEST(Comparison, ATerminalsLinesFit) {
  Comparison all = comparison();
  all.source = "a machine whose description names many sources, each of which takes some words, and then some more";
  all.steps.push_back({.report = report("rewriter", 7, 5, 1)});
  all.steps[1].report.refusal = std::string(90, 'x') + " " + std::string(60, 'y');
  for (const std::size_t width : {100U, 120U}) {
    const std::string text = styled_comparison(all, width).plain();
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
      EXPECT_LE(end - at, width + 2) << text.substr(at, end - at);  // "…" takes three bytes
    }
  }
}

TEST(Comparison, AsJson) {
  Comparison all = measured_comparison();
  all.limited = {{"program", 2 << 20, 15 * kMs}};
  const auto json = nlohmann::json::parse(comparison_json(all).text());
  EXPECT_EQ(json.at("title"), "A model");
  EXPECT_EQ(json.at("costs"), "thin air");
  EXPECT_NEAR(json.at("bound_ms").get<double>(), 8, 1e-9);
  EXPECT_EQ(json.at("ranked_alike"), 1.0);
  ASSERT_EQ(json.at("policies").size(), 3U);
  EXPECT_EQ(json.at("policies").at(1), (nlohmann::json{{"policy", "broken"}, {"refused", "it can't"}}));
  const auto& program = json.at("policies").at(2);
  const auto near = [&](const char* pointer, double expected) {
    EXPECT_NEAR(program.at(nlohmann::json::json_pointer(pointer)).get<double>(), expected, 1e-9) << pointer;
  };
  EXPECT_EQ(program.at("policy"), "program");
  near("/step_ms", 10);
  near("/gap", 0.25);
  near("/bounds_ms/critical_path", 4);
  near("/bounds_ms/work", 2);
  near("/bounds_ms/one_machine", 8);
  near("/bounds_ms/energy", 0);
  near("/speed_up", 2);
  near("/hidden", 10.0 / 12);
  near("/exposed_ms", 3);
  near("/communication_ms", 12);
  near("/overlap", 0.75);
  near("/contention_ms", 0.25);
  near("/memory_bytes", 3 << 20);
  near("/planning_ms", 1.5);
  near("/channels/x/busy_ms", 8);
  near("/channels/data/exposed_ms", 2.25);
  near("/measured/steps", 3);
  near("/measured/median_ms", 12);
  near("/measured/lower_quartile_ms", 10);
  near("/measured/upper_quartile_ms", 14);
  near("/measured/exposed_ms", 2);
  near("/measured/communication_ms", 6);
  near("/measured/simulated_error", 10.0 / 12 - 1);
  EXPECT_EQ(json.at("pareto").at(0).at("policy"), "program");
  EXPECT_EQ(json.at("pareto").at(0).at("memory_bytes"), 2 << 20);
  EXPECT_TRUE(has(comparison_text(all, TableStyle::terminal),
                  "\nTime against memory: plans that no other plan beats in both.\n\n"
                  "policy     memory  step ms\n"
                  "program  2.00 MiB    15.00\n"));
}

TEST(ComparisonOutput, TheEndingDecides) {
  EXPECT_EQ(comparison_file_of("a.csv"), ComparisonFile::csv);
  EXPECT_EQ(comparison_file_of("no/such/a.md"), ComparisonFile::markdown);
  EXPECT_EQ(comparison_file_of("a.b.json"), ComparisonFile::json);
  EXPECT_EQ(comparison_file_of("a.svg"), ComparisonFile::svg);
  EXPECT_EQ(comparison_file_of("policies"), ComparisonFile::folder);
  EXPECT_EQ(comparison_file_of("/dev/null"), ComparisonFile::as_printed);
  for (const char* other : {"a.txt", "a.html", "a.csv.gz", "a.CSV"}) {
    const std::string text = testing::message_of<UserError>([&] { comparison_file_of(other); });
    EXPECT_TRUE(testing::has_parts(text, {".csv", ".md", ".json", ".svg"})) << other;
  }
}

TEST(ComparisonOutput, CsvHasTheNumbersOfJson) {
  Comparison all = comparison();
  all.steps[1].report.refusal = "it says \"no\",\nand why";
  all.steps[2].report.policy.name = "axonn:oar=off,ors=on";
  const auto rows = read_csv(comparison_csv(all)).value();
  ASSERT_EQ(rows.size(), 4U);
  const auto cell = [&](std::size_t row, const std::string& heading) {
    const auto at = std::ranges::find(rows[0], heading);
    EXPECT_NE(at, rows[0].end()) << heading;
    return at == rows[0].end() ? "" : rows[row].at(static_cast<std::size_t>(at - rows[0].begin()));
  };
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[0][0], "policy");
  EXPECT_EQ(cell(2, "refused"), all.steps[1].report.refusal);
  EXPECT_EQ(cell(2, "step_ms"), "");
  EXPECT_EQ(cell(3, "policy"), "axonn:oar=off,ors=on");
  const auto json = nlohmann::json::parse(comparison_json(all).text());
  for (const std::size_t i : {0U, 2U}) {
    const auto& entry = json.at("policies").at(i);
    EXPECT_EQ(std::stod(cell(i + 1, "step_ms")), entry.at("step_ms").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "gap_fraction")), entry.at("gap").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "speed_up")), entry.at("speed_up").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "work_bound_ms")), 2);
    EXPECT_EQ(std::stod(cell(i + 1, "x_exposed_ms")), entry.at("channels").at("x").at("exposed_ms").get<double>());
    EXPECT_EQ(cell(i + 1, "memory_bytes"), std::to_string(3 << 20));
  }
}

TEST(ComparisonOutput, OtherFilesAreWhatIsPrinted) {
  const Comparison all = comparison();
  EXPECT_EQ(comparison_file(all, ComparisonFile::markdown), comparison_text(all, TableStyle::markdown));
  EXPECT_EQ(nlohmann::json::parse(comparison_file(all, ComparisonFile::json)),
            nlohmann::json::parse(comparison_json(all).text()));
  EXPECT_EQ(comparison_file(all, ComparisonFile::csv), comparison_csv(all));
}

}  // namespace
}  // namespace weft::study
