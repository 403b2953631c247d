#include "inspect/report/report_page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <stdexcept>

#include "tests/base/messages.h"

namespace weft::inspect {
namespace {

using testing::contains;

/// Two tasks: a computation of 30 ns, and after it a collective of which 20 of 50 ns are exposed.
ReportView small_view(const std::string& first_name) {
  ReportView view{.name = "mine", .recording = {.policy = "mine", .world = 2}};
  view.recording.streams = {{"compute0", true}, {"data", false}};
  view.recording.tasks = {
      {.name = first_name,
       .kind = "gemm",
       .style = graph::KindClass::gemm,
       .layer = 3,
       .flops = 8,
       .bytes = 16,
       .allocates = 64},
      {.name = "sum",
       .kind = "all_reduce",
       .style = graph::KindClass::all_reduce,
       .stream = 1,
       .phase = graph::Phase::backward,
       .network_bytes = 32,
       .frees = 64,
       .channel = "data",
       .group_size = 2,
       .reason = "at once"},
      {.name = "last", .kind = "adamw", .style = graph::KindClass::optimizer, .phase = graph::Phase::update}};
  view.recording.edges = {{0, 1}, {1, 2, graph::EdgeKind::issued_before, graph::EdgeReason::policy, 1}};
  view.recording.ranks = {{0, {{7, 1000, 1100, {{1000, 1030}, {1030, 1080}, {1050, 1100}}}}}};
  view.bounds = {{"lower bound", 90}};
  return view;
}

StepChart losses() {
  return {.title = "loss",
          .curves = {{"loss", {{1, 2.0}, {3, 1.5}}}},
          .dots_name = "held out",
          .dots = {{3, 1.75}},
          .from_zero = false};
}

ReportPage small_page(const std::string& first_name = "a") {
  ReportPage page;
  page.title = "a page";
  page.views.push_back(small_view(first_name));
  return page;
}

TEST(ReportPage, DataAreTheseBytes) {
  const std::string data = report_data(small_page());
  EXPECT_EQ(
      data.substr(data.find("\"views\"")),
      R"("views":[{"bounds":[{"name":"lower bound","ns":90}],)"
      R"("edges":{"from":[0,1],"kind":[0,25],"to":[1,2]},)"
      R"("memory":{"bytes":[64,-64],"state":0,"time":[0,80]},"moved":[],"name":"mine",)"
      R"("phases":["forward","backward","update"],)"
      R"("ranks":[{"rank":0,"steps":[{"begin":0,"end":100,"exposed":[[],[30,20]],)"
      R"("facts":"step 7: 0.00 ms; computing 0.00, communicating 0.00, exposed 0.00 ms",)"
      R"("length":[30,50,50],"start":[0,30,20],"step":7}]}],)"
      R"("streams":[{"compute":true,"name":"compute0"},{"compute":false,"name":"data"}],)"
      R"("strings":["","gemm","data","all_reduce","at once","adamw"],)"
      R"("tasks":{"bytes":[16,0,0],"channel":[0,2,0],"flops":[8,0,0],"group":[0,2,0],"kind":[1,3,5],)"
      R"("labels":[0,0,0],"layer":[3,-1,-1],"micro":[-1,-1,-1],"name":["a","sum","last"],"network":[0,32,0],"phase":[0,1,2],)"
      R"("reason":[0,4,0],"stream":[0,1,0],"style":[0,5,8]}}]})");
}

// The page's own structure stays, whatever a task is called.
TEST(ReportPage, NamesCannotLeaveTheirPlace) {
  const std::string name = "</script><b>\"&'\x01\xff";
  ReportPage page = small_page(name);
  page.title = name;
  page.trailing.push_back({.title = name, .heads = {name}, .rows = {{{name, name}}}});
  const std::string html = report_html(page);
  EXPECT_FALSE(contains(html, "</script><b>"));
  const nlohmann::json data = nlohmann::json::parse(report_data(page));
  const std::string kept = data.at("views").at(0).at("tasks").at("name").at(0);
  EXPECT_EQ(kept.substr(0, name.size() - 1), name.substr(0, name.size() - 1));
}

TEST(ReportPage, LoadsNothing) {
  ReportPage page = small_page();
  page.charts = {losses()};
  page.graph_svg =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" "
      "\"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd\">\n<!-- by --> <svg xmlns=\"http://www.w3.org/2000/svg\" "
      "xmlns:xlink=\"http://www.w3.org/1999/xlink\"><!-- a --><g/></svg>";
  const std::string html = report_html(page);
  EXPECT_TRUE(contains(
      html, "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\""));
  EXPECT_FALSE(contains(html, "DTD"));
  EXPECT_FALSE(contains(html, "<!--"));
  // The name of XLink stands in the script too, as the name that it is.
  const std::regex spaces("xmlns(:xlink)?=\"http://www\\.w3\\.org/[^\"]*\"|'http://www\\.w3\\.org/1999/xlink'");
  const std::string rest = std::regex_replace(html, spaces, "");
  EXPECT_FALSE(std::regex_search(rest, std::regex("https?://|src=|@import|url\\(|<link|fetch\\(|XMLHttp|WebSocket")));
}

TEST(ReportPage, ReadsWithoutAScript) {
  ReportPage page = small_page();
  page.facts = {{"step", "1.5 ms"}};
  page.leading.push_back({.title = "Policies",
                          .note = "A note.",
                          .heads = {"policy", "step ms"},
                          .rows = {{{"serial"}, {"2.00"}}, {{"program"}, {"1.50"}}},
                          .best = 1});
  page.charts = {losses()};
  const std::string html = report_html(page);
  EXPECT_TRUE(has_parts(html, {"<h2>Policies</h2>\n<p class=\"note\">A note.</p>",
                               "<tr class=\"best\"><td class=\"text\">program</td><td>1.50</td></tr>",
                               "<div class=\"still\">\n<svg ", ">mine</text>", "fill=\"#56B4E9\"",
                               "<title>step 3: 1.7500 held out</title>", "aria-label=\"memory over time\""}));
}

TEST(ReportPage, SeveralRunsHaveALegendAndAPartEach) {
  ReportPage page = small_page();
  page.charts = {losses()};
  EXPECT_FALSE(contains(report_html(page), "<h2>Each run</h2>"));
  ReportCell name("<b>");
  name.run = 7;
  page.leading.push_back({.title = "Runs", .heads = {"run"}, .rows = {{name}}});
  for (int i = 0; i < 8; ++i) page.runs.push_back({.name = "run <" + std::to_string(i)});
  page.runs[7].facts = {{"step", "1.5 ms"}};
  page.runs[7].tables.push_back({.title = "Shares", .heads = {"kind"}, .rows = {{{"gemm"}}}});
  const std::string html = report_html(page);
  EXPECT_TRUE(has_parts(html, {"<span><i class=\"curve c1\"></i>run &lt;1</span>",
                               "<span><i class=\"curve c1 dashed\"></i>run &lt;7</span>",
                               "<button type=\"button\" data-run=\"7\">&lt;b&gt;</button>"}));
  const std::string part = html.substr(html.find("<details class=\"run\" id=\"weft-run-7\">"));
  EXPECT_TRUE(has_parts(part, {"<b>1.5 ms</b><span>step</span>", "<h3>Shares</h3>"}));
}

TEST(ReportPage, EqualPagesGiveEqualBytesAndLargeOnesArePacked) {
  EXPECT_EQ(report_html(small_page()), report_html(small_page()));
  ReportPage page = small_page(std::string(3'000'000, 'x'));
  const std::string html = report_html(page);
  EXPECT_TRUE(contains(html, "data-form=\"gzip\">H4sI"));
  EXPECT_LT(html.size(), 3'200'000U);  // the name stands once, in the still timeline's tooltip
  EXPECT_TRUE(contains(report_html(small_page()), "data-form=\"plain\">{"));
}

TEST(ReportPage, WithoutStepsIsAMistakeOfTheCaller) {
  EXPECT_THROW(report_html({}), std::logic_error);
  ReportPage page = small_page();
  page.views[0].recording.ranks[0].steps.clear();
  EXPECT_THROW(report_html(page), std::logic_error);
  page = small_page();
  page.views[0].recording.ranks[0].steps[0].times.pop_back();
  EXPECT_THROW(report_html(page), std::logic_error);
}

}  // namespace
}  // namespace weft::inspect
