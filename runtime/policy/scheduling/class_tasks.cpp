#include "runtime/policy/scheduling/class_tasks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <variant>

#include "graph/meetings.h"

namespace weft::policy {

namespace {

std::vector<std::vector<plan::Stream>> streams_of_all(graph::Classes classes, int compute_streams) {
  std::vector<std::vector<plan::Stream>> streams;
  for (const auto& graph : classes) streams.push_back(plan::streams_of(*graph, compute_streams));
  return streams;
}

std::vector<std::vector<plan::Stream>> streams_of_all(std::span<const plan::Order> orders) {
  std::vector<std::vector<plan::Stream>> streams;
  for (const plan::Order& order : orders) streams.push_back(order.streams);
  return streams;
}

}  // namespace

ClassTasks::ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs, int compute_streams)
    : ClassTasks(classes, costs, streams_of_all(classes, compute_streams)) {}

ClassTasks::ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs,
                       std::span<const plan::Order> orders)
    : ClassTasks(classes, costs, streams_of_all(orders)) {}

ClassTasks::ClassTasks(graph::Classes classes, std::span<const cost::TaskCosts> costs,
                       std::vector<std::vector<plan::Stream>> streams)
    : costs_(costs.begin(), costs.end()), steps_(classes), streams_(std::move(streams)) {
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    graphs_.push_back(classes[k].get());
    first_.push_back(static_cast<std::uint32_t>(members_.size()));
    for (std::uint32_t i = 0; i < classes[k]->tasks().size(); ++i) members_.push_back({k, i});
  }
  for (std::uint32_t number = 0; number < members_.size(); ++number) node_of_.push_back(number);
  join_steps();
  make_lanes();
}

void ClassTasks::join_steps() {
  if (steps_.all().empty()) return;
  next_.assign(size(), graph::Meetings::kNone);
  previous_.assign(size(), graph::Meetings::kNone);
  const auto node = [&](const graph::Meeting& step) {
    std::uint32_t least = graph::Meetings::kNone;
    for (const graph::ClassTask& member : step.members) least = std::min(least, first_[member.of_class] + member.task);
    return least;
  };
  for (const graph::Meeting& step : steps_.all()) {
    const graph::ClassTask& first = step.members.front();
    const double ns = costs_[first.of_class].ns[first.task], link_ns = costs_[first.of_class].on_link()[first.task];
    for (const graph::ClassTask& member : step.members) {
      node_of_[first_[member.of_class] + member.task] = node(step);
      costs_[member.of_class].ns[member.task] = ns;
      if (!costs_[member.of_class].link_ns.empty()) costs_[member.of_class].link_ns[member.task] = link_ns;
    }
    if (step.next == graph::Meetings::kNone) continue;
    next_[node(step)] = node(steps_.all()[step.next]);
    previous_[node(steps_.all()[step.next])] = node(step);
  }
}

void ClassTasks::make_lanes() {
  // Of a channel with members in several classes: by its sender, or the first of them, and its channel there.
  std::map<std::pair<std::uint32_t, graph::Channel>, std::uint32_t> shared;
  lane_of_stream_.resize(classes());
  for (std::uint32_t k = 0; k < classes(); ++k) {
    std::uint32_t first_compute = graph::Meetings::kNone;
    for (std::size_t s = 0; s < streams_[k].size(); ++s) {
      const plan::Stream& stream = streams_[k][s];
      auto lane = static_cast<std::uint32_t>(lanes_.size());
      if (classes() > 1 && !stream.compute) {
        const std::vector<graph::ClassChannel> together =
            graph::channels_together(*graphs_[k], k, classes(), stream.channel);
        const graph::ClassChannel& first = together.front();
        if (together.size() > 1) lane = shared.try_emplace({first.of_class, first.channel}, lane).first->second;
      }
      if (stream.compute) first_compute = std::min(first_compute, lane);
      if (lane == lanes_.size()) {
        lanes_.push_back({stream.compute, stream.compute ? first_compute : lane, plan::StreamId(s), {}});
      }
      lanes_[lane].classes.push_back(k);
      lane_of_stream_[k].push_back(lane);
    }
  }
  resource_.reserve(size());
  channel_stream_.resize(size());
  for (std::uint32_t k = 0; k < classes(); ++k) {
    const auto compute =
        static_cast<std::size_t>(std::ranges::find(streams_[k], true, &plan::Stream::compute) - streams_[k].begin());
    for (const graph::Task& task : graphs_[k]->tasks()) {
      plan::StreamId stream(compute);
      if (const graph::Channel* channel = graph::channel_of(task.operation))
        stream = channel_stream_[resource_.size()] = plan::stream_of_channel(streams_[k], *channel);
      resource_.push_back(stream.valid() ? lane_of_stream_[k].at(stream.index()) : 0);
    }
  }
}

std::vector<double> ClassTasks::all_costs() const {
  std::vector<double> all;
  all.reserve(size());
  for (const cost::TaskCosts& costs : costs_) all.insert(all.end(), costs.ns.begin(), costs.ns.end());
  return all;
}

std::vector<std::uint32_t> ClassTasks::topological_order() const {
  std::vector<std::uint32_t> order = NodeEdges(size(), edges_of(*this)).topological_order();
  std::erase_if(order, [&](std::uint32_t number) { return !is_node(number); });
  return order;
}

namespace {

/// The computations of a pass that lead to its message, or in a forward pass all, get the greatest rank among them.
void keep_passes_together(const ClassTasks& tasks, std::vector<double>& rank) {
  struct Pass {
    double first = 0, last = 0;  // the greatest rank; the rank of the message that leaves
    bool sends = false;
  };
  std::map<std::tuple<std::uint32_t, std::int32_t, std::int32_t, graph::Phase>, Pass> passes;
  const auto pass_of = [&](std::uint32_t number) -> Pass* {
    const graph::Task& task = tasks.task(number);
    if (task.stage < 0 || task.micro_batch < 0 || task.phase == graph::Phase::update) return nullptr;
    return &passes[{tasks.rank_of(number), task.micro_batch, task.stage, task.phase}];
  };
  for (std::uint32_t number = 0; number < tasks.size(); ++number) {
    Pass* pass = pass_of(number);
    if (pass == nullptr) continue;
    if (std::holds_alternative<graph::Send>(tasks.task(number).operation)) {
      pass->sends = true;
      pass->last = std::max(pass->last, rank[number]);
    } else if (!graph::is_collective(tasks.task(number).operation)) {
      pass->first = std::max(pass->first, rank[number]);
    }
  }
  for (std::uint32_t number = 0; number < tasks.size(); ++number) {
    const Pass* pass = pass_of(number);
    if (pass == nullptr || graph::is_collective(tasks.task(number).operation)) continue;
    const bool forward = tasks.task(number).phase == graph::Phase::forward;
    if (forward || (pass->sends && rank[number] > pass->last)) rank[number] = pass->first;
  }
}

}  // namespace

std::vector<NodeEdge> edges_of(const ClassTasks& tasks, std::span<const plan::Order> orders) {
  std::vector<NodeEdge> edges;
  for (std::uint32_t node = 0; node < tasks.size(); ++node) {
    if (tasks.is_node(node)) tasks.each_after(node, [&](std::uint32_t after) { edges.emplace_back(node, after); });
  }
  for (std::size_t k = 0; k < orders.size(); ++k) {
    const auto node = [&](graph::TaskId task) { return tasks.node_of(tasks.first(k) + task.value); };
    for (const graph::Edge& edge : orders[k].added_edges) {
      if (edge.distance == 0) edges.emplace_back(node(edge.from), node(edge.to));
    }
  }
  return edges;
}

NodeEdges::NodeEdges(std::size_t nodes, std::span<const NodeEdge> edges)
    : begin_(nodes + 1, 0), targets_(edges.size()), missing_(nodes, 0) {
  for (const auto& [from, to] : edges) ++begin_[from + 1], ++missing_[to];
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<std::uint32_t> place = begin_;
  for (const auto& [from, to] : edges) targets_[place[from]++] = to;
}

std::vector<std::uint32_t> NodeEdges::topological_order() const {
  std::vector<std::uint32_t> order, missing = missing_;
  for (std::uint32_t node = 0; node < missing.size(); ++node) {
    if (missing[node] == 0) order.push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::uint32_t to : after(order[i])) {
      if (--missing[to] == 0) order.push_back(to);
    }
  }
  if (order.size() != missing.size()) throw std::logic_error("the classes of a step wait for each other in a cycle");
  return order;
}

std::vector<double> upward_rank(const ClassTasks& tasks, PathEdges edges) {
  std::vector<double> rank(tasks.size(), 0);
  const std::vector<std::uint32_t> order = tasks.topological_order();
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    double after = 0;
    tasks.each_after(*node, edges, [&](std::uint32_t next) { after = std::max(after, rank[next]); });
    rank[*node] = after + tasks.cost(*node);
  }
  for (std::uint32_t number = 0; number < tasks.size(); ++number) rank[number] = rank[tasks.node_of(number)];
  if (tasks.classes() > 1) keep_passes_together(tasks, rank);
  return rank;
}

}  // namespace weft::policy
