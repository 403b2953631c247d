#include "runtime/policy/builtin/random.h"

#include <utility>

#include "runtime/policy/scheduling/class_tasks.h"
#include "runtime/policy/scheduling/random_numbers.h"

namespace weft::policy {

RandomPolicy::RandomPolicy(PolicyParameters& parameters) : seed_(seed_parameter(parameters)) {}

std::vector<plan::Order> RandomPolicy::orders(graph::Classes classes, const PolicyOptions& options) const {
  const std::uint64_t seed = seed_.value_or(options.seed);
  RandomNumbers numbers(seed);
  std::vector<cost::TaskCosts> no_costs(classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    no_costs[k].ns.assign(classes[k]->tasks().size(), 0);
    no_costs[k].cpu_ns = no_costs[k].ns;
  }
  const ClassTasks tasks(classes, no_costs, options.compute_streams);
  std::vector<plan::Order> orders(classes.size());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    orders[k].streams.assign(tasks.streams(k).begin(), tasks.streams(k).end());
    orders[k].reasons = {{.table = &kReasons, .numbers = {seed}}};
  }
  const NodeEdges edges(tasks.size(), edges_of(tasks));
  std::vector<std::uint32_t> missing = edges.missing(), ready;
  for (std::uint32_t node = 0; node < tasks.size(); ++node) {
    if (tasks.is_node(node) && missing[node] == 0) ready.push_back(node);
  }
  while (!ready.empty()) {
    std::swap(ready[numbers.below(ready.size())], ready.back());
    const std::uint32_t node = ready.back();
    ready.pop_back();
    const bool computes = graph::channel_of(tasks.task(node).operation) == nullptr;
    const std::size_t drawn = computes ? numbers.below(static_cast<std::size_t>(options.compute_streams)) : 0;
    const std::size_t lane = tasks.resource_of(node) + drawn;
    for (const graph::ClassTask& member : tasks.members(node)) {
      const plan::StreamId stream(tasks.stream_on(lane, member));
      orders[member.of_class].sequence.push_back({graph::TaskId(std::size_t{member.task}), stream, 0});
    }
    for (const std::uint32_t after : edges.after(node)) {
      if (--missing[after] == 0) ready.push_back(after);
    }
  }
  return orders;
}

}  // namespace weft::policy
