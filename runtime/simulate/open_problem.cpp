#include "runtime/simulate/open_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/grid.h"
#include "graph/meetings.h"
#include "graph/opaque_graph.h"
#include "runtime/cost/recorded_costs.h"
#include "runtime/policy/builtin/recorded.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/class_paths.h"

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
    if (graph.has_opaque_tasks()) {  // its channels are no axes of the grid
      for (int i = 2; !names_.insert(written.name).second; ++i)
        written.name = fmt::format("{} ({})", graph.channel_name(channel), i);
      return found->second;
    }
    written.group_size = graph::group_size(grid_, channel);
    written.groups = graph::groups_of(grid_, channel);
    return found->second;
  }
  /// The ranks that stand for the classes are a group.
  void meet(std::int32_t number, std::vector<std::int64_t> ranks) {
    auto& groups = out_.channels[static_cast<std::size_t>(number)].groups;
    if (std::ranges::find(groups, ranks) == groups.end()) groups.push_back(std::move(ranks));
  }
  const graph::Grid& grid() const { return grid_; }

 private:
  const graph::Grid grid_;
  const std::vector<int> links_;
  graph::OpenGraph& out_;
  std::map<graph::Channel, std::int32_t> numbers_;
  std::set<std::string> names_;
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

graph::OpenContention contention_of(const cost::Machine& machine, int compute_streams) {
  graph::OpenContention contention{.compute_streams = compute_streams, .slowdowns = machine.slowdowns};
  if (machine.shared_cores) contention.shared_cores = machine.cores;
  return contention;
}

/// Meetings in contrary orders were given up, but accesses may order tasks as well.
void refuse_cycle(graph::Classes classes, std::span<const cost::TaskCosts> costs) {
  try {
    (void)critical_paths(classes, graph::Meetings(classes), costs);
  } catch (const std::logic_error&) {
    throw UserError("the classes of the graph wait for each other in a cycle",
                    "messages and collectives that every class reaches in an order that the others can keep",
                    "correct \"message\", \"sequence\" or the order of tasks; --class NAME takes one class by itself");
  }
}

/// The ranks of each class, which are numbered class by class where the grid doesn't arrange them.
std::vector<std::vector<std::int64_t>> ranks_by_class(const Problem& problem) {
  std::vector<std::vector<std::int64_t>> ranks(problem.classes.size());
  std::int64_t next = 0;
  for (std::size_t k = 0; k < problem.simulation.class_ranks.size(); ++k) {
    for (std::size_t i = 0; i < problem.simulation.class_ranks[k]; ++i) ranks[k].push_back(next++);
  }
  for (; problem.simulation.class_ranks.empty() && next < problem.grid.ranks(); ++next)
    ranks.at(static_cast<std::size_t>(graph::coordinates_of(problem.grid, next).pipe)).push_back(next);
  return ranks;
}

/// Joins the tasks that meet, in a step whose tasks say whom they meet.
void write_meetings(graph::Classes classes, ChannelWriter& channels, graph::OpenGraph& out) {
  const graph::Meetings meetings(classes);
  for (std::size_t i = 0; i < meetings.all().size(); ++i) {
    const std::vector<graph::ClassTask>& members = meetings.all()[i].members;
    std::vector<std::int64_t> ranks;
    for (const graph::ClassTask& member : members) ranks.push_back(out.classes[member.of_class].ranks.front());
    std::ranges::sort(ranks);
    const std::string name =
        fmt::format("{}, meeting {}", out.classes[members[0].of_class].tasks[members[0].task].name, i);
    for (const graph::ClassTask& member : members) {
      const graph::Graph& graph = *classes[member.of_class];
      const graph::Direction direction = graph.direction(*graph::channel_of(graph.tasks()[member.task].operation));
      graph::OpenTask& task = out.classes[member.of_class].tasks[member.task];
      if (direction == graph::Direction::both) {
        task.name = name;
        channels.meet(task.channel, ranks);
      } else {
        task.kind = direction == graph::Direction::out ? graph::OpenKind::send : graph::OpenKind::receive;
        task.message = static_cast<std::int64_t>(i);
      }
    }
  }
}

}  // namespace

Problem open_problem(const graph::OpenGraph& open, const OpenChoices& choices) {
  Problem problem;
  if (choices.of_class) {
    problem.classes = {
        std::make_shared<const graph::Graph>(graph::opaque_graph(open, *choices.of_class, choices.kept))};
  } else {
    problem.classes = graph::opaque_graphs(open, choices.kept);
  }
  for (std::size_t k = 0; k < open.classes.size(); ++k) {
    if (!choices.of_class || *choices.of_class == k)
      problem.simulation.class_ranks.push_back(std::max<std::size_t>(1, open.classes[k].ranks.size()));
  }
  if (choices.machine) {
    problem.machine = *choices.machine;
  } else {
    problem.machine.name = kNoMachine;
    if (open.contention) {
      problem.machine.shared_cores = open.contention->shared_cores.has_value();
      problem.machine.cores = open.contention->shared_cores.value_or(problem.machine.cores);
      problem.machine.slowdowns = open.contention->slowdowns;
    }
  }
  int streams = 1;  // on which computations were recorded, of the class that has most
  for (const auto& graph : problem.classes) {
    streams = std::max(streams, policy::recorded_compute_streams(*graph));
    if (!policy::has_recorded_times(*graph)) continue;
    // Recorded times hold the contention of the step in which they were recorded.
    problem.machine.slowdowns.clear();
    problem.machine.shared_cores = false;
  }
  problem.options = choices.options;
  problem.options.compute_streams = choices.compute_streams > 0 ? choices.compute_streams
                                    : open.contention           ? open.contention->compute_streams
                                                                : streams;
  problem.options.cost_model = cost::recorded_costs(choices.machine, choices.dtype, choices.bandwidths);
  std::vector<cost::TaskCosts> costs;  // refuses tasks without a cost by name
  for (const auto& graph : problem.classes) costs.push_back(problem.options.cost_model->costs(*graph));
  refuse_cycle(problem.classes, costs);
  problem.options.machine = std::make_shared<const cost::Machine>(problem.machine);
  problem.options.link_of_channel = links_of_channels(problem.classes);
  return problem;
}

policy::NamedPolicy default_open_policy(const graph::Graph& graph) {
  return policy::named_policy(policy::has_recorded_times(graph) ? "recorded" : "program");
}

graph::OpenGraph open_graph_of(graph::Classes classes, std::span<const cost::TaskCosts> costs, const Problem& problem,
                               std::string name) {
  const std::vector<std::vector<std::int64_t>> ranks = ranks_by_class(problem);
  graph::OpenGraph out;
  out.name = std::move(name);
  out.source = "weft";
  out.world = 0;
  for (const std::vector<std::int64_t>& each : ranks) out.world += std::ssize(each);
  const cost::CostModel* model = problem.options.cost_model.get();
  out.notes.push_back(
      fmt::format("Times are those of {}.", model != nullptr ? model->source() : "the default machine"));
  ChannelWriter channels(problem.grid, simulation_options(problem).link_of_channel, out);
  // The numbers that the two halves of messages share, by the stage and the channel of the sender.
  std::map<std::tuple<std::size_t, graph::Channel, std::int64_t>, std::int64_t> messages;
  const auto message_of = [&](std::size_t stage, const graph::Operation& operation) {
    const auto number = [&](std::size_t sender, graph::Channel channel, std::int64_t message) {
      return messages.try_emplace({sender, channel, message}, std::ssize(messages)).first->second;
    };
    if (const auto* send = std::get_if<graph::Send>(&operation)) return number(stage, send->channel, send->message);
    const auto* receive = std::get_if<graph::Receive>(&operation);
    if (receive == nullptr) return std::int64_t{-1};
    const std::int64_t sender =
        graph::peer_stage(receive->channel, static_cast<std::int64_t>(stage), std::ssize(classes));
    return number(static_cast<std::size_t>(sender), graph::other_end(receive->channel), receive->message);
  };
  for (std::size_t k = 0; k < classes.size(); ++k) {
    graph::OpenClass& one = out.classes.emplace_back();
    if (classes.size() > 1) one.name = fmt::format("pipe {}", k);
    one.ranks = ranks[k];
    const graph::Graph& graph = *classes[k];
    ClassWriter(graph, costs[k], channels, one).write();
    for (std::size_t i = 0; i < one.tasks.size(); ++i) one.tasks[i].message = message_of(k, graph.tasks()[i].operation);
  }
  if (classes.size() > 1 && classes.front()->has_opaque_tasks()) write_meetings(classes, channels, out);
  out.contention = contention_of(problem.machine, problem.options.compute_streams);
  return out;
}

}  // namespace weft::simulate
