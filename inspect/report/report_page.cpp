#include "inspect/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/files/input_file.h"
#include "base/text/escape.h"
#include "base/text/text_writer.h"
#include "inspect/drawing/timeline.h"
#include "inspect/report/report_assets.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kMostPlainBytes = 2'000'000;

/// A drawing as part of a page: without the lines before its <svg>, and without comments.
std::string inline_svg(const std::string& svg) {
  const std::size_t begin = svg.find("<svg");
  if (begin == std::string::npos) throw std::logic_error("a drawing that isn't SVG");
  std::string out;
  for (std::size_t at = begin; at < svg.size();) {
    const std::size_t comment = svg.find("<!--", at);
    out.append(svg, at, comment == std::string::npos ? std::string::npos : comment - at);
    if (comment == std::string::npos) break;
    const std::size_t end = svg.find("-->", comment);
    if (end == std::string::npos) throw std::logic_error("a drawing with an open comment");
    at = end + 3;
  }
  return out;
}

std::string packed(const std::string& text) {
  std::string out;
  GzipPacker packer([&](std::string_view piece) { out += piece; });
  packer.write(text);
  packer.finish();
  return out;
}

/// Writes the page from top to bottom.
class Html {
 public:
  explicit Html(const ReportPage& page) : page_(page) {}

  std::string text() {
    head();
    charts();
    for (const ReportTable& table : page_.leading) section(table);
    timeline();
    graph();
    for (const ReportTable& table : page_.trailing) {
      if (!table.folded) section(table);
    }
    folded();
    runs();
    out_.add("</main>\n<div id=\"weft-tip\" role=\"tooltip\" hidden></div>\n<script>\n\"use strict\";{\n");
    out_.add(report_script());
    out_.add("}\n</script>\n</body>\n</html>\n");
    return std::move(out_).text();
  }

 private:
  void head() {
    const std::string title = xml_escaped(page_.title);
    out_.add(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out_.put("<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n", title, report_style());
    out_.put("<header><h1>{}</h1><span class=\"soft\">{}</span>", title, xml_escaped(page_.subtitle));
    out_.add(
        "<span class=\"right live\"><button type=\"button\" id=\"weft-theme\" title=\"light or dark\">dark</button>"
        "</span></header>\n<main>\n<p id=\"weft-trouble\" role=\"alert\" hidden></p>\n");
    // Before everything that bears the names of tasks, so that none of them can take its id.
    const std::string data = report_data(page_);
    const bool compress = data.size() > kMostPlainBytes;
    out_.put("<script type=\"application/json\" id=\"weft-data\" data-form=\"{}\">", compress ? "gzip" : "plain");
    out_.add(compress ? base64(packed(data)) : data);
    out_.add("</script>\n");
    for (std::size_t i = 0; i < page_.verdict.size(); ++i) {
      const std::string text = xml_escaped(page_.verdict[i]);
      out_.add(i == 0 ? "<section aria-label=\"verdict\"><h2>Verdict</h2>\n<p>" + text + "</p>\n"
                      : "<p class=\"note\">" + text + "</p>\n");
    }
    if (!page_.verdict.empty()) out_.add("</section>\n");
    facts(page_.facts);
  }

  void facts(const std::vector<ReportFact>& list) {
    if (list.empty()) return;
    out_.add("<ul class=\"facts\">\n");
    for (const ReportFact& fact : list) {
      out_.put("<li><b>{}</b><span>{}</span></li>\n", xml_escaped(fact.value), xml_escaped(fact.label));
    }
    out_.add("</ul>\n");
  }

  /// The line that a run's curves have.
  static std::string curve(std::size_t run) {
    return fmt::format("<i class=\"curve c{}{}\"></i>", run % kCurveColors, run < kCurveColors ? "" : " dashed");
  }

  /// Each run's own part, folded, and the place where a link to the run leads.
  void runs() {
    if (page_.runs.empty()) return;
    out_.add("<section aria-label=\"each run\"><h2>Each run</h2>\n");
    for (std::size_t i = 0; i < page_.runs.size(); ++i) {
      const ReportRun& run = page_.runs[i];
      out_.put("<details class=\"run\" id=\"weft-run-{}\"><summary>{}{} <span class=\"soft\">{}</span></summary>\n", i,
               curve(i), xml_escaped(run.name), xml_escaped(run.subtitle));
      if (!run.note.empty()) out_.put("<p class=\"note\">{}</p>\n", xml_escaped(run.note));
      facts(run.facts);
      for (const ReportTable& table : run.tables) {
        out_.put("<h3>{}</h3>\n", xml_escaped(table.title));
        content(table);
      }
      out_.add("</details>\n");
    }
    out_.add("</section>\n");
  }

  void button(std::string_view id, std::string_view text, std::string_view title, bool toggles) {
    out_.put("<button type=\"button\" id=\"weft-{}\"{} title=\"{}\">{}</button>", id,
             toggles ? " aria-pressed=\"false\"" : "", title, text);
  }

  void timeline() {
    out_.add(
        "<section aria-label=\"timeline\"><h2>Timeline</h2>\n<div class=\"live\">\n<div class=\"tools\">"
        "<input id=\"weft-search\" type=\"search\" placeholder=\"search: words  ( / )\" aria-label=\"search tasks by "
        "words, which all must match\" spellcheck=\"false\"><span id=\"weft-found\" class=\"soft\" "
        "role=\"status\"></span>");
    button("fit", "fit", "the last step, then all of it (f)", false);
    button("in", "+", "zoom in (+)", false);
    button("out", "−", "zoom out (−)", false);
    button("select", "select", "dragging sums the tasks that it covers; so does a drag with Shift (x: all in view)",
           true);
    button("critical", "critical path", "from the last task back along what arrived last, on each rank (c)", true);
    button("moved", "what moved",
           "tasks at another place, on another stream or with other waits than under the first policy (m)", true);
    button("link", "copy link", "the address that opens the page with this view", false);
    out_.add(
        "<span id=\"weft-copied\" class=\"soft\" role=\"status\"></span><span id=\"weft-legend\" "
        "class=\"legend\"></span><span class=\"key\"><i></i>exposed communication</span>");
    if (std::ranges::any_of(page_.views, [](const ReportView& view) { return !view.bounds.empty(); }))
      out_.add("<span class=\"key\"><i class=\"bound\"></i>lower bound</span>");
    out_.add(
        "</div>\n<canvas id=\"weft-map\" aria-hidden=\"true\"></canvas>\n"
        "<div><canvas id=\"weft-canvas\" tabindex=\"0\" role=\"application\" aria-label=\"timeline: arrows pan, plus "
        "and minus zoom, f fits, slash searches, x sums what is in view, brackets go to the task before and after\" "
        "aria-describedby=\"weft-details\"></canvas></div>\n"
        "<div id=\"weft-sums\" aria-live=\"polite\" hidden></div>\n"
        "<canvas id=\"weft-memory\" role=\"img\" aria-label=\"memory over time\"></canvas>\n"
        "<details class=\"help soft\" open><summary>Keys</summary><p><kbd>←</kbd> <kbd>→</kbd> pan, <kbd>+</kbd> "
        "<kbd>−</kbd>, the wheel or two fingers zoom, <kbd>↑</kbd> <kbd>↓</kbd> scroll, <kbd>f</kbd> fit, <kbd>/</kbd> "
        "search (<kbd>Enter</kbd> next), <kbd>x</kbd> or dragging with <kbd>Shift</kbd> sums, <kbd>[</kbd> "
        "<kbd>]</kbd> task before and after, <kbd>c</kbd> critical path, <kbd>m</kbd> what moved, <kbd>Esc</kbd> "
        "unpin. Hovering shows what a task waits for (red: the input that arrived last) and what waits for it "
        "(dashed); a click pins the task.</p></details>\n"
        "<div id=\"weft-details\" aria-live=\"polite\" hidden></div>\n</div>\n");
    if (!page_.timeline_note.empty()) out_.put("<p class=\"note\">{}</p>\n", xml_escaped(page_.timeline_note));
    std::vector<TimelinePart> parts;
    for (const ReportView& view : page_.views) {
      double bound = 0;
      for (const ReportBound& each : view.bounds) bound = std::max(bound, each.ns);
      parts.push_back({view.name, &view.recording, bound});
    }
    out_.add("<div class=\"still\">\n" + inline_svg(timeline_picture(parts).svg()) + "</div>\n</section>\n");
  }

  void graph() {
    if (page_.graph_svg.empty() && page_.graph_note.empty()) return;
    out_.add("<section aria-label=\"graph\"><h2>Graph</h2>\n");
    if (!page_.graph_note.empty()) out_.put("<p class=\"note\">{}</p>\n", xml_escaped(page_.graph_note));
    if (!page_.graph_svg.empty()) {
      out_.add(
          "<div class=\"tools live\"><button type=\"button\" id=\"weft-closer\" aria-label=\"zoom in\">+</button>"
          "<button type=\"button\" id=\"weft-farther\" aria-label=\"zoom out\">−</button><button type=\"button\" "
          "id=\"weft-graph-fit\">fit</button><span class=\"soft\">a click selects the task in the "
          "timeline</span></div>\n");
      out_.put("<div id=\"weft-graph\" data-view=\"{}\" role=\"group\" aria-label=\"the step's graph\">\n{}\n</div>\n",
               xml_escaped(page_.graph_view), inline_svg(page_.graph_svg));
    }
    out_.add("</section>\n");
  }

  void cell(const ReportTable& table, const ReportCell& cell, std::size_t column) {
    const bool words = column < table.words || column + table.trailing_words >= table.heads.size();
    out_.put("<td{}>", words ? " class=\"text\"" : "");
    if (!cell.swatch.empty()) out_.put("<i class=\"swatch\" style=\"background:{}\"></i>", cell.swatch);
    const std::string text = xml_escaped(cell.text);
    if (cell.run) {
      out_.put("{}<button type=\"button\" data-run=\"{}\">{}</button>", curve(*cell.run), *cell.run, text);
    } else if (cell.task.empty()) {
      out_.add(text);
    } else {
      out_.put("<button type=\"button\" data-view=\"{}\" data-task=\"{}\">{}</button>", xml_escaped(table.view),
               xml_escaped(cell.task), text);
    }
    out_.add("</td>");
  }

  void content(const ReportTable& table) {
    if (!table.note.empty()) out_.put("<p class=\"note\">{}</p>\n", xml_escaped(table.note));
    out_.add(table.picture);
    if (table.rows.empty()) return;
    out_.put("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
             xml_escaped(table.title));
    for (std::size_t i = 0; i < table.heads.size(); ++i) {
      const bool words = i < table.words || i + table.trailing_words >= table.heads.size();
      out_.put("<th scope=\"col\"{}>{}</th>", words ? " class=\"text\"" : "", xml_escaped(table.heads[i]));
    }
    out_.add("</tr></thead>\n<tbody>\n");
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      out_.add(table.best == r ? "<tr class=\"best\">" : "<tr>");
      for (std::size_t i = 0; i < table.rows[r].size(); ++i) cell(table, table.rows[r][i], i);
      out_.add("</tr>\n");
    }
    out_.add("</tbody></table></div><p class=\"swipe\" aria-hidden=\"true\">swipe: more columns →</p>\n");
  }

  void section(const ReportTable& table) {
    out_.put("<section><h2>{}</h2>\n", xml_escaped(table.title));
    content(table);
    out_.add("</section>\n");
  }

  void folded() {
    bool any = false;
    for (const ReportTable& table : page_.trailing) {
      if (!table.folded) continue;
      if (!any) out_.add("<section><h2>By policy</h2>\n");
      any = true;
      out_.put("<details><summary>{}</summary>\n", xml_escaped(table.title));
      content(table);
      out_.add("</details>\n");
    }
    if (any) out_.add("</section>\n");
  }

  void charts() {
    std::string figures;
    for (std::size_t i = 0; i < page_.charts.size(); ++i) {
      const StepChart& chart = page_.charts[i];
      const std::string svg = chart_svg(chart);
      if (svg.empty()) continue;
      figures += fmt::format("<figure data-chart=\"{}\"><figcaption>{}</figcaption>\n{}</figure>\n", i,
                             xml_escaped(chart.title), svg);
    }
    if (figures.empty()) return;
    out_.add("<section aria-label=\"over steps\"><h2>Over steps</h2>\n");
    if (!page_.runs.empty()) {
      out_.add("<p class=\"runs\">");
      for (std::size_t i = 0; i < page_.runs.size(); ++i) {
        out_.put("<span>{}{}</span>\n", curve(i), xml_escaped(page_.runs[i].name));
      }
      out_.add("</p>\n");
    }
    out_.add("<div class=\"charts\">\n" + figures + "</div>\n</section>\n");
  }

  const ReportPage& page_;
  TextWriter out_;
};

}  // namespace

std::string report_html(const ReportPage& page) {
  if (page.views.empty()) throw std::logic_error("a report without a recording");
  return Html(page).text();
}

}  // namespace weft::inspect
