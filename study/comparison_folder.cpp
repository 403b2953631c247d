#include "study/comparison_folder.h"

#include <fmt/format.h>

#include <regex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/durable_file.h"
#include "base/files/input_file.h"
#include "base/overloaded.h"
#include "base/text/json_object.h"
#include "inspect/drawing/draw.h"
#include "inspect/drawing/render.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/graph_file.h"
#include "inspect/formats/recorded_file.h"
#include "inspect/report/policy_difference.h"
#include "inspect/report/report_tables.h"
#include "runtime/simulate/explain.h"
#include "study/traced_costs.h"

namespace weft::study {
namespace {

constexpr const char* kFormat = "weft-comparison";
constexpr int kVersion = 1;
constexpr const char* kFix = "weft compare … -o FOLDER writes one";
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

std::string trace_name(std::size_t view) {
  return fmt::format("trace_{}.json", view);
}

void draw_graph(KeptComparison& kept, const simulate::Report& report, const graph::Grid& grid) {
  inspect::DrawingOptions options;
  options.grid = grid;
  options.title = fmt::format("one step of one rank of {}, policy {}", grid.ranks(), report.policy.name);
  kept.graph_view = report.classes.size() == 1 ? report.policy.name : report.policy.name + ", stage 0";
  kept.graph_note = fmt::format("As {} runs it, the fastest of these policies.", report.policy.name);
  try {
    kept.graph_svg = inspect::render_svg(inspect::plan_dot(*report.first().plan, "graph.dot", options));
  } catch (const UserError& error) {
    kept.graph_note = fmt::format("Not drawn: {}", error.what());
  }
}

std::string text_of(const std::filesystem::path& file, std::string_view expected) {
  return read_text_file(file, "the file", kMostBytes, expected, kFix);
}

/// The drawing becomes a part of the page, so it must not contain scripts.
std::string drawing_of(const std::filesystem::path& file) {
  std::string svg = text_of(file, "a drawing");
  static const std::regex active("<script|<foreignobject|javascript:|[\\s\"'/]on[a-z]+\\s*=", std::regex::icase);
  if (svg.find("<svg") == std::string::npos || std::regex_search(svg, active)) {
    throw UserError(fmt::format("{} isn't a drawing of Weft's", file.string()), "SVG without scripts", kFix);
  }
  return svg;
}

void write_step(const std::filesystem::path& folder, const ComparedStep& step) {
  const auto write_config = [&](const train::RunConfig& config) {
    write_durable(folder / "config.toml", train::dump_toml(config));
  };
  const auto write_graph = [&](const ComparedGraph& open) {
    inspect::write_graph_file(folder / "step.graph.json.gz", open.graph);
  };
  std::visit(Overloaded{write_config, write_graph}, step);
}

/// Each policy against the first one, class by class.
void add_differences(inspect::ReportPage& page, const std::vector<inspect::ReportView>& views, std::size_t classes) {
  std::vector<inspect::PolicyDifference> differences;
  for (std::size_t i = classes; i < views.size(); ++i) {
    const inspect::ReportView& first = views[i % classes];
    differences.push_back(inspect::policy_difference(first.recording, views[i].recording));
    inspect::ReportTable table = inspect::moves_table(first, views[i], differences.back());
    table.folded = views.size() > 2;
    page.trailing.push_back(std::move(table));
  }
  if (!differences.empty() && classes == 1) page.leading.push_back(inspect::gain_table(views, differences));
}

/// Keeps what one class did, and returns its verdict.
Verdict keep_view(KeptComparison& kept, const PolicyStep& step, std::size_t of_class, std::vector<Change> settings) {
  const simulate::Problem& problem = step.problem;
  const simulate::Report& report = step.report;
  const plan::Plan& plan = *report.classes[of_class].plan;
  const bool measured = !step.has_stages() && !step.measured.last.empty();
  plan::Recording recording = recording_of(report, problem.grid, of_class);
  if (measured) {
    const plan::RankTrace traced{0, step.measured.last};
    recording = plan::record(plan, {&traced, 1}, static_cast<int>(problem.grid.ranks()), problem.grid);
  }
  simulate::ExplainOptions options;
  options.rewrites = false;
  simulate::Explanation why;
  double bound_ns = report.bounds.best();
  Verdict verdict;
  if (!measured) {
    why = simulate::explain(problem, report, options, of_class);
    verdict = verdict_of(report, of_class, why, std::move(settings));
  } else {
    // Beside measured times only a model that is made of them means something.
    const simulate::Problem costs = with_traced_costs(problem, report.plans(), {&recording, 1});
    simulate::Report own = report;
    simulate::simulate_again(own, costs);
    why = simulate::explain(costs, own, options, of_class);
    bound_ns = own.bounds.best();
    verdict = verdict_of(own, of_class, why);
  }
  kept.causes.push_back(inspect::causes_json(*plan.graph, why).text());
  kept.views.push_back(
      {report.classes.size() == 1 ? report.policy.name : fmt::format("{}, stage {}", report.policy.name, of_class),
       std::move(recording),
       {{"lower bound", bound_ns}},
       inspect::links_of(*plan.graph, problem.machine, problem.grid)});
  return verdict;
}

}  // namespace

KeptComparison keep_comparison(const Comparison& comparison,
                               const std::function<std::vector<Change>(const PolicyStep&)>& settings) {
  KeptComparison kept;
  kept.comparison = comparison_json(comparison).text();
  std::set<std::string> names;
  const PolicyStep* fastest = nullptr;
  for (const PolicyStep& step : comparison.steps) {
    const bool less = fastest == nullptr || step.report.step_ns() < fastest->report.step_ns();
    if (step.report.planned() && less) fastest = &step;
  }
  for (const PolicyStep& step : comparison.steps) {
    const simulate::Report& report = step.report;
    if (!report.planned() || !names.insert(report.policy.name).second) continue;
    kept.classes = report.classes.size();
    for (std::size_t k = 0; k < kept.classes; ++k) {
      const bool first = &step == fastest && k == 0;
      const Verdict verdict = keep_view(kept, step, k, first && settings ? settings(step) : std::vector<Change>());
      if (!first) continue;
      kept.verdict = lines_of(verdict);
      if (comparison.steps.size() > 1)
        kept.verdict.front() = fmt::format("{} is {}.", report.policy.name, verdict.text);
    }
  }
  if (fastest != nullptr) draw_graph(kept, fastest->report, fastest->problem.grid);
  return kept;
}

bool names_folder(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) || (!path.has_extension() && !written_at_once(path));
}

void expect_comparison_folder(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder)) {
    expect_writable(folder);
    return;
  }
  const bool ours = std::filesystem::exists(folder / "comparison.json");
  if (!ours && (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder))) {
    throw UserError(fmt::format("{} holds other files", folder.string()),
                    "a new folder, an empty one or one of weft compare", "-o with another name");
  }
}

void write_comparison(const std::filesystem::path& folder, const ComparedStep& step, const KeptComparison& kept) {
  DurableFolder writing(behind_links(std::filesystem::absolute(folder)));
  write_step(writing.path(), step);
  JsonArray views;
  for (std::size_t i = 0; i < kept.views.size(); ++i) {
    const inspect::ReportView& view = kept.views[i];
    inspect::write_chrome_file(writing.path() / trace_name(i), view.recording);
    JsonArray bounds;
    for (const inspect::ReportBound& bound : view.bounds) {
      bounds.add(JsonObject().add("name", bound.name).add("ns", bound.ns));
    }
    views.add(JsonObject()
                  .add("bounds", bounds)
                  .add("causes", JsonValue::written(kept.causes[i]))
                  .add("links", JsonObject().add("bandwidth", view.links.bandwidth).add("machine", view.links.machine))
                  .add("policy", view.name));
  }
  JsonObject document;
  document.add("comparison", JsonValue::written(kept.comparison))
      .add("format", kFormat)
      .add("graph_note", kept.graph_note)
      .add("graph_view", kept.graph_view);
  if (const auto* open = std::get_if<ComparedGraph>(&step)) document.add("graph_flags", open->flags);
  if (kept.classes > 1) document.add("classes", kept.classes);
  if (!kept.verdict.empty()) document.add("verdict", kept.verdict);
  document.add("version", kVersion).add("views", views);
  if (!kept.graph_svg.empty()) write_durable(writing.path() / "graph.svg", kept.graph_svg);
  write_durable(writing.path() / "comparison.json", indented_json(document.text(), 1, JsonKeys::sorted) + "\n");
  writing.commit();
}

KeptComparison read_comparison(const std::filesystem::path& folder) {
  const std::string name = (folder / "comparison.json").string();
  const Document document = read_json(text_of(name, "what weft compare keeps"), name, {.fix = kFix});
  const DocumentValue in = document.of_format("a comparison that weft keeps", kFormat, kVersion);
  KeptComparison kept;
  const DocumentValue comparison = in["comparison"];
  inspect::policies_table(comparison);  // throws unless it can be read
  (void)comparison["title"].text();
  (void)comparison["costs"].text();
  kept.comparison = comparison.shown();
  kept.graph_note = in["graph_note"].text();
  kept.graph_view = in["graph_view"].text();
  for (const DocumentValue& entry : in["views"].items()) {
    inspect::ReportView view{.name = entry["policy"].text()};
    for (const DocumentValue& bound : entry["bounds"].items()) {
      view.bounds.push_back({bound["name"].text(), bound["ns"].number()});
    }
    if (const auto links = entry.find("links")) {  // older folders have none
      view.links.machine = (*links)["machine"].text();
      for (const auto& [axis, bandwidth] : (*links)["bandwidth"].members()) {
        view.links.bandwidth[axis] = bandwidth.number();
      }
    }
    inspect::causes_table(entry["causes"], "");
    kept.causes.push_back(entry["causes"].shown());
    kept.views.push_back(std::move(view));
  }
  if (const auto verdict = in.find("verdict")) {
    for (const DocumentValue& line : verdict->items()) kept.verdict.push_back(line.text());
  }
  if (kept.views.empty()) in["views"].refuse("has no policy with a plan", "one at least");
  if (const auto classes = in.find("classes")) {
    kept.classes = static_cast<std::size_t>(classes->integer(1, std::ssize(kept.views)));
    if (kept.views.size() % kept.classes != 0) classes->refuse("the number of rank classes, which each policy has");
  }
  for (std::size_t i = 0; i < kept.views.size(); ++i) {
    plan::Recording& recording = kept.views[i].recording = inspect::read_recording(folder / trace_name(i));
    if (recording.ranks.empty() || recording.ranks.front().steps.empty()) {
      throw UserError(fmt::format("{} holds no step", (folder / trace_name(i)).string()), "one step", kFix);
    }
  }
  if (std::filesystem::exists(folder / "graph.svg")) kept.graph_svg = drawing_of(folder / "graph.svg");
  return kept;
}

inspect::ReportPage comparison_page(KeptComparison kept) {
  inspect::ReportPage page;
  const Document comparison = read_json(kept.comparison, "the comparison", {.fix = kFix});
  page.title = comparison.root()["title"].text();
  page.subtitle = fmt::format("policies compared; costs: {}", comparison.root()["costs"].text());
  if (const auto note = comparison.root().find("summation_note"); note && !note->text().empty()) {  // older: none
    page.subtitle += "; " + note->text();
  }
  page.verdict = std::move(kept.verdict);
  page.leading.push_back(inspect::policies_table(comparison.root()));
  page.timeline_note =
      fmt::format("One step of {}{}.", kept.classes == 1 ? "rank 0" : "a rank of each stage",
                  kept.views.size() == kept.classes ? "" : " under each policy, from the same moment on");
  page.graph_svg = std::move(kept.graph_svg);
  page.graph_note = std::move(kept.graph_note);
  page.graph_view = std::move(kept.graph_view);
  add_differences(page, kept.views, kept.classes);
  for (std::size_t i = 0; i < kept.views.size(); ++i) {
    const std::string& name = kept.views[i].name;
    const Document causes = read_json(kept.causes[i], "the causes", {.fix = kFix});
    for (inspect::ReportTable table :
         {inspect::shares_table(kept.views[i].recording),
          inspect::bandwidth_table(kept.views[i].recording, kept.views[i].links),
          inspect::exposed_table(kept.views[i].recording, name), inspect::causes_table(causes.root(), name)}) {
      if (kept.views.size() > 1) {
        table.title = fmt::format("{}: {}", name, table.title);
        table.folded = true;
      }
      page.trailing.push_back(std::move(table));
    }
  }
  page.views = std::move(kept.views);
  return page;
}

}  // namespace weft::study
