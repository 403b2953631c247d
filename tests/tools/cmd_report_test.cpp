// `weft report` as a process: pages of configurations, comparisons and runs, and its refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/base/messages.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

class ReportCommand : public testing::SmallStep {
 protected:
  testing::CommandResult report(const Words& words) const { return run(testing::joined({"report"}, words)); }

  /// Texts of the cells of the table below a title, row by row.
  static std::vector<std::vector<std::string>> rows_of(const std::string& html, const std::string& title) {
    const std::size_t begin = html.find("<h2>" + title + "</h2>"), from = html.find("<tbody>", begin);
    std::vector<std::vector<std::string>> rows;
    if (begin == std::string::npos || from == std::string::npos) return rows;
    const std::string body = html.substr(from, html.find("</tbody>", from) - from);
    static const std::regex row("<tr[^>]*>(.*)</tr>"), cell("<td[^>]*>(<button[^>]*>)?([^<]*)");
    for (std::sregex_iterator it(body.begin(), body.end(), row), end; it != end; ++it) {
      const std::string line = (*it)[1];
      rows.emplace_back();
      for (std::sregex_iterator at(line.begin(), line.end(), cell); at != end; ++at) rows.back().push_back((*at)[2]);
    }
    return rows;
  }

  void refused(const Words& words, const Words& parts) const {
    expect_refusal(testing::joined({"report"}, words), parts);
    EXPECT_FALSE(exists("report.html"));
  }
};

TEST_F(ReportCommand, OfAConfigurationHasThePolicies) {
  folder_.write("step.toml", weft("train", {"--ranks", "2", "--dump-config"}).output);
  for (const char* output : {"a.html", "b.html"}) {
    const testing::CommandResult result = report({"step.toml", "--policies", "serial", "program", "-o", output});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  const std::string html = read("a.html");
  EXPECT_EQ(html, read("b.html"));
  const nlohmann::json data = data_of(html);
  ASSERT_EQ(data.at("views").size(), 2U);
  EXPECT_EQ(data.at("views").at(0).at("name"), "serial");
  EXPECT_GT(data.at("views").at(1).at("bounds").at(0).at("ns").get<double>(), 0);
  EXPECT_TRUE(
      has_parts(html, {"<td class=\"text\">serial</td>", "program: Why communication is exposed", "class=\"node"}));
  EXPECT_FALSE(has(html, folder_.path().string()));
}

TEST_F(ReportCommand, OfAComparison) {
  const testing::CommandResult compared =
      testing::succeeded(weft("compare", {"--ranks", "2", "--policies", "serial", "program", "--quiet", "-o", "kept"}));
  EXPECT_TRUE(has(compared.output, "speed-up"));
  ASSERT_EQ(report({"kept", "-o", "kept.html"}).exit_code, 0);
  const std::string html = read("kept.html");
  EXPECT_TRUE(has(html, "policies compared"));
  const nlohmann::json data = data_of(html), kept = nlohmann::json::parse(read("kept/comparison.json"));
  ASSERT_EQ(data.at("views").size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const nlohmann::json& view = data.at("views").at(i);
    const nlohmann::json& entry = kept.at("comparison").at("policies").at(i);
    EXPECT_EQ(view.at("name"), entry.at("policy"));
    const nlohmann::json& step = view.at("ranks").at(0).at("steps").at(0);
    EXPECT_NEAR(step.at("end").get<double>() - step.at("begin").get<double>(), entry.at("step_ms").get<double>() * 1e6,
                1);
    EXPECT_FALSE(view.at("edges").at("from").empty());
  }
  // Moved tasks are marked in the data, and their gain stands in a table.
  EXPECT_TRUE(data.at("views").at(0).at("moved").empty());
  EXPECT_FALSE(data.at("views").at(1).at("moved").empty());
  const auto gains = rows_of(html, "Gain by collective, against serial");
  ASSERT_GT(gains.size(), 1U);
  double gain = 0;
  for (std::size_t i = 0; i + 1 < gains.size(); ++i) gain += std::stod(gains[i].at(4));
  const nlohmann::json &before = kept.at("comparison").at("policies").at(0),
                       &after = kept.at("comparison").at("policies").at(1);
  EXPECT_NEAR(gain, before.at("exposed_ms").get<double>() - after.at("exposed_ms").get<double>(), 0.01);
  EXPECT_NEAR(std::stod(gains.back().at(4)), before.at("step_ms").get<double>() - after.at("step_ms").get<double>(),
              0.01);
  EXPECT_FALSE(rows_of(html, "program against serial: what moved").empty());
  // The machine's link stands beside the achieved rate, also from a folder that an older version left.
  EXPECT_TRUE(has(html, "link GB/s, model of laptop"));
  nlohmann::json older = kept;
  for (nlohmann::json& view : older.at("views")) view.erase("links");
  folder_.write("kept/comparison.json", older.dump());
  ASSERT_EQ(report({"kept", "-o", "older.html"}).exit_code, 0);
  EXPECT_FALSE(has(read("older.html"), "model of laptop"));
  // The folder may be written again; another folder may not be overwritten.
  EXPECT_EQ(weft("compare", {"--ranks", "2", "--policies", "serial", "--quiet", "-o", "kept"}).exit_code, 0);
  folder_.write("mine/notes.txt", "keep");
  expect_refused("compare", {"--ranks", "2", "--policies", "serial", "-o", "mine"}, {"mine holds other files"});
}

// Beside measured steps the bound is made of measured times too: the machine's model is far off here.
TEST_F(ReportCommand, OfAMeasuredComparison) {
  testing::succeeded(weft("compare", {"--ranks", "2", "--policies", "serial", "program", "--measure",
                                      "--measured-rounds", "3", "--profile-steps", "2", "--quiet", "-o", "kept"}));
  ASSERT_EQ(report({"kept", "-o", "kept.html"}).exit_code, 0);
  const std::string html = read("kept.html");
  for (const nlohmann::json& view : data_of(html).at("views")) {
    const nlohmann::json& step = view.at("ranks").at(0).at("steps").at(0);
    const double length = step.at("end").get<double>() - step.at("begin").get<double>();
    EXPECT_LE(view.at("bounds").at(0).at("ns").get<double>(), 1.05 * length);
    EXPECT_GT(view.at("bounds").at(0).at("ns").get<double>(), 0.1 * length);
  }
  // Simulated times don't pass for the step's.
  EXPECT_TRUE(has(html, "<th scope=\"col\">simulated ms</th>"));
  EXPECT_FALSE(has(html, "<th scope=\"col\">step ms</th>"));
}

TEST_F(ReportCommand, OfARun) {
  testing::succeeded(weft("train", {"--ranks", "2", "--steps", "4", "--run-dir", "run", "--eval-every", "2"}));
  ASSERT_EQ(report({"run"}).exit_code, 0);
  const std::string html = read("report.html");
  const nlohmann::json data = data_of(html);
  ASSERT_EQ(data.at("views").size(), 1U);
  const nlohmann::json& ranks = data.at("views").at(0).at("ranks");
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks.at(0).at("steps").size(), 3U);
  EXPECT_TRUE(has_parts(html, {"loss at step 3", "aria-label=\"loss by step\""}));
  for (const char* series : {"exposed communication, ms", "tokens/s", "gradient norm", "learning rate"}) {
    EXPECT_TRUE(has(html, std::string("aria-label=\"") + series + " by step\"")) << series;
  }
  EXPECT_TRUE(
      has_parts(html, {"Exposed communication by axis and kind", "Why communication is exposed", "class=\"node"}));
  double shares = 0;
  for (const auto& row : rows_of(html, "Shares of the step")) shares += std::stod(row.at(4));
  EXPECT_NEAR(shares, 100, 0.5);
  EXPECT_GT(std::stod(rows_of(html, "Bandwidth by axis").at(0).at(5)), 0);
  // The bound is made of this run's own times: it lies near the steps, whatever machine a model knows.
  double least = 1e18, most = 0;
  for (const nlohmann::json& rank : ranks) {
    for (const nlohmann::json& step : rank.at("steps")) {
      const double length = step.at("end").get<double>() - step.at("begin").get<double>();
      least = std::min(least, length), most = std::max(most, length);
    }
  }
  const double bound = data.at("views").at(0).at("bounds").at(0).at("ns").get<double>();
  EXPECT_GT(bound, 0.25 * least);
  EXPECT_LT(bound, 1.05 * most);
  std::filesystem::remove(folder_.path("report.html"));

  const std::string metrics = read("run/metrics.jsonl");
  folder_.write("run/metrics.jsonl", metrics + "{\"step\":4,\"lo");  // a killed run leaves such a line
  EXPECT_EQ(report({"run", "-o", "killed.html"}).exit_code, 0);
  folder_.write("run/metrics.jsonl", metrics + "{\"step\":4,\"lo\n");
  refused({"run"}, {"metrics.jsonl line 5"});
  folder_.write("run/metrics.jsonl", metrics + "{\"step\":4}\n");
  refused({"run"}, {"metrics.jsonl line 5", "loss"});
  folder_.write("run/metrics.jsonl", metrics);
  const std::string trace = read("run/trace.json");
  folder_.write("run/trace.json", trace.substr(0, trace.size() / 2));
  refused({"run"}, {"trace.json"});
  std::filesystem::remove(folder_.path("run/trace.json"));
  refused({"run"}, {"trace"});
}

TEST_F(ReportCommand, OfSeveralRuns) {
  for (const auto& [policy, steps] : std::vector<std::pair<std::string, std::string>>{{"serial", "4"}, {"lhs", "6"}}) {
    const testing::CommandResult trained = weft("train", {"--ranks", "2", "--steps", steps, "--run-dir",
                                                          "runs/" + policy, "--policy", policy, "--eval-every", "2"});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  }
  const testing::CommandResult written =
      testing::succeeded(report({"runs/serial", "runs/lhs", "-o", "both.html", "--json"}));
  const std::string html = read("both.html");
  const nlohmann::json said = nlohmann::json::parse(written.output), data = data_of(html);
  EXPECT_EQ(said.at("file"), "both.html");
  EXPECT_EQ(said.at("file_bytes"), html.size());
  EXPECT_EQ(said.at("inputs"), (nlohmann::json{"runs/serial", "runs/lhs"}));
  EXPECT_EQ(said.at("views"), (nlohmann::json{"serial", "lhs"}));
  EXPECT_GT(said.at("tasks_drawn"), 0);
  ASSERT_EQ(data.at("views").size(), 2U);
  EXPECT_EQ(data.at("views").at(1).at("name"), "lhs");
  // A chart has the curves of both.
  const nlohmann::json& losses = data.at("charts").at(0).at("curves");
  ASSERT_EQ(losses.size(), 2U);
  EXPECT_EQ(losses.at(0).at("steps").size(), 4U);
  EXPECT_EQ(losses.at(1).at("steps").size(), 6U);
  for (const char* title : {"loss", "held-out loss", "tokens/s", "exposed communication, ms"}) {
    EXPECT_TRUE(has(html, std::string("aria-label=\"") + title + " by step\"")) << title;
  }
  const auto rows = rows_of(html, "Runs");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].at(2), "lhs");
  EXPECT_EQ(rows[1].at(4), "6");
  EXPECT_NEAR(std::stod(rows[1].at(5)), losses.at(1).at("values").at(5).get<double>(), 1e-4);
  EXPECT_NE(rows[0].at(10), rows[1].at(10));  // the plans' fingerprints
  EXPECT_TRUE(has_parts(html, {"id=\"weft-run-0\"", "id=\"weft-run-1\"", "data-run=\"1\"", "<h3>Bandwidth by axis</h3>",
                               "<h3>Why communication is exposed</h3>"}));
  refused({"runs/serial", "runs/none"}, {"runs/none doesn't exist"});
  refused({"runs/serial", "text.txt"}, {"text.txt is no run folder"});
  refused({"runs/serial", "runs/lhs/../serial/"}, {"named twice"});
  refused({"runs/serial", "runs/lhs", "--policies", "serial"}, {"--policies with several runs"});
  refused({"runs/serial", "runs/lhs", "--policy", "serial"}, {"--policy with several runs"});
}

TEST_F(ReportCommand, RefusesWhatIsNoInput) {
  std::filesystem::create_directories(folder_.path("empty"));
  refused({"empty"}, {"a run folder"});
  refused({"missing"}, {"missing doesn't exist"});
  refused({"text.txt"}, {"a run folder"});
  folder_.write("step.toml", weft("train", {"--ranks", "2", "--dump-config"}).output);
  refused({"step.toml", "--policies", "programm"}, {"programm"});
  refused({"step.toml", "-o", "no/such/report.html"}, {"no/such"});
  folder_.write("broken/comparison.json", "{\"format\":\"weft-comparison\",\"version\":1}");
  refused({"broken"}, {"comparison.json"});
  folder_.write("broken/comparison.json", "{\"format\":\"weft-comparison\",\"version\":2}");
  refused({"broken"}, {"version"});
  folder_.write("broken/comparison.json", "[");
  refused({"broken"}, {"comparison.json"});
  refused({"broken", "--policies", "serial"}, {"--policies"});
}

}  // namespace
}  // namespace weft::tools
