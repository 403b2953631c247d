#include "runtime/simulate/bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

#include "graph/analysis.h"
#include "graph/meetings.h"
#include "runtime/simulate/class_paths.h"

namespace weft::simulate {
namespace {

double sum_of(std::span<const graph::TaskId> tasks, std::span<const double> values) {
  return std::accumulate(tasks.begin(), tasks.end(), 0.0,
                         [&](double sum, graph::TaskId task) { return sum + values[task.index()]; });
}

/// A resource that serves one task at a time: for `ns` of each, by task.
struct Resource {
  std::vector<graph::TaskId> tasks;
  std::span<const double> ns;
};

double contention_bound(const graph::Graph& graph, const cost::Machine& machine, std::span<const double> cost,
                        double computing, std::span<const Resource> links) {
  std::set<std::string_view> computations;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Operation& operation = graph.tasks()[i].operation;
    if (graph::channel_of(operation) == nullptr && cost[i] > 0) computations.insert(graph::kind_name(operation));
  }
  double most = 0;
  for (const Resource& link : links) {
    double lost = 0;
    for (const graph::TaskId task : link.tasks) {
      const std::string_view kind = graph::kind_name(graph.task(task).operation);
      lost += link.ns[task.index()] * graph::least_loss(machine.slowdowns, computations, kind);
    }
    most = std::max(most, lost);
  }
  return most > 0 ? computing + most : 0;
}

Bounds bounds_of_class(const graph::Graph& graph, const cost::TaskCosts& costs, const cost::Machine& machine,
                       int compute_streams, const std::vector<int>& link_of_channel, const graph::CriticalPath& path) {
  std::vector<graph::TaskId> computations;
  std::map<int, std::vector<graph::TaskId>> channels, links, local;
  double transport = 0;  // core-nanoseconds
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    if (const graph::Channel* channel = graph::channel_of(graph.tasks()[i].operation)) {
      const auto number = static_cast<std::size_t>(*channel);
      if (graph.is_local(*channel)) {
        local[static_cast<int>(number)].emplace_back(i);
        continue;
      }
      channels[static_cast<int>(number)].emplace_back(i);
      links[link_of_channel.empty() ? static_cast<int>(number) : link_of_channel.at(number)].emplace_back(i);
      transport += costs.cpu_ns[i];
    } else {
      computations.emplace_back(i);
    }
  }
  Bounds bounds;
  bounds.critical_path = bounds.one_machine = path.length;
  const auto resource = [&](std::span<const graph::TaskId> tasks, std::span<const double> time) {
    bounds.work = std::max(bounds.work, sum_of(tasks, time));
    bounds.one_machine = std::max(bounds.one_machine, graph::one_machine_bound(tasks, time, path));
  };
  // A channel runs one collective at a time; a link is occupied by bytes alone, so that the latency of its channels'
  // collectives may overlap.
  std::vector<Resource> communication;
  for (auto& [channel, tasks] : channels) communication.push_back({std::move(tasks), costs.ns});
  for (auto& [link, tasks] : links) communication.push_back({std::move(tasks), costs.on_link()});
  for (const Resource& each : communication) resource(each.tasks, each.ns);
  for (const auto& [channel, tasks] : local) resource(tasks, costs.ns);
  std::vector<double> shared = costs.ns;
  for (double& ns : shared) ns /= compute_streams;
  resource(computations, shared);
  // A computation of one of k streams uses cores/k (runtime/simulate/simulator.h).
  if (machine.shared_cores) bounds.energy = sum_of(computations, shared) + transport / machine.cores;
  bounds.contention = contention_bound(graph, machine, costs.ns, sum_of(computations, shared), communication);
  return bounds;
}

/// The costs of a class, in which a Receive occupies its channel and its link for its Send's time.
cost::TaskCosts with_receives(std::size_t of_class, graph::Classes classes, const graph::Meetings& meetings,
                              std::span<const cost::TaskCosts> costs) {
  cost::TaskCosts own = costs[of_class];
  if (meetings.all().empty()) return own;
  own.link_ns = own.on_link();
  for (std::size_t i = 0; i < own.ns.size(); ++i) {
    if (!std::holds_alternative<graph::Receive>(classes[of_class]->tasks()[i].operation)) continue;
    const graph::ClassTask send = meetings.all()[meetings.of(of_class, i)].members.front();
    own.ns[i] = costs[send.of_class].ns[send.task];
    own.link_ns[i] = costs[send.of_class].on_link()[send.task];
  }
  return own;
}

void take_greatest(Bounds& of, const Bounds& other) {
  for (double Bounds::*const bound :
       {&Bounds::critical_path, &Bounds::work, &Bounds::one_machine, &Bounds::energy, &Bounds::contention})
    of.*bound = std::max(of.*bound, other.*bound);
}

/// The links of a class in which channels of one direction have links of their own.
std::vector<int> without(graph::Direction direction, const graph::Graph& graph, std::vector<int> links) {
  if (links.empty()) return links;
  int next = *std::ranges::max_element(links);
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (graph.direction(static_cast<graph::Channel>(i)) == direction) links[i] = ++next;
  }
  return links;
}

}  // namespace

double Bounds::best() const {
  return std::max({critical_path, work, one_machine, energy, contention, windows});
}

Bounds lower_bounds(graph::Classes classes, std::span<const cost::TaskCosts> costs, const cost::Machine& machine,
                    int compute_streams, const std::vector<int>& link_of_channel) {
  const graph::Meetings meetings(classes);
  const std::vector<graph::CriticalPath> paths = critical_paths(classes, meetings, costs);
  const bool complete =
      std::ranges::all_of(costs, [](const cost::TaskCosts& each) { return each.cpu_ns.size() == each.ns.size(); });
  if (!complete || compute_streams < 1) throw std::logic_error("bounds need a cost for each task and a compute stream");
  Bounds greatest;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const cost::TaskCosts own = with_receives(k, classes, meetings, costs);
    const auto look_at = [&](const std::vector<int>& links) {
      take_greatest(greatest, bounds_of_class(*classes[k], own, machine, compute_streams, links, paths[k]));
    };
    if (meetings.all().empty()) {
      look_at(link_of_channel);
      continue;
    }
    // A link carries both directions at once: messages of different directions don't share it.
    look_at(without(graph::Direction::in, *classes[k], link_of_channel));
    look_at(without(graph::Direction::out, *classes[k], link_of_channel));
  }
  return greatest;
}

}  // namespace weft::simulate
