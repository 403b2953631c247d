#include "runtime/simulate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace weft {
namespace {

// Times of a trace are whole nanoseconds.
constexpr double kTick = 2;

std::string kind_of(const Task& task) {
  const Channel* channel = channel_of(task.operation);
  const std::string kind(kind_name(task.operation));
  return channel == nullptr ? kind : fmt::format("{} on {}", kind, to_string(*channel));
}

/// One simulated step, by task.
class Step {
 public:
  explicit Step(const PlanReport& report) : plan(*report.plan), graph(*report.plan->graph), costs(report.costs) {
    const StepTrace& trace = report.step();
    begin_.resize(graph.tasks().size());
    end_.resize(graph.tasks().size());
    for (std::size_t i = 0; i < begin_.size(); ++i) {
      const Position at = plan.position[i];
      const TaskTime& time = trace.times[at.stream.index()][at.entry];
      begin_[i] = static_cast<double>(time.begin - trace.begin);
      end_[i] = static_cast<double>(time.end - trace.begin);
    }
  }

  double begin(TaskId task) const { return begin_[task.index()]; }
  double end(TaskId task) const { return end_[task.index()]; }
  const std::string& name(TaskId task) const { return graph.task(task).name; }
  bool collective(TaskId task) const { return is_collective(graph.task(task).operation); }

  /// The policy's words for the place of a task.
  const std::string& reason(TaskId task) const {
    const Position at = plan.position[task.index()];
    return plan.reasons[plan.streams[at.stream.index()].entries[at.entry].reason];
  }

  TaskId before_on_stream(TaskId task) const {
    const Position at = plan.position[task.index()];
    if (at.entry == 0) return TaskId();
    return plan.streams[at.stream.index()].entries[at.entry - 1].task;
  }

  /// The task whose results `task` had to wait for longest, of the graph's own edges.
  TaskId last_input(TaskId task) const {
    TaskId last;
    for (const Edge& edge : graph.in_edges(task)) {
      if (edge.distance == 0 && (!last.valid() || end(edge.from) > end(last))) last = edge.from;
    }
    return last;
  }
  double ready(TaskId task) const {
    const TaskId last = last_input(task);
    return last.valid() ? end(last) : 0;
  }

  /// The last of the edges into `task` that policy and memory planner added to be satisfied; none if it is invalid.
  /// Those from its own stream say no more than the queue does.
  Edge last_added(TaskId task) const {
    Edge last;
    for (const Edge& edge : plan.added_edges) {
      if (edge.to != task || edge.distance != 0) continue;
      if (plan.position[edge.from.index()].stream == plan.position[task.index()].stream) continue;
      if (!last.from.valid() || end(edge.from) > end(last.from)) last = edge;
    }
    return last;
  }

  const Plan& plan;
  const Graph& graph;
  const TaskCosts& costs;

 private:
  std::vector<double> begin_, end_;
};

/// Tasks that need the results of `task`, directly or not.
std::vector<bool> descendants(const Graph& graph, TaskId task) {
  std::vector<bool> found(graph.tasks().size(), false);
  std::vector<TaskId> open = {task};
  while (!open.empty()) {
    const TaskId next = open.back();
    open.pop_back();
    for (const std::uint32_t index : graph.out_edges(next)) {
      const Edge& edge = graph.edges()[index];
      if (edge.distance != 0 || found[edge.to.index()]) continue;
      found[edge.to.index()] = true;
      open.push_back(edge.to);
    }
  }
  return found;
}

/// The largest computation that could have run at `time` but stood behind others; invalid if there was none.
TaskId held_up(const Step& step, double time, const std::vector<bool>& needs_collective) {
  TaskId largest;
  double most = 0;
  for (const StreamPlan& stream : step.plan.streams) {
    if (!stream.stream.compute) continue;
    for (const Entry& entry : stream.entries) {
      if (step.begin(entry.task) <= time || needs_collective[entry.task.index()]) continue;
      const double ns = step.costs.ns[entry.task.index()];
      if (step.ready(entry.task) > time || ns <= most) continue;
      largest = entry.task;
      most = ns;
    }
  }
  return largest;
}

void find_cause(const Step& step, double first_exposed, ExposedCollective& exposed) {
  const TaskId task = exposed.task;
  const TaskId before = step.before_on_stream(task);
  const Edge added = step.last_added(task);
  if (exposed.begin_ns > exposed.ready_ns + kTick) {
    const double queue = before.valid() ? step.end(before) : 0, edge = added.from.valid() ? step.end(added.from) : 0;
    const double late = (exposed.begin_ns - exposed.ready_ns) * 1e-6;
    if (added.from.valid() && edge >= queue) {
      const std::string& reason = step.reason(task);
      if (reason.find("memory") != std::string::npos || reason.starts_with("limiter")) {
        exposed.cause = ExposureCause::memory_limit;
        exposed.because = fmt::format("issued {:.3f} ms late: {}", late, reason);
        return;
      }
      exposed.cause = ExposureCause::chosen;
      exposed.because =
          added.reason == EdgeReason::memory
              ? fmt::format("issued {:.3f} ms late: it uses memory that {} had to leave first", late,
                            step.name(added.from))
              : fmt::format("issued {:.3f} ms late: the policy lets it wait for {}", late, step.name(added.from));
      return;
    }
    if (before.valid()) {
      const Position at = step.plan.position[task.index()];
      exposed.cause = ExposureCause::queued;
      exposed.because = fmt::format("queued for {:.3f} ms behind {} on stream {}", late, step.name(before),
                                    step.plan.streams[at.stream.index()].stream.name);
      return;
    }
  }
  if (const TaskId waiting = held_up(step, first_exposed, descendants(step.graph, task)); waiting.valid()) {
    exposed.cause = ExposureCause::computation_order;
    exposed.because = fmt::format(
        "computations that don't need it were ready, {} for one, but stood behind one that does", step.name(waiting));
    return;
  }
  if (exposed.duration_ns > 1.05 * exposed.alone_ns + kTick) {
    exposed.cause = ExposureCause::contention;
    exposed.because = fmt::format("took {:.3f} ms instead of {:.3f}: others shared its link or its cores",
                                  exposed.duration_ns * 1e-6, exposed.alone_ns * 1e-6);
    return;
  }
  const TaskId input = step.last_input(task);
  exposed.cause = ExposureCause::data_dependency;
  exposed.because = fmt::format("started when {} was done, and nothing else could be computed until it ended",
                                input.valid() ? step.name(input) : std::string("the step began"));
}

/// The sequence of a plan as an order that can be changed and planned again.
Order order_of(const Plan& plan) {
  Order order;
  for (const StreamPlan& stream : plan.streams) order.streams.push_back(stream.stream);
  order.reasons = plan.reasons;
  for (const TaskId task : plan.sequence) {
    const Position at = plan.position[task.index()];
    order.sequence.push_back({task, at.stream, plan.streams[at.stream.index()].entries[at.entry].reason});
  }
  for (const Edge& edge : plan.added_edges) {
    if (edge.reason == EdgeReason::policy) order.added_edges.push_back(edge);
  }
  return order;
}

class Remedies {
 public:
  Remedies(const PlanningProblem& problem, const PlanReport& report)
      : problem_(problem), report_(report), options_(simulation_options(problem)) {
    options_.traced_ranks = 1;
  }

  void find(const Step& step, ExposedCollective& exposed) const {
    Tried tried;
    issue_at_once(step, exposed, tried);
    pass_queue(step, exposed, tried);
    compute_first(step, exposed, tried);
    lift_the_limit(exposed);
    cost_nothing(exposed);
    std::ranges::stable_sort(exposed.remedies, std::greater{}, &Remedy::gain_ns);
  }

  std::vector<Remedy> rewrites() const {
    std::vector<Remedy> remedies;
    for (const Rewrite& rewrite : {Rewrite(BucketAllReduces{}), Rewrite(SplitAllReduces{}),
                                   Rewrite(ReduceScatterAllGather{}), Rewrite(ReshardAfterForward{})}) {
      PlanningProblem changed = problem_;
      changed.rewrites.push_back(rewrite);
      const PlanReport other = report_plan(changed, report_.policy);
      if (other.planned()) remedies.push_back({to_string(rewrite), report_.step_ns() - other.step_ns()});
    }
    std::ranges::stable_sort(remedies, std::greater{}, &Remedy::gain_ns);
    return remedies;
  }

 private:
  using Tried = std::vector<std::vector<Placement>>;

  void issue_at_once(const Step& step, ExposedCollective& exposed, Tried& tried) const {
    if (exposed.begin_ns <= exposed.ready_ns + kTick) return;
    Order order = order_of(step.plan);
    std::erase_if(order.added_edges, [&](const Edge& edge) { return edge.to == exposed.task && edge.distance == 0; });
    const TaskId input = step.last_input(exposed.task);
    if (move_behind_inputs(step, order, exposed.task)) {
      try_order(order,
                fmt::format("issue it as soon as {} is done",
                            input.valid() ? step.name(input) : std::string("the step begins")),
                exposed, tried);
    }
  }

  void pass_queue(const Step& step, ExposedCollective& exposed, Tried& tried) const {
    if (exposed.cause != ExposureCause::queued) return;
    const TaskId before = step.before_on_stream(exposed.task);
    Order order = order_of(step.plan);
    const auto place = [&](TaskId task) { return std::ranges::find(order.sequence, task, &Placement::task); };
    // Everything that leads to it must come before the one that it passes.
    std::vector<bool> leads(step.graph.tasks().size(), false);
    leads[exposed.task.index()] = true;
    const auto first = place(before), last = place(exposed.task);
    for (auto at = last; at != first; --at) {
      if (!leads[at->task.index()]) continue;
      for (const Edge& edge : step.graph.in_edges(at->task)) {
        if (edge.distance == 0) leads[edge.from.index()] = true;
      }
    }
    if (leads[before.index()]) return;
    std::stable_partition(first, last + 1, [&](const Placement& p) { return leads[p.task.index()]; });
    std::erase_if(order.added_edges, [&](const Edge& edge) { return edge.to == exposed.task && edge.distance == 0; });
    drop_edges_against(order);
    try_order(order, fmt::format("issue it before {}", step.name(before)), exposed, tried);
  }

  /// Computations that don't need the collective go ahead of the first one that does, as many as it takes to hide it.
  void compute_first(const Step& step, ExposedCollective& exposed, Tried& tried) const {
    const std::vector<bool> needs = descendants(step.graph, exposed.task);
    Order order = order_of(step.plan);
    const auto first = std::ranges::find_if(
        order.sequence, [&](const Placement& p) { return needs[p.task.index()] && !step.collective(p.task); });
    if (first == order.sequence.end()) return;
    std::vector<bool> stays(needs.size(), false);
    TaskId example;  // the largest computation that moves
    double filled = 0;
    for (auto at = first; at != order.sequence.end(); ++at) {
      bool can_go = !needs[at->task.index()] && filled < exposed.exposed_ns;
      for (const Edge& edge : step.graph.in_edges(at->task)) {
        if (edge.distance == 0 && stays[edge.from.index()]) can_go = false;
      }
      if (!can_go) {
        stays[at->task.index()] = true;
        continue;
      }
      if (step.collective(at->task)) continue;
      const double ns = step.costs.ns[at->task.index()];
      filled += ns;
      if (!example.valid() || ns > step.costs.ns[example.index()]) example = at->task;
    }
    if (filled <= 0) return;
    std::stable_partition(first, order.sequence.end(), [&](const Placement& p) { return !stays[p.task.index()]; });
    drop_edges_against(order);
    try_order(
        order,
        fmt::format("compute {:.3f} ms that don't need it ({}, …) before what does", filled * 1e-6, step.name(example)),
        exposed, tried);
  }

  void lift_the_limit(ExposedCollective& exposed) const {
    if (exposed.cause != ExposureCause::memory_limit || problem_.options.memory_limit == 0) return;
    PlanningProblem unlimited = problem_;
    unlimited.options.memory_limit = 0;
    const PlanReport other = report_plan(unlimited, report_.policy);
    if (!other.planned()) return;
    exposed.remedies.push_back({fmt::format("without a memory limit ({} MiB of scratch instead of {})",
                                            other.plan->scratch_bytes >> 20, report_.plan->scratch_bytes >> 20),
                                report_.step_ns() - other.step_ns()});
  }

  void cost_nothing(ExposedCollective& exposed) const {
    TaskCosts costs = report_.costs;
    costs.ns[exposed.task.index()] = costs.cpu_ns[exposed.task.index()] = 0;
    const Simulation other = simulate(*report_.plan, costs, problem_.machine, options_);
    exposed.remedies.push_back({"if it took no time at all", report_.step_ns() - other.step_ns});
  }

  /// As early in the sequence as the graph allows; false if it stands there already.
  static bool move_behind_inputs(const Step& step, Order& order, TaskId task) {
    const auto from = std::ranges::find(order.sequence, task, &Placement::task);
    auto behind = order.sequence.begin();
    for (const Edge& edge : step.graph.in_edges(task)) {
      if (edge.distance != 0) continue;
      behind = std::max(behind, std::ranges::find(order.sequence, edge.from, &Placement::task) + 1);
    }
    if (behind >= from) return false;
    std::rotate(behind, from, from + 1);
    drop_edges_against(order);
    return true;
  }

  /// The policy's edges that the changed sequence contradicts.
  static void drop_edges_against(Order& order) {
    std::vector<std::size_t> place(order.sequence.size());
    for (std::size_t i = 0; i < order.sequence.size(); ++i) place[order.sequence[i].task.index()] = i;
    std::erase_if(order.added_edges, [&](const Edge& edge) {
      return edge.distance == 0 && place[edge.from.index()] >= place[edge.to.index()];
    });
  }

  void try_order(const Order& order, std::string what, ExposedCollective& exposed, Tried& tried) const {
    if (std::ranges::find(tried, order.sequence) != tried.end()) return;
    tried.push_back(order.sequence);
    const Plan plan = make_plan(report_.plan->graph, order, report_.plan->policy);
    const Simulation other = simulate(plan, report_.costs, problem_.machine, options_);
    exposed.remedies.push_back({std::move(what), report_.step_ns() - other.step_ns});
  }

  const PlanningProblem& problem_;
  const PlanReport& report_;
  SimulationOptions options_;
};

/// From the last task back to the first: each one's latest reason to wait.
std::vector<PathPiece> critical_path(const Step& step) {
  std::vector<TaskId> chain;
  TaskId last;
  for (std::size_t i = 0; i < step.graph.tasks().size(); ++i) {
    if (!last.valid() || step.end(TaskId(i)) > step.end(last)) last = TaskId(i);
  }
  while (last.valid()) {
    chain.push_back(last);
    TaskId latest;
    for (const TaskId other : {step.last_input(last), step.before_on_stream(last), step.last_added(last).from}) {
      if (other.valid() && (!latest.valid() || step.end(other) > step.end(latest))) latest = other;
    }
    last = latest;
  }
  std::ranges::reverse(chain);
  std::vector<PathPiece> path;
  double until = 0;
  for (const TaskId task : chain) {
    const std::string kind = kind_of(step.graph.task(task));
    const double ns = std::max(0.0, step.end(task) - std::max(until, 0.0));
    until = std::max(until, step.end(task));
    const Phase phase = step.graph.task(task).phase;
    if (path.empty() || path.back().kind != kind || path.back().phase != phase) {
      path.push_back({kind, phase, step.name(task), "", 0, 0});
    }
    path.back().last = step.name(task);
    path.back().ns += ns;
    ++path.back().tasks;
  }
  return path;
}

/// "mb0.L3.mlp.up" becomes "mb*.L*.mlp.up".
std::string without_numbers(const std::string& name) {
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string text;
  for (std::size_t at = 0; at < name.size();) {
    const bool begins = at == 0 || !letter(name[at - 1]);
    const std::string_view rest = std::string_view(name).substr(at);
    const std::size_t prefix = !begins ? 0 : rest.starts_with("mb") ? 2 : rest.starts_with("L") ? 1 : 0;
    std::size_t end = at + prefix;
    while (prefix > 0 && end < name.size() && digit(name[end])) ++end;
    if (prefix == 0 || end == at + prefix || (end < name.size() && letter(name[end]))) {
      text += name[at++];
      continue;
    }
    text += name.substr(at, prefix) + "*";
    at = end;
  }
  return text;
}

std::vector<ExposureGroup> groups_of(const Step& step, const std::vector<ExposedCollective>& collectives) {
  std::map<std::tuple<std::string, std::string, ExposureCause>, std::size_t> known;
  std::vector<ExposureGroup> groups;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const ExposedCollective& exposed = collectives[i];
    const std::string name = without_numbers(step.name(exposed.task));
    const auto [at, is_new] =
        known.emplace(std::tuple(name, kind_of(step.graph.task(exposed.task)), exposed.cause), groups.size());
    if (is_new) groups.push_back({name, {}, 0});
    groups[at->second].members.push_back(i);
    groups[at->second].exposed_ns += exposed.exposed_ns;
  }
  for (ExposureGroup& group : groups) {
    if (group.members.size() == 1) group.name = step.name(collectives[group.members.front()].task);
  }
  std::ranges::stable_sort(groups, std::greater{}, &ExposureGroup::exposed_ns);
  return groups;
}

/// The worst of each group, so that each has its remedies, then all others.
std::vector<std::size_t> worst_first(const Explanation& explanation) {
  std::vector<std::size_t> order;
  for (const ExposureGroup& group : explanation.groups) order.push_back(group.members.front());
  for (std::size_t i = 0; i < explanation.collectives.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  return order;
}

}  // namespace

std::string_view to_string(ExposureCause cause) {
  switch (cause) {
    case ExposureCause::data_dependency:
      return "data dependency";
    case ExposureCause::computation_order:
      return "order of computations";
    case ExposureCause::queued:
      return "queued behind another";
    case ExposureCause::chosen:
      return "issued late by choice";
    case ExposureCause::memory_limit:
      return "memory limit";
    case ExposureCause::contention:
      return "contention";
  }
  return "?";
}

Explanation explain(const PlanningProblem& problem, const PlanReport& report, const ExplainOptions& options) {
  const Step step(report);
  const StepTrace& trace = report.step();
  const Intervals& computing = busy_times(*report.plan, trace).compute;
  Explanation explanation;
  std::vector<std::string> names;
  for (const TaskId task : report.plan->collectives) {
    names.push_back(step.name(task));
    if (!options.only.empty() && step.name(task) != options.only) continue;
    const auto begin = trace.begin + static_cast<std::int64_t>(step.begin(task));
    const auto end = trace.begin + static_cast<std::int64_t>(step.end(task));
    const Intervals exposed = difference(merged({{begin, end}}), computing);
    const auto exposed_ns = static_cast<double>(total_length(exposed));
    if (exposed_ns < options.least_ns && options.only.empty()) continue;
    ExposedCollective found;
    found.task = task;
    found.exposed_ns = exposed_ns;
    found.duration_ns = step.end(task) - step.begin(task);
    found.alone_ns = step.costs.ns[task.index()];
    found.ready_ns = step.ready(task);
    found.begin_ns = step.begin(task);
    const double first = exposed.empty() ? found.begin_ns : static_cast<double>(exposed.front().begin - trace.begin);
    find_cause(step, first, found);
    explanation.collectives.push_back(std::move(found));
  }
  if (!options.only.empty() && explanation.collectives.empty()) {
    const std::string nearest = nearest_name(options.only, names);
    throw UserError(fmt::format("the plan has no collective \"{}\"", options.only),
                    fmt::format("one of its {} collectives", names.size()),
                    nearest.empty() ? "`weft graph` shows them" : fmt::format("write \"{}\"", nearest));
  }
  std::ranges::stable_sort(explanation.collectives, std::greater{}, &ExposedCollective::exposed_ns);
  explanation.groups = groups_of(step, explanation.collectives);
  const Remedies remedies(problem, report);
  const std::vector<std::size_t> worst = worst_first(explanation);
  for (std::size_t i = 0; i < std::min(options.most_remedied, worst.size()); ++i) {
    remedies.find(step, explanation.collectives[worst[i]]);
  }
  explanation.path = critical_path(step);
  if (options.rewrites) explanation.rewrites = remedies.rewrites();
  return explanation;
}

}  // namespace weft
