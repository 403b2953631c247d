#include "runtime/simulate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "runtime/simulate/remedies.h"

namespace weft::simulate {

std::string group_name(const std::string& name) {
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

namespace {

/// `collectives` by falling exposed time.
std::vector<ExposureGroup> exposure_groups(const SimulatedStep& step,
                                           const std::vector<ExposedCollective>& collectives) {
  std::map<std::tuple<std::string, std::string, ExposureCause>, std::size_t> known;
  std::vector<ExposureGroup> groups;
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const ExposedCollective& exposed = collectives[i];
    const std::string name = group_name(step.name(exposed.task));
    const auto [at, is_new] = known.emplace(
        std::tuple(name, kind_of(step.graph, step.graph.task(exposed.task)), exposed.cause), groups.size());
    if (is_new) groups.push_back({name, {}, 0, {}});
    groups[at->second].members.push_back(i);
    groups[at->second].exposed_ns += exposed.exposed_ns;
  }
  for (ExposureGroup& group : groups) {
    if (group.members.size() == 1) group.name = step.name(collectives[group.members.front()].task);
  }
  std::ranges::stable_sort(groups, std::greater{}, &ExposureGroup::exposed_ns);
  return groups;
}

std::vector<graph::TaskId> critical_tasks(const SimulatedStep& step) {
  std::vector<graph::TaskId> chain;
  graph::TaskId last;
  for (std::size_t i = 0; i < step.graph.tasks().size(); ++i) {
    if (!last.valid() || step.end(graph::TaskId(i)) > step.end(last)) last = graph::TaskId(i);
  }
  while (last.valid()) {
    chain.push_back(last);
    graph::TaskId latest;
    for (const graph::TaskId other : {step.last_input(last), step.before_on_stream(last), step.last_added(last).from}) {
      if (other.valid() && (!latest.valid() || step.end(other) > step.end(latest))) latest = other;
    }
    last = latest;
  }
  std::ranges::reverse(chain);
  return chain;
}

std::vector<PathPiece> path_pieces(const SimulatedStep& step) {
  std::vector<PathPiece> path;
  double until = 0;
  for (const graph::TaskId task : critical_tasks(step)) {
    const std::string kind = kind_of(step.graph, step.graph.task(task));
    const double ns = std::max(0.0, step.end(task) - std::max(until, 0.0));
    until = std::max(until, step.end(task));
    const graph::Phase phase = step.graph.task(task).phase;
    if (path.empty() || path.back().kind != kind || path.back().phase != phase) {
      path.push_back({kind, phase, step.name(task), "", 0, 0});
    }
    path.back().last = step.name(task);
    path.back().ns += ns;
    ++path.back().tasks;
  }
  return path;
}

/// The collectives of the plan that the options ask for: all, one by its name, or the members of a group.
std::vector<graph::TaskId> asked_for(const SimulatedStep& step, const std::string& only) {
  std::vector<graph::TaskId> tasks;
  std::vector<std::string> names;
  std::set<std::string> groups;
  for (const graph::TaskId task : step.plan.collectives) {
    const std::string& name = step.name(task);
    names.push_back(name);
    if (groups.insert(group_name(name)).second) names.push_back(group_name(name));
    if (only.empty() || name == only || group_name(name) == only) tasks.push_back(task);
  }
  if (tasks.empty() && !only.empty()) {
    const std::string nearest = nearest_name(only, names);
    throw UserError(fmt::format("the plan has no collective \"{}\"", only),
                    fmt::format("one of its {} collectives, or a group as it is printed: {}",
                                step.plan.collectives.size(), groups.empty() ? "none" : *groups.begin()),
                    nearest.empty() ? "`weft graph` shows them" : fmt::format("write \"{}\"", nearest));
  }
  return tasks;
}

void number(Explanation& explanation) {
  int next = 1;
  const auto count = [&](std::vector<Remedy>& remedies) {
    for (Remedy& remedy : remedies) {
      const bool possible = !remedy.moves.empty() || remedy.rewrite.has_value();
      if (possible && remedy.fits && remedy.gains()) remedy.number = next++;
    }
  };
  for (ExposureGroup& group : explanation.groups) count(group.remedies);
  count(explanation.between_passes);
  count(explanation.rewrites);
}

/// Takes from the groups what isn't theirs alone: it changes when whole passes compute. Of equal moves for several
/// groups the first one stays.
std::vector<Remedy> take_moves_between_passes(std::vector<ExposureGroup>& groups) {
  std::vector<Remedy> taken;
  for (ExposureGroup& group : groups) {
    for (Remedy& remedy : group.remedies) {
      const bool equal = std::ranges::any_of(taken, [&](const Remedy& other) {
        return other.computations == remedy.computations && std::abs(other.gain_ns - remedy.gain_ns) < kLeastGain;
      });
      if (remedy.kind == RemedyKind::computations_moved && remedy.gains() && !equal) taken.push_back(remedy);
    }
    std::erase_if(group.remedies, [](const Remedy& each) { return each.kind == RemedyKind::computations_moved; });
  }
  std::ranges::stable_sort(taken, std::greater{}, &Remedy::gain_ns);
  return taken;
}

}  // namespace

double Explanation::exposed_ns() const {
  double sum = 0;
  for (const ExposedCollective& each : collectives) sum += each.exposed_ns;
  return sum;
}

const Remedy* Explanation::remedy(int number) const {
  const Remedy* found = nullptr;
  const auto look = [&](const std::vector<Remedy>& remedies) {
    for (const Remedy& remedy : remedies) {
      if (number > 0 && remedy.number == number) found = &remedy;
    }
  };
  for (const ExposureGroup& group : groups) look(group.remedies);
  look(between_passes);
  look(rewrites);
  return found;
}

int Explanation::remedies() const {
  int most = 0;
  while (remedy(most + 1) != nullptr) ++most;
  return most;
}

Explanation explain(const Problem& problem, const Report& report, const ExplainOptions& options, std::size_t of_class) {
  const SimulatedStep step(report, of_class);
  Explanation explanation;
  explanation.of_plan = step.plan.collectives.size();
  const std::vector<graph::TaskId> tasks = asked_for(step, options.only);
  const bool one = !options.only.empty() && step.graph.find_task(options.only).valid();
  for (double least_ns = one ? 0 : options.least_ns;; least_ns = 0) {
    for (const graph::TaskId task : tasks) {
      if (auto found = exposed_collective(step, task, least_ns)) explanation.collectives.push_back(*std::move(found));
    }
    // A group that was asked for is explained even if it is hidden.
    if (!explanation.collectives.empty() || options.only.empty() || least_ns == 0) break;
  }
  std::ranges::stable_sort(explanation.collectives, std::greater{}, &ExposedCollective::exposed_ns);
  explanation.groups = exposure_groups(step, explanation.collectives);
  find_remedies(problem, report, step, options, explanation);
  explanation.between_passes = take_moves_between_passes(explanation.groups);
  explanation.path = path_pieces(step);
  number(explanation);
  return explanation;
}

}  // namespace weft::simulate
