#include "runtime/simulate/open_problem.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "graph/analysis.h"
#include "graph/groups.h"
#include "graph/opaque_graph.h"
#include "runtime/cost/recorded_costs.h"
#include "runtime/policy/builtin/recorded.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::simulate {
namespace {

/// The channels of all classes, numbered as they come.
class ChannelWriter {
 public:
  ChannelWriter(const graph::Grid& grid, std::vector<int> links, graph::OpenGraph& out)
      : grid_(grid), links_(std::move(links)), out_(out) {}

  std::int32_t number_of(const graph::Graph& graph, graph::Channel channel) {
    const auto [found, is_new] = numbers_.emplace(channel, static_cast<std::int32_t>(out_.channels.size()));
    if (!is_new) return found->second;
    graph::OpenChannel& written = out_.channels.emplace_back();
    written.name = graph.channel_name(channel);
    written.link = fmt::format("link {}", links_.at(static_cast<std::size_t>(channel)));
    if (graph.has_opaque_tasks()) return found->second;  // its channels are no axes of the grid
    written.group_size = graph::group_size(grid_, channel);
    written.groups = graph::groups_of(grid_, channel);
    return found->second;
  }
  const graph::Grid& grid() const { return grid_; }

 private:
  const graph::Grid grid_;
  const std::vector<int> links_;
  graph::OpenGraph& out_;
  std::map<graph::Channel, std::int32_t> numbers_;
};

/// The numbers that the two halves of messages share, by the stage and the channel of the sender.
class MessageNumbers {
 public:
  std::int64_t of(std::size_t stage, std::size_t stages, const graph::Operation& operation) {
    if (const auto* send = std::get_if<graph::Send>(&operation)) return number({stage, send->channel, send->message});
    const auto* receive = std::get_if<graph::Receive>(&operation);
    if (receive == nullptr) return -1;
    const std::int64_t sender =
        graph::peer_stage(receive->channel, static_cast<std::int64_t>(stage), static_cast<std::int64_t>(stages));
    return number({static_cast<std::size_t>(sender), graph::other_end(receive->channel), receive->message});
  }

 private:
  using Key = std::tuple<std::size_t, graph::Channel, std::int64_t>;
  std::int64_t number(const Key& key) {
    return numbers_.emplace(key, static_cast<std::int64_t>(numbers_.size())).first->second;
  }
  std::map<Key, std::int64_t> numbers_;
};

graph::OpenKind kind_of(const graph::Operation& operation) {
  if (std::holds_alternative<graph::Send>(operation)) return graph::OpenKind::send;
  return std::holds_alternative<graph::Receive>(operation) ? graph::OpenKind::receive : graph::OpenKind::collective;
}

/// Writes one graph's parts into a class.
class ClassWriter {
 public:
  /// `one` has its ranks.
  ClassWriter(const graph::Graph& graph, const cost::TaskCosts& costs, ChannelWriter& channels, graph::OpenClass& one)
      : graph_(graph), costs_(costs), channels_(channels), one_(one) {
    one_.edges_from_accesses = false;
  }

  void write() {
    for (const graph::Tensor& tensor : graph_.tensors()) {
      one_.tensors.push_back({tensor.name, tensor.bytes(), graph::is_state(tensor.role), tensor.role});
    }
    for (std::size_t i = 0; i < graph_.tasks().size(); ++i) add_task(graph_.tasks()[i], i);
    for (const graph::Edge& edge : graph_.edges()) {
      if (edge.distance == 0) one_.edges.push_back({edge.from.value, edge.to.value, edge.kind});
    }
  }

 private:
  void add_task(const graph::Task& from, std::size_t index) {
    const graph::Work work = graph::work_of(graph_, from);
    graph::OpenTask& task = one_.tasks.emplace_back();
    task.name = from.name;
    task.operation = graph::kind_name(from.operation);
    task.ns = costs_.ns[index];
    task.flops = work.flops;
    task.bytes = work.bytes;
    task.layer = from.layer;
    task.micro_batch = from.micro_batch;
    task.phase = from.phase;
    for (const graph::Access& access : from.accesses) task.accesses.push_back({access.view.tensor.value, access.mode});
    const graph::Channel* channel = graph::channel_of(from.operation);
    if (channel == nullptr) return;
    if (graph_.is_local(*channel)) {
      task.kind = graph::OpenKind::host;
      task.stream = local_stream(*channel);
      return;
    }
    task.kind = kind_of(from.operation);
    task.channel = channels_.number_of(graph_, *channel);
    // The ranks of a class meet different ones.
    if (graph::is_message(*channel) && one_.ranks.size() == 1 && !graph_.has_opaque_tasks())
      task.peer = graph::peer_rank(channels_.grid(), *channel, one_.ranks.front());
    task.network_bytes = work.network_bytes;
    if (!costs_.beside_ns.empty()) task.beside_ns = costs_.beside_ns[index];
    if (!costs_.link_ns.empty()) task.link_ns = costs_.link_ns[index];
    if (costs_.cpu_ns[index] > 0) task.cpu_ns = costs_.cpu_ns[index];
  }

  /// The queue of a thread, or of copies, as a stream of the class.
  std::int32_t local_stream(graph::Channel channel) {
    const auto [found, is_new] = local_.emplace(channel, static_cast<std::int32_t>(one_.streams.size()));
    if (is_new) one_.streams.push_back({.name = std::string(graph_.channel_name(channel)), .host = true});
    return found->second;
  }

  const graph::Graph& graph_;
  const cost::TaskCosts& costs_;
  ChannelWriter& channels_;
  graph::OpenClass& one_;
  std::map<graph::Channel, std::int32_t> local_;
};

graph::OpenGraph begun(std::string name, const graph::Grid& grid, const cost::CostModel* costs) {
  graph::OpenGraph out;
  out.name = std::move(name);
  out.source = "weft";
  out.world = grid.ranks();
  out.notes.push_back(
      fmt::format("Times are those of {}.", costs != nullptr ? costs->source() : "the default machine"));
  return out;
}

graph::OpenContention contention_of(const cost::Machine& machine, int compute_streams) {
  graph::OpenContention contention{.compute_streams = compute_streams};
  if (machine.shared_cores) contention.shared_cores = machine.cores;
  for (const cost::Slowdown& each : machine.slowdowns)
    contention.slowdowns.push_back({each.compute, each.collective, each.factor});
  return contention;
}

void add_contention(cost::Machine& machine, const graph::OpenContention& contention) {
  machine.shared_cores = contention.shared_cores.has_value();
  machine.cores = contention.shared_cores.value_or(machine.cores);
  for (const graph::OpenSlowdown& each : contention.slowdowns)
    machine.slowdowns.push_back({each.compute, each.collective, each.factor});
}

/// Recorded times hold the contention of the step in which they were recorded.
void leave_out_contention(cost::Machine& machine) {
  machine.slowdowns.clear();
  machine.shared_cores = false;
}

}  // namespace

Problem open_problem(const graph::OpenGraph& open, const OpenChoices& choices) {
  Problem problem;
  problem.classes = {
      std::make_shared<const graph::Graph>(graph::opaque_graph(open, choices.class_index, choices.kept))};
  if (choices.machine) {
    problem.machine = *choices.machine;
  } else {
    problem.machine.name = kNoMachine;
    if (open.contention) add_contention(problem.machine, *open.contention);
  }
  if (policy::has_recorded_times(problem.first())) leave_out_contention(problem.machine);
  problem.options = choices.options;
  problem.options.compute_streams = choices.compute_streams > 0 ? choices.compute_streams
                                    : open.contention           ? open.contention->compute_streams
                                                                : policy::recorded_compute_streams(problem.first());
  problem.options.cost_model = cost::recorded_costs(choices.machine, choices.dtype, choices.bandwidths);
  (void)problem.options.cost_model->costs(problem.first());  // refuses tasks without a cost by name
  problem.options.machine = std::make_shared<const cost::Machine>(problem.machine);
  problem.options.link_of_channel = links_of_channels(problem.first());
  return problem;
}

policy::NamedPolicy default_open_policy(const graph::Graph& graph) {
  return policy::named_policy(policy::has_recorded_times(graph) ? "recorded" : "program");
}

graph::OpenGraph open_graph_of(graph::Classes classes, std::span<const cost::TaskCosts> costs, const Problem& problem,
                               std::string name) {
  graph::OpenGraph out = begun(std::move(name), problem.grid, problem.options.cost_model.get());
  ChannelWriter channels(problem.grid, simulation_options(problem).link_of_channel, out);
  MessageNumbers messages;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    graph::OpenClass& one = out.classes.emplace_back();
    if (classes.size() > 1) one.name = fmt::format("pipe {}", k);
    for (std::int64_t rank = 0; rank < problem.grid.ranks(); ++rank) {
      if (graph::coordinates_of(problem.grid, rank).pipe == static_cast<std::int64_t>(k)) one.ranks.push_back(rank);
    }
    const graph::Graph& graph = *classes[k];
    ClassWriter(graph, costs[k], channels, one).write();
    for (std::size_t i = 0; i < one.tasks.size(); ++i)
      one.tasks[i].message = messages.of(k, classes.size(), graph.tasks()[i].operation);
  }
  out.contention = contention_of(problem.machine, problem.options.compute_streams);
  return out;
}

}  // namespace weft::simulate
