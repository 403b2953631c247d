// Comparisons as files: the ending decides, and every format has the same numbers.
#include "study/comparison_output.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text/csv.h"
#include "tests/base/messages.h"

namespace weft::study {
namespace {

Comparison small_comparison() {
  Comparison all;
  all.title = "A model";
  all.source = "thin air";
  for (const auto& [name, step] : std::map<std::string, double>{{"axonn:oar=off,ors=on", 2.5e6}, {"serial", 4e6}}) {
    simulate::Report report;
    report.policy.name = name;
    report.simulation.step_ns = step;
    report.simulation.ranks.emplace_back();
    report.bounds.work = 2e6;
    simulate::ClassReport& own = report.classes.emplace_back();
    own.times.communication = 1e6;
    own.times.exposed = 250e3;
    own.channels = {{"x", 1e6, 2.5e5}};
    own.memory.state = 3 << 20;
    report.planning_ms = 1.5;
    all.reports.push_back(std::move(report));
  }
  simulate::Report refused;
  refused.policy.name = "broken";
  refused.refusal = "it says \"no\",\nand why";
  all.reports.insert(all.reports.begin(), refused);
  return all;
}

TEST(ComparisonOutput, TheEndingDecides) {
  EXPECT_EQ(comparison_file_of("a.csv"), ComparisonFile::csv);
  EXPECT_EQ(comparison_file_of("no/such/a.md"), ComparisonFile::markdown);
  EXPECT_EQ(comparison_file_of("a.b.json"), ComparisonFile::json);
  EXPECT_EQ(comparison_file_of("policies"), ComparisonFile::folder);
  EXPECT_EQ(comparison_file_of("/dev/null"), ComparisonFile::as_printed);
  for (const char* other : {"a.txt", "a.html", "a.csv.gz", "a.CSV"}) {
    const std::string text = testing::message_of<UserError>([&] { comparison_file_of(other); });
    EXPECT_TRUE(testing::has_parts(text, {".csv", ".md", ".json"})) << other;
  }
}

TEST(ComparisonOutput, CsvHasTheNumbersOfJson) {
  const Comparison all = small_comparison();
  const auto rows = read_csv(comparison_csv(all)).value();
  ASSERT_EQ(rows.size(), 4U);
  const auto cell = [&](std::size_t row, const std::string& heading) {
    const auto at = std::ranges::find(rows[0], heading);
    EXPECT_NE(at, rows[0].end()) << heading;
    return at == rows[0].end() ? "" : rows[row].at(static_cast<std::size_t>(at - rows[0].begin()));
  };
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[0][0], "policy");
  EXPECT_EQ(cell(1, "policy"), "broken");
  EXPECT_EQ(cell(1, "refused"), all.reports[0].refusal);
  EXPECT_EQ(cell(1, "step_ms"), "");
  EXPECT_EQ(cell(2, "policy"), "axonn:oar=off,ors=on");
  const auto json = nlohmann::json::parse(comparison_json(all).text());
  for (std::size_t i = 1; i < 3; ++i) {
    const auto& entry = json.at("policies").at(i);
    EXPECT_EQ(std::stod(cell(i + 1, "step_ms")), entry.at("step_ms").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "gap_fraction")), entry.at("gap").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "speed_up")), entry.at("speed_up").get<double>());
    EXPECT_EQ(std::stod(cell(i + 1, "work_bound_ms")), 2);
    EXPECT_EQ(std::stod(cell(i + 1, "x_exposed_ms")), 0.25);
    EXPECT_EQ(cell(i + 1, "memory_bytes"), std::to_string(3 << 20));
  }
}

TEST(ComparisonOutput, OtherFilesAreWhatIsPrinted) {
  const Comparison all = small_comparison();
  EXPECT_EQ(comparison_file(all, ComparisonFile::markdown), comparison_text(all, TableStyle::markdown));
  EXPECT_EQ(nlohmann::json::parse(comparison_file(all, ComparisonFile::json)),
            nlohmann::json::parse(comparison_json(all).text()));
  EXPECT_EQ(comparison_file(all, ComparisonFile::csv), comparison_csv(all));
}

}  // namespace
}  // namespace weft::study
