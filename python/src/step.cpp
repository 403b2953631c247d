#include "python/src/step.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "inspect/drawing/pipeline_chart.h"
#include "inspect/drawing/timeline.h"
#include "inspect/formats/graph_file.h"
#include "python/src/arrays.h"
#include "python/src/function_policy.h"
#include "python/src/host.h"
#include "runtime/cost/scaled_costs.h"
#include "runtime/plan/checker.h"
#include "runtime/plan/plan_file.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/library/policy_library.h"
#include "runtime/policy/python/joined_problem.h"
#include "runtime/simulate/certify/window_bounds.h"
#include "runtime/simulate/explain.h"
#include "runtime/simulate/open_problem.h"
#include "study/policy_step.h"
#include "tools/input/open_input.h"
#include "train/config/resolved_run.h"
#include "train/step/planning.h"

namespace weft::python {
namespace {

std::vector<train::Setting> settings_of(const Keys& keys) {
  std::vector<train::Setting> settings;
  for (const auto& [key, value] : keys) settings.push_back({key, value, key});
  return settings;
}

/// What a Problem outside a policy's call needs for as long as it lives.
struct OwnProblem {
  explicit OwnProblem(const simulate::Problem& of)
      : classes(of.classes),
        options(of.options),
        call(name, parameters, classes, options),
        joined(name, call.problem(), call.host()) {}

  const std::string name = "of Python", parameters;
  const std::vector<std::shared_ptr<const graph::Graph>> classes;
  const policy::PolicyOptions options;
  policy::LibraryCall call;
  policy::JoinedProblem joined;
};

py::dict times_of(const simulate::Bounds& bounds) {
  py::dict result;
  result["critical_path_ns"] = bounds.critical_path;
  result["work_ns"] = bounds.work;
  result["one_machine_ns"] = bounds.one_machine;
  result["energy_ns"] = bounds.energy;
  result["contention_ns"] = bounds.contention;
  result["windows_ns"] = bounds.windows;
  result["best_ns"] = bounds.best();
  return result;
}

py::dict row_of(const simulate::Remedy& remedy, const std::string& of) {
  py::dict row;
  row["of"] = of;
  row["kind"] = std::string(identifier_of(remedy.kind));
  row["what"] = remedy.what;
  row["gain_ns"] = remedy.gain_ns;
  row["memory_bytes"] = remedy.memory_bytes;
  row["fits"] = remedy.fits;
  return row;
}

/// These costs in place of the times of a class, whose tasks they are of.
void set_costs(graph::OpenClass& one, const cost::TaskCosts& costs) {
  for (std::size_t i = 0; i < one.tasks.size(); ++i) {
    graph::OpenTask& task = one.tasks[i];
    const double factor = task.ns && *task.ns > 0 ? costs.ns.at(i) / *task.ns : 1;
    task.ns = costs.ns.at(i);
    for (std::optional<double>* part : {&task.beside_ns, &task.link_ns, &task.cpu_ns}) {
      if (part->has_value()) **part *= factor;
    }
  }
}

}  // namespace

std::shared_ptr<Step> Step::of_config(const std::string& file, const Keys& keys) {
  train::RunConfig config;
  if (!file.empty()) train::load_toml(config, file);
  train::apply_command_line(config, settings_of(keys));
  const train::ResolvedRun run = train::resolve(std::move(config), 0);
  auto step = std::make_shared<Step>();
  step->problem = train::planning_problem(run);
  step->title = fmt::format("{} on {} ranks ({})", run.config.model.name, run.config.grid.ranks(),
                            graph::to_string(run.config.grid));
  step->default_policy = run.policy.name;
  return step;
}

std::shared_ptr<Step> Step::of_open_graph(graph::OpenGraph graph, const std::string& class_name,
                                          const std::string& keep_order, const std::vector<std::string>& bandwidths,
                                          const Keys& keys) {
  tools::OpenSettings settings;
  settings.flags.wanted = class_name;
  settings.flags.kept = keep_order;
  for (const std::string& text : bandwidths) settings.flags.bandwidths.push_back(cost::parse_bandwidth(text));
  settings.settings = settings_of(keys);
  tools::OpenInput input = tools::open_input(std::move(graph), settings);
  auto step = std::make_shared<Step>();
  step->title = input.title();
  step->default_policy = input.policy.name;
  step->problem = std::move(input.problem);
  step->class_index = input.class_index;
  step->open = std::move(input.graph);
  return step;
}

py::object Step::python_problem() {
  const auto own = std::make_shared<OwnProblem>(problem);
  return problem_of(own->joined, std::make_shared<Host>(own->joined, own));
}

std::shared_ptr<Step> Step::scaled(const std::vector<std::pair<std::string, double>>& factors) const {
  auto step = std::make_shared<Step>(*this);
  std::vector<cost::NamedFactor> scales;
  scales.reserve(factors.size());
  for (const auto& [pattern, factor] : factors) {
    scales.push_back(cost::parse_cost_scale(fmt::format("{}={}", pattern, factor)));
  }
  step->problem.options.cost_model = cost::scaled_costs(problem.options.cost_model, std::move(scales));
  for (const auto& graph : problem.classes) (void)step->problem.options.cost_model->costs(*graph);
  return step;
}

std::shared_ptr<Step> Step::with_memory(std::int64_t bytes) const {
  if (bytes < 0) throw UserError(fmt::format("memory = {}", bytes), "a number of bytes; 0: no limit", "0 or more");
  auto step = std::make_shared<Step>(*this);
  step->problem.options.memory = bytes;
  step->problem.options.memory_limit = 0;
  return step;
}

py::dict Step::bounds() const {
  simulate::ProblemBounds own = simulate::bounds_of(problem);
  simulate::prove_windows(problem, {}, &own);
  return times_of(own.bounds);
}

void Step::write_graph(const std::string& path) const {
  if (!inspect::is_graph_file(path)) {
    throw UserError(path, "a name that ends in .graph.json or .graph.json.gz", "call it step.graph.json");
  }
  std::vector<cost::TaskCosts> costs;
  for (const auto& graph : problem.classes) costs.push_back(policy::costs_of(*graph, problem.options));
  if (open) {
    graph::OpenGraph written = *open;
    for (std::size_t k = 0; k < costs.size(); ++k) set_costs(written.classes.at(class_index + k), costs[k]);
    inspect::write_graph_file(path, written, Named::by_person);
    return;
  }
  inspect::write_graph_file(path, simulate::open_graph_of(problem.classes, costs, problem, title), Named::by_person);
}

Report::Report(std::shared_ptr<Step> step, const py::object& policy)
    : step_(std::move(step)), report_(simulate::report_plan(step_->problem, policy_of(policy))) {
  simulate::prove_windows(step_->problem, {&report_, 1});
  if (report_.planned()) return;
  raise_failure_of(report_.policy);
  throw UserError(report_.refusal, "", "");
}

py::dict Report::summary() const {
  py::dict row;
  row["policy"] = report_.policy.name;
  row["step_ns"] = report_.step_ns();
  row["gap"] = report_.gap();
  row["bound_ns"] = report_.bounds.best();
  const simulate::ClassTimes& times = report_.most_exposed().times;
  row["exposed_ns"] = times.exposed;
  row["communication_ns"] = times.communication;
  row["compute_ns"] = times.compute;
  row["overlap"] = times.overlap_fraction();
  row["memory_bytes"] = report_.memory_bytes();
  row["scratch_bytes"] = report_.scratch_bytes();
  row["planning_ms"] = report_.planning_ms;
  row["rewrites"] = plan::to_string(std::span<const plan::Rewrite>(report_.first().rewrites));
  return row;
}

std::vector<std::string> Report::violations() const {
  std::vector<std::string> texts;
  for (const plan::Violation& violation : plan::check(report_.plans())) texts.push_back(violation.message);
  return texts;
}

py::dict Report::timeline() const {
  std::vector<std::string> tasks, streams, kinds, reasons;
  std::vector<std::uint32_t> of_class;
  std::vector<double> begin, end;
  for (std::uint32_t k = 0; k < report_.classes.size(); ++k) {
    const plan::Plan& plan = *report_.classes[k].plan;
    const plan::StepTrace& trace = report_.step(k);
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      for (std::size_t e = 0; e < plan.streams[s].entries.size(); ++e) {
        const plan::Entry& entry = plan.streams[s].entries[e];
        tasks.push_back(plan.graph->task(entry.task).name);
        kinds.emplace_back(graph::kind_name(plan.graph->task(entry.task).operation));
        streams.push_back(plan.streams[s].stream.name);
        begin.push_back(static_cast<double>(trace.times[s][e].begin - trace.begin));
        end.push_back(static_cast<double>(trace.times[s][e].end - trace.begin));
        reasons.push_back(plan::to_string(plan.reasons.at(entry.reason)));
        of_class.push_back(k);
      }
    }
  }
  py::dict columns;
  columns["task"] = array_of(tasks);
  columns["kind"] = array_of(kinds);
  columns["stream"] = array_of(streams);
  columns["begin_ns"] = array_of(begin);
  columns["end_ns"] = array_of(end);
  columns["reason"] = array_of(reasons);
  columns["of_class"] = array_of(of_class);
  return columns;
}

py::list Report::exposed(double least_ns) const {
  py::list rows;
  for (std::size_t k = 0; k < report_.classes.size(); ++k) {
    const simulate::Explanation explanation = simulate::explain(
        step_->problem, report_, {.only = "", .least_ns = least_ns, .most_remedied = 0, .rewrites = false}, k);
    for (const simulate::ExposedCollective& each : explanation.collectives) {
      py::dict row;
      row["task"] = report_.classes[k].graph().task(each.task).name;
      row["exposed_ns"] = each.exposed_ns;
      row["duration_ns"] = each.duration_ns;
      row["cause"] = std::string(identifier_of(each.cause));
      row["because"] = each.because;
      row["of_class"] = k;
      rows.append(row);
    }
  }
  return rows;
}

py::list Report::remedies(double least_ns) const {
  py::list rows;
  for (std::size_t k = 0; k < report_.classes.size(); ++k) {
    simulate::ExplainOptions options;
    options.least_ns = least_ns;
    options.rewrites = k == 0;  // of the whole step
    const simulate::Explanation explanation = simulate::explain(step_->problem, report_, options, k);
    for (const simulate::ExposureGroup& group : explanation.groups) {
      for (const simulate::Remedy& remedy : group.remedies) rows.append(row_of(remedy, group.name));
    }
    for (const simulate::Remedy& remedy : explanation.between_passes) rows.append(row_of(remedy, ""));
    for (const simulate::Remedy& remedy : explanation.rewrites) rows.append(row_of(remedy, ""));
  }
  return rows;
}

void Report::write_plan(const std::string& path) const {
  plan::PlanFile file;
  for (const simulate::ClassReport& each : report_.classes) file.push_back(plan::filed(*each.plan, each.rewrites));
  write_durable(path, plan::to_json(file), Named::by_person);
}

std::string Report::svg() const {
  if (report_.classes.size() > 1) {
    const inspect::PipelineChart chart = inspect::pipeline_chart(report_, step_->problem.grid);
    return inspect::pipeline_picture({&chart, 1}).svg();
  }
  const plan::Recording recording = study::recording_of(report_, step_->problem.grid);
  const std::vector<inspect::TimelinePart> parts = {{step_->title, &recording, report_.bounds.best()}};
  return inspect::timeline_picture(parts).svg();
}

}  // namespace weft::python
