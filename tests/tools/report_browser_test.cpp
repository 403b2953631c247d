// Reports in a real browser: they draw, search, hover, select, and ask the network for nothing. Skipped where there is
// no Chromium.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "inspect/report/report_page.h"
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

  /// What report_driver.js saw when it acted on the page.
  nlohmann::json drive(std::string html) {
    const std::string end = "</body>";
    const std::string driver = testing::TemporaryFolder::read(WEFT_SOURCE_DIR "/tests/tools/report_driver.js");
    html.insert(html.rfind(end), "<script>" + driver + "</script>");
    const std::string page = folder_.write("driven.html", html);
    // A port keeps it there until it is ended. Time is real: virtual time wouldn't wait for data being unpacked.
    testing::ChildProcess browser({chromium_, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                                   "--window-size=1400,1000", "--user-data-dir=" + folder_.path("profile").string(),
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

TEST_F(ReportBrowser, DrawsSearchesHoversAndSelects) {
  const testing::CommandResult config = weft("train", {"--ranks", "2", "--dump-config"});
  ASSERT_EQ(config.exit_code, 0) << config.errors;
  folder_.write("step.toml", config.output);
  const testing::CommandResult report = testing::run_weft(
      {"report", "step.toml", "--policies", "serial", "program", "-o", "r.html"}, folder_.path().string());
  ASSERT_EQ(report.exit_code, 0) << report.errors;
  const nlohmann::json seen = drive(testing::TemporaryFolder::read(folder_.path("r.html")));
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
  EXPECT_EQ(text("critical"), "true");
  EXPECT_EQ(text("of_node"), text("node"));
  EXPECT_TRUE(seen.at("chosen"));
  EXPECT_TRUE(seen.at("unpinned"));
  EXPECT_TRUE(seen.at("themed"));
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
