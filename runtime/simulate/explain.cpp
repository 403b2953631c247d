#include "runtime/simulate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.h"
#include "runtime/simulate/remedies.h"

namespace weft::simulate {
namespace {

/// First the worst collective of each group, so that every group gets remedies, then all others.
std::vector<std::size_t> worst_first(const Explanation& explanation) {
  std::vector<std::size_t> order;
  for (const ExposureGroup& group : explanation.groups) order.push_back(group.members.front());
  for (std::size_t i = 0; i < explanation.collectives.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  return order;
}

}  // namespace

Explanation explain(const PlanningProblem& problem, const PlanReport& report, const ExplainOptions& options) {
  const SimulatedStep step(report);
  const double least_ns = options.only.empty() ? options.least_ns : 0;
  Explanation explanation;
  std::vector<std::string> names;
  for (const graph::TaskId task : report.plan->collectives) {
    names.push_back(step.name(task));
    if (!options.only.empty() && step.name(task) != options.only) continue;
    if (auto found = exposed_collective(step, task, least_ns)) explanation.collectives.push_back(*std::move(found));
  }
  if (!options.only.empty() && explanation.collectives.empty()) {
    const std::string nearest = nearest_name(options.only, names);
    throw UserError(fmt::format("the plan has no collective \"{}\"", options.only),
                    fmt::format("one of its {} collectives", names.size()),
                    nearest.empty() ? "`weft graph` shows them" : fmt::format("write \"{}\"", nearest));
  }
  std::ranges::stable_sort(explanation.collectives, std::greater{}, &ExposedCollective::exposed_ns);
  explanation.groups = exposure_groups(step, explanation.collectives);
  const Remedies remedies(problem, report);
  const std::vector<std::size_t> worst = worst_first(explanation);
  for (std::size_t i = 0; i < std::min(options.most_remedied, worst.size()); ++i) {
    remedies.find(step, explanation.collectives[worst[i]]);
  }
  explanation.path = path_pieces(step);
  if (options.rewrites) explanation.rewrites = remedies.rewrites();
  return explanation;
}

}  // namespace weft::simulate
