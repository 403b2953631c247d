#include "runtime/simulate/certify/step_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/hash.h"

namespace weft::simulate {
namespace {

using graph::OpenKind;

double link_time(const graph::OpenTask& task) {
  return task.link_ns.value_or(task.ns.value_or(0));
}

/// By channel: whether its groups have ranks of several classes.
std::vector<bool> channels_between_classes(const graph::OpenGraph& open) {
  std::map<std::int64_t, std::size_t> class_of;
  for (std::size_t k = 0; k < open.classes.size(); ++k) {
    for (const std::int64_t rank : open.classes[k].ranks) class_of.emplace(rank, k);
  }
  std::vector<bool> between;
  for (const graph::OpenChannel& channel : open.channels) {
    between.push_back(std::ranges::any_of(channel.groups, [&](const std::vector<std::int64_t>& group) {
      std::set<std::size_t> classes;
      for (const std::int64_t rank : group) {
        const auto found = class_of.find(rank);
        if (found != class_of.end()) classes.insert(found->second);
      }
      return classes.size() > 1;
    }));
  }
  return between;
}

/// A channel that stands for its link: the first one with the same text; itself if it has a link of its own.
std::int32_t link_of(const graph::OpenGraph& open, std::int32_t channel) {
  const std::string& link = open.channels[static_cast<std::size_t>(channel)].link;
  if (link.empty()) return channel;
  const auto first = std::ranges::find(open.channels, link, &graph::OpenChannel::link);
  return static_cast<std::int32_t>(first - open.channels.begin());
}

}  // namespace

std::string_view to_string(ResourceKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"computations", "channel", "link",  "link_out",
                                                      "link_in",      "local",   "cores", "task"};
  return kNames.at(static_cast<std::size_t>(kind));
}

StepModel::StepModel(const graph::OpenGraph& open) {
  add_nodes(open);
  add_edges(open);
  add_resources(open);
}

const StepResource& StepModel::named(const ResourceName& name, std::span<const StepResource> resources) {
  const auto found = std::ranges::find(resources, name, &StepResource::name);
  if (found == resources.end()) throw std::logic_error("a proof names a resource that the step lacks");
  return *found;
}

std::vector<double> StepModel::longest_paths(bool from_begin) const {
  std::vector<double> value(nodes(), 0);
  const auto visit = [&](std::uint32_t node) {
    for (const std::uint32_t source : from_begin ? before(node) : after(node))
      value[node] = std::max(value[node], value[source] + cost(source));
  };
  if (from_begin) std::ranges::for_each(order_, visit);
  if (!from_begin) std::ranges::for_each(std::views::reverse(order_), visit);
  return value;
}

void StepModel::add_nodes(const graph::OpenGraph& open) {
  const std::vector<bool> between = channels_between_classes(open);
  std::map<std::int64_t, std::uint32_t> messages;
  std::map<std::pair<std::int32_t, std::string_view>, std::uint32_t> collectives;
  for (std::size_t k = 0; k < open.classes.size(); ++k) {
    std::vector<std::uint32_t>& numbers = node_of_.emplace_back();
    for (std::size_t i = 0; i < open.classes[k].tasks.size(); ++i) {
      const graph::OpenTask& task = open.classes[k].tasks[i];
      const auto next = static_cast<std::uint32_t>(cost_.size());
      std::uint32_t node = next;
      if (task.message >= 0) {
        node = messages.emplace(task.message, next).first->second;
      } else if (task.kind == OpenKind::collective && between[static_cast<std::size_t>(task.channel)]) {
        node = collectives.emplace(std::pair(task.channel, std::string_view(task.name)), next).first->second;
      }
      if (node == next) {
        cost_.push_back(0);
        link_ns_.push_back(0);
        task_of_.push_back({static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(i)});
      }
      numbers.push_back(node);
      // The time of a message is its send's, and that of a collective the first member's, as in the simulator.
      if (task.message >= 0 ? task.kind == OpenKind::send : cost_[node] == 0) {
        cost_[node] = task.ns.value_or(0);
        link_ns_[node] = link_time(task);
      }
    }
  }
}

void StepModel::add_edges(const graph::OpenGraph& open) {
  std::vector<policy::NodeEdge> forward, backward;
  for (std::size_t k = 0; k < open.classes.size(); ++k) {
    for (const graph::OpenEdge& edge : open.classes[k].edges) {
      if (edge.kind != graph::EdgeKind::completes_before) continue;
      forward.emplace_back(node_of_[k][edge.from], node_of_[k][edge.to]);
      backward.emplace_back(node_of_[k][edge.to], node_of_[k][edge.from]);
    }
  }
  after_ = policy::NodeEdges(cost_.size(), forward);
  before_ = policy::NodeEdges(cost_.size(), backward);
  order_ = after_.topological_order();
}

void StepModel::add_resources(const graph::OpenGraph& open) {
  queues_.resize(cost_.size());
  const bool messages = std::ranges::any_of(open.classes, [](const graph::OpenClass& one) {
    return std::ranges::any_of(one.tasks, [](const graph::OpenTask& task) { return task.message >= 0; });
  });
  const graph::OpenContention contention = open.contention.value_or(graph::OpenContention{});
  const double streams = contention.compute_streams;
  for (std::uint32_t k = 0; k < open.classes.size(); ++k) {
    std::set<std::string_view> computations;
    for (const graph::OpenTask& task : open.classes[k].tasks) {
      if (task.kind == OpenKind::compute && task.ns.value_or(0) > 0) computations.insert(task.operation);
    }
    std::map<ResourceName, StepResource> own;
    const auto add = [&](ResourceKind kind, std::int32_t number, const ResourceItem& item) {
      const ResourceName name{k, kind, number};
      own.try_emplace(name, StepResource{name, {}}).first->second.items.push_back(item);
    };
    for (std::size_t i = 0; i < open.classes[k].tasks.size(); ++i) {
      const graph::OpenTask& task = open.classes[k].tasks[i];
      const std::uint32_t node = node_of_[k][i];
      if (task.kind == OpenKind::compute) {
        add(ResourceKind::computations, -1, {node, cost_[node] / streams, 0});
      } else if (!communicates(task.kind)) {
        add(ResourceKind::local, task.stream, {node, cost_[node], 0});
      } else {
        const double loss = graph::least_loss(contention.slowdowns, computations, task.operation);
        add(ResourceKind::channel, task.channel, {node, cost_[node], loss});
        const std::int32_t link = link_of(open, task.channel);
        const ResourceItem on_link{node, std::min(link_ns_[node], cost_[node]), loss};
        if (!messages) {
          add(ResourceKind::link, link, on_link);
        } else {
          if (task.kind != OpenKind::receive) add(ResourceKind::link_out, link, on_link);
          if (task.kind != OpenKind::send) add(ResourceKind::link_in, link, on_link);
        }
        if (contention.shared_cores)
          add(ResourceKind::cores, -1, {node, task.cpu_ns.value_or(0) / *contention.shared_cores, 1});
      }
    }
    std::vector<StepResource>& slowing = slowing_.emplace_back();
    for (const auto& [name, resource] : own) {
      if (std::ranges::any_of(resource.items, [](const ResourceItem& item) { return item.ns * item.loss > 0; }))
        slowing.push_back(resource);
      if (name.kind == ResourceKind::cores) continue;
      const bool queue = name.kind == ResourceKind::channel || name.kind == ResourceKind::local ||
                         (name.kind == ResourceKind::computations && streams == 1);
      for (const ResourceItem& item : resource.items) {
        if (queue) queues_[item.node].push_back(static_cast<std::uint32_t>(resources_.size()));
      }
      resources_.push_back(resource);
    }
  }
}

bool served_one_at_a_time(const graph::OpenGraph& open, const graph::OpenTask& a, const graph::OpenTask& b) {
  if (a.kind == OpenKind::compute || b.kind == OpenKind::compute)
    return a.kind == b.kind && (!open.contention || open.contention->compute_streams == 1);
  const bool sent = communicates(a.kind);
  return sent == communicates(b.kind) && (sent ? a.channel == b.channel : a.stream == b.stream);
}

std::uint64_t bound_fingerprint(const graph::OpenGraph& open) {
  Fingerprint print;
  const auto number = [&](std::int64_t value) { print.add(value); };
  const graph::OpenContention contention = open.contention.value_or(graph::OpenContention{});
  number(contention.compute_streams);
  print.add(contention.shared_cores.value_or(0));
  for (const graph::OpenSlowdown& each : contention.slowdowns) {
    print.add(std::string_view(each.compute)).add(std::string_view(each.collective)).add(each.factor);
  }
  const std::vector<bool> between = channels_between_classes(open);
  for (std::size_t i = 0; i < open.channels.size(); ++i) {
    print.add(std::string_view(open.channels[i].link));
    number(between[i] ? 1 : 0);
  }
  for (const graph::OpenClass& one : open.classes) {
    number(std::ssize(one.tasks));
    for (const graph::OpenTask& task : one.tasks) {
      print.add(to_string(task.kind)).add(std::string_view(task.operation));
      number(task.kind == OpenKind::host || task.kind == OpenKind::copy ? task.stream : task.channel);
      number(task.message);
      if (task.kind == OpenKind::collective && between[static_cast<std::size_t>(task.channel)])
        print.add(std::string_view(task.name));
      print.add(task.ns.value_or(0)).add(link_time(task)).add(task.cpu_ns.value_or(0));
    }
    for (const graph::OpenEdge& edge : one.edges) {
      if (edge.kind != graph::EdgeKind::completes_before) continue;
      number(edge.from);
      number(edge.to);
    }
  }
  return print.value();
}

}  // namespace weft::simulate
