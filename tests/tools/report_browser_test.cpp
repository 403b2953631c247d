// Reports in a real browser: they draw, search, hover, select, and ask the network for nothing. Skipped where there is
// no Chromium.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "inspect/report/report_page.h"
#include "tests/base/messages.h"
#include "tests/faults/child_process.h"
#include "tests/tools/small_step.h"

namespace weft::tools {
namespace {

std::string find_chromium() {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::filesystem::path file = std::filesystem::path(folders.substr(at, end - at)) / name;
      if (std::filesystem::is_regular_file(file)) return file.string();
    }
    at = end + 1;
  }
  return "";
}

std::string unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return out;
}

class ReportBrowser : public testing::SmallStep {
 protected:
  void SetUp() override {
    chromium_ = find_chromium();
    if (chromium_.empty()) GTEST_SKIP() << "no chromium here: apt-get install chromium";
  }

  /// The observations of report_driver.js when it acts on the page.
  nlohmann::json drive(std::string html, const std::string& window = "1400,1000") {
    const std::string end = "</body>";
    const std::string driver = testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/tests/tools/report_driver.js");
    html.insert(html.rfind(end), "<script>" + driver + "</script>");
    const std::string page = folder_.write("driven.html", html);
    // A port keeps it there until it is ended. Time is real: virtual time wouldn't wait for data being unpacked.
    testing::ChildProcess browser({chromium_, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                   "--window-size=" + window, "--user-data-dir=" + folder_.path("profile").string(),
                                   "--remote-debugging-port=0", "--enable-logging=stderr", "file://" + page});
    const std::string mark = "\"weft-driver ";
    std::size_t from = std::string::npos, to = std::string::npos;
    std::string said;
    testing::wait_until([&] {
      said = browser.errors();
      from = said.find(mark);
      to = from == std::string::npos ? from : said.find('"', from + mark.size());
      return to != std::string::npos || !browser.running();
    });
    browser.send(SIGTERM);
    browser.wait();
    if (to == std::string::npos) {
      ADD_FAILURE() << "the driver said nothing\n" << said;
      return nlohmann::json::object();
    }
    from += mark.size();
    return nlohmann::json::parse(unescaped(said.substr(from, to - from)));
  }

  /// A step under two policies.
  std::string two_policies() const {
    const testing::CommandResult config = testing::succeeded(weft("train", {"--ranks", "2", "--dump-config"}));
    folder_.write("step.toml", config.output);
    testing::succeeded(run({"report", "step.toml", "--policies", "serial", "program", "-o", "r.html"}));
    return read("r.html");
  }

  static void expect_calm(const nlohmann::json& seen) {
    EXPECT_EQ(seen.at("errors"), nlohmann::json::array()) << seen;
    EXPECT_EQ(seen.at("violations"), nlohmann::json::array());
    EXPECT_EQ(seen.at("ready"), "yes");
    EXPECT_EQ(seen.at("trouble"), "");
    EXPECT_EQ(seen.at("loaded"), 0);
    EXPECT_EQ(seen.at("bold"), 0);
  }

  std::string chromium_;
};

/// The nanosecond at a share of a window [from, to] of nanoseconds.
double time_at(const nlohmann::json& window, double share) {
  const auto from = window.at(0).get<double>(), to = window.at(1).get<double>();
  return from + share * (to - from);
}

double length_of(const nlohmann::json& window) {
  return window.at(1).get<double>() - window.at(0).get<double>();
}

void expect_pinch(const nlohmann::json& pinch) {
  const nlohmann::json &before = pinch.at("before"), &apart = pinch.at("apart"), &moved = pinch.at("moved");
  const double near = 0.003 * length_of(before);  // fingers stand on pixels
  ASSERT_GT(near, 0);
  EXPECT_NEAR(length_of(apart), length_of(before) / 2, near);
  EXPECT_NEAR(time_at(apart, 0.4), time_at(before, 0.4), near);
  EXPECT_NEAR(length_of(moved), length_of(apart), near);
  EXPECT_NEAR(time_at(moved, 0.7), time_at(apart, 0.4), near);
  EXPECT_NEAR(length_of(pinch.at("dragged")), length_of(moved), near);
  EXPECT_NEAR(time_at(pinch.at("dragged"), 0.3), time_at(moved, 0.5), near);
  EXPECT_EQ(pinch.at("still_pinned"), pinch.at("pinned"));
}

TEST_F(ReportBrowser, DrawsSearchesHoversAndSelects) {
  const nlohmann::json seen = drive(two_policies());
  expect_calm(seen);
  const auto text = [&](const char* key) { return seen.at(key).get<std::string>(); };
  EXPECT_TRUE(seen.at("blue"));
  EXPECT_TRUE(has(text("tip"), text("pinned"))) << seen;
  EXPECT_TRUE(has(text("tip"), "duration"));
  EXPECT_TRUE(has(text("tip"), "compute0, rank 0"));
  EXPECT_TRUE(seen.at("focus"));
  EXPECT_TRUE(has(text("found"), " tasks"));
  EXPECT_TRUE(has(text("first"), "mlp.up")) << seen;
  EXPECT_EQ(text("count").substr(0, 5), "1 of ");
  EXPECT_EQ(text("second").substr(0, 5), "2 of ");
  EXPECT_EQ(text("cleared"), "");
  EXPECT_TRUE(seen.at("back"));
  EXPECT_TRUE(seen.at("zoomed"));
  expect_pinch(seen.at("pinch"));
  EXPECT_EQ(text("critical"), "true");
  EXPECT_EQ(text("of_node"), text("node"));
  EXPECT_TRUE(seen.at("chosen"));
  EXPECT_TRUE(seen.at("unpinned"));
  EXPECT_TRUE(seen.at("themed"));
  const auto labels = seen.at("labels").get<std::vector<std::string>>();
  EXPECT_TRUE(std::ranges::count(labels, "dW") + std::ranges::count(labels, "up dW") > 0) << seen.at("labels");
  for (const std::string& label : labels) EXPECT_FALSE(label.starts_with("…") || label.starts_with("mb0.L0.")) << label;
}

TEST_F(ReportBrowser, SearchesForWordsSumsWhatIsSelectedAndLinksToAView) {
  const nlohmann::json seen = drive(two_policies());
  expect_calm(seen);
  const nlohmann::json& words = seen.at("words");
  EXPECT_GT(words.at("up").get<int>(), words.at("up_l1").get<int>());
  EXPECT_GT(words.at("up_l1").get<int>(), words.at("l1_up").get<int>());
  EXPECT_EQ(words.at("l1_up"), 6);  // a product forward and two backward, under two policies
  EXPECT_EQ(words.at("none"), 0);
  EXPECT_GT(words.at("l").get<int>(), 0);

  // All of the page: each task of both policies once, and shares of 100 %.
  const auto sum = [](const nlohmann::json& sums, std::size_t column) {
    double all = 0;
    for (const nlohmann::json& row : sums.at("cells")) all += std::stod(row.at(column).get<std::string>());
    return all;
  };
  const nlohmann::json data = data_of(two_policies());
  std::size_t tasks = 0;
  for (const nlohmann::json& view : data.at("views")) tasks += view.at("tasks").at("name").size();
  EXPECT_EQ(sum(seen.at("all"), 1), static_cast<double>(tasks));
  EXPECT_NEAR(sum(seen.at("all"), 3), 100, 0.5);
  EXPECT_TRUE(has(seen.at("all").at("head"), fmt::format("{} tasks", tasks)));
  EXPECT_FALSE(seen.at("part").at("hidden"));
  EXPECT_LT(sum(seen.at("part"), 1), sum(seen.at("all"), 1) / 4);
  EXPECT_GT(sum(seen.at("part"), 1), 0);

  const nlohmann::json& linked = seen.at("linked");
  EXPECT_TRUE(has_parts(linked.at("hash").get<std::string>(), {"zoom=", "select=", "search=gemm", "task="})) << linked;
  EXPECT_EQ(seen.at("cleared_link"),
            (nlohmann::json{{"hash", ""}, {"sums", ""}, {"found", ""}, {"search", ""}, {"pinned", ""}}));
  for (const char* key : {"hash", "sums", "search", "pinned"}) EXPECT_EQ(seen.at("reopened").at(key), linked.at(key));
  for (const char* key : {"sums", "search", "pinned"}) EXPECT_EQ(seen.at("nonsense").at(key), "");
  EXPECT_TRUE(seen.at("can_move"));
  EXPECT_EQ(seen.at("moved"), "true");
  EXPECT_EQ(seen.at("unmoved"), "false");
}

TEST_F(ReportBrowser, ChartsTellTheirValues) {
  testing::succeeded(weft("train", {"--ranks", "2", "--steps", "5", "--run-dir", "run"}));
  ASSERT_EQ(run({"report", "run", "-o", "run.html"}).exit_code, 0);
  const std::string html = read("run.html");
  const nlohmann::json seen = drive(html);
  expect_calm(seen);
  const nlohmann::json losses = data_of(html).at("charts").at(0).at("curves").at(0).at("values");
  ASSERT_EQ(losses.size(), 5U);
  const auto told = [&](const char* key) {
    return std::stod(seen.at(key).get<std::string>().substr(13));
  };  // "step 4: loss …"
  EXPECT_NEAR(told("chart_last"), losses.at(4).get<double>(), 1e-4);
  EXPECT_NEAR(told("chart_before"), losses.at(3).get<double>(), 1e-4);
  EXPECT_TRUE(seen.at("chart_left"));
  EXPECT_FALSE(seen.at("can_move"));
}

TEST_F(ReportBrowser, RunsBesideEachOther) {
  for (const char* steps : {"3", "5"}) {
    const testing::CommandResult trained = weft(
        "train",
        {"--ranks", "2", "--steps", steps, "--run-dir", std::string("a-run-with-quite-a-long-name-of-steps-") + steps});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  }
  testing::succeeded(run({"report", "a-run-with-quite-a-long-name-of-steps-3",
                          "a-run-with-quite-a-long-name-of-steps-5", "-o", "both.html"}));
  const std::string html = read("both.html");
  for (const char* window : {"1400,1000", "390,844"}) {
    SCOPED_TRACE(window);
    const nlohmann::json seen = drive(html, window);
    expect_calm(seen);
    EXPECT_FALSE(seen.at("wide"));
    EXPECT_TRUE(seen.at("run_folded"));
    EXPECT_TRUE(seen.at("run_open"));
    EXPECT_TRUE(seen.at("run_near"));
    EXPECT_EQ(seen.at("run_hash"), "");
    // Only the longer run has the last step; both have the first ones.
    EXPECT_TRUE(seen.at("chart_last").get<std::string>().starts_with("step 4: a-run-with")) << seen;
    EXPECT_EQ(seen.at("memory_cut"), nlohmann::json::array());
    EXPECT_EQ(seen.at("peaks").size(), 2U) << seen.at("peaks");
  }
}

TEST_F(ReportBrowser, IsUsableOnATelephone) {
  const nlohmann::json seen = drive(two_policies(), "390,844");
  expect_calm(seen);
  expect_pinch(seen.at("pinch"));
  EXPECT_EQ(seen.at("memory_cut"), nlohmann::json::array());
  EXPECT_EQ(seen.at("peaks").size(), 2U);
  EXPECT_FALSE(seen.at("wide"));
  EXPECT_GT(seen.at("scrolling"), 0);
  EXPECT_EQ(seen.at("unhinted"), 0);
  EXPECT_EQ(seen.at("cut"), 0);
  EXPECT_TRUE(seen.at("zoomed"));
  EXPECT_GT(seen.at("all").at("cells").size(), 2U);
}

// Packed data, and names that would like to be markup.
TEST_F(ReportBrowser, NamesStayTextAndLargeDataAreUnpacked) {
  inspect::ReportPage page;
  page.title = "</title><b class=\"made\">";
  inspect::ReportView view{.name = "</script><b class=\"made\">", .recording = {.policy = "mine"}};
  view.recording.streams = {{"<b class=\"made\">", true}};
  std::vector<plan::TaskTime> times;
  for (std::int64_t i = 0; i < 60000; ++i) {
    view.recording.tasks.push_back({.name = "mlp.up </script><b class=\"made\"> " + std::to_string(i),
                                    .kind = "gemm",
                                    .style = graph::KindClass::gemm,
                                    .reason = "<b class=\"made\">"});
    times.push_back({1000 * i, 1000 * i + 900});
  }
  view.recording.ranks = {{0, {{1, 0, 60'000'000, times}}}};
  page.views.push_back(std::move(view));
  const std::string html = inspect::report_html(page);
  ASSERT_TRUE(has(html, "data-form=\"gzip\""));
  const nlohmann::json seen = drive(html);
  expect_calm(seen);
  EXPECT_EQ(seen.at("found"), "60000 tasks");
  EXPECT_EQ(seen.at("first"), "mlp.up </script><b class=\"made\"> 0");
}

}  // namespace
}  // namespace weft::tools
