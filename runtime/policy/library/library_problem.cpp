#include "runtime/policy/library/library_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "graph/analysis.h"
#include "graph/meetings.h"

namespace weft::policy {
namespace {

/// Members of the group of a task that has this channel.
std::uint32_t group_size_of(const graph::Graph& graph, const graph::Channel& channel, const graph::Task& task) {
  if (const graph::ChannelInfo* info = graph.channel_info(channel)) return static_cast<std::uint32_t>(info->group_size);
  return std::visit(
      [](const auto& of) -> std::uint32_t {
        if constexpr (requires { of.channel, of.ranks; }) return static_cast<std::uint32_t>(of.ranks);
        return 1;
      },
      task.operation);
}

constexpr double kNsPerSecond = 1e9;

static_assert(static_cast<int>(graph::Role::parameter) == weft2_role_parameter);
static_assert(static_cast<int>(graph::Role::workspace) == weft2_role_workspace && graph::kRoles == 9);
static_assert(static_cast<int>(graph::AccessMode::read) + 1 == weft2_read);
static_assert(static_cast<int>(graph::AccessMode::read_write) + 1 == weft2_read_write);
static_assert(static_cast<int>(graph::Phase::update) == weft2_phase_update);

}  // namespace

LibraryProblem::LibraryProblem(graph::Classes classes, std::span<const std::vector<plan::Stream>> streams,
                               std::span<const cost::TaskCosts> costs, std::span<const std::int64_t> limits,
                               const PolicyOptions& options, const std::string& parameters)
    : tables_(classes.size()) {
  for (std::size_t k = 0; k < classes.size(); ++k) {
    tables_[k].add_tensors(*classes[k]);
    add_channels(*classes[k], streams[k], options, tables_[k]);
    add_tasks(*classes[k], costs[k], tables_[k]);
    tables_[k].add_edges(*classes[k]);
    class_names_.push_back(classes.size() == 1 ? "" : fmt::format("stage {}", k));
  }
  add_links(options);
  add_meetings(classes);
  if (options.machine != nullptr) {
    for (const cost::Slowdown& slowdown : options.machine->slowdowns) {
      slowdowns_.push_back({slowdown.compute.c_str(), slowdown.collective.c_str(), slowdown.factor});
    }
  }
  for (std::size_t k = 0; k < classes.size(); ++k) classes_.push_back(tables_[k].described(class_names_[k], limits[k]));
  const bool shares = options.machine != nullptr && options.machine->shared_cores;
  problem_ = {.size = sizeof(weft2_problem),
              .class_size = sizeof(weft2_class),
              .channel_size = sizeof(weft2_channel),
              .link_size = sizeof(weft2_link),
              .slowdown_size = sizeof(weft2_slowdown),
              .class_count = classes_.size(),
              .channel_count = channels_.size(),
              .link_count = links_.size(),
              .slowdown_count = slowdowns_.size(),
              .classes = classes_.data(),
              .channels = channels_.data(),
              .links = links_.data(),
              .slowdowns = slowdowns_.data(),
              .shared_cores = shares ? options.machine->cores : 0,
              .parameters = parameters.c_str(),
              .seed = options.seed};
}

weft2_class LibraryProblem::Tables::described(const std::string& name, std::int64_t memory_limit) const {
  return {.size = sizeof(weft2_class),
          .tensor_size = sizeof(weft2_tensor),
          .access_size = sizeof(weft2_access),
          .task_size = sizeof(weft2_task),
          .edge_size = sizeof(weft2_edge),
          .stream_size = sizeof(weft2_stream),
          .name = name.c_str(),
          .tensor_count = tensors.size(),
          .access_count = accesses.size(),
          .task_count = tasks.size(),
          .edge_count = edges.size(),
          .stream_count = streams.size(),
          .tensors = tensors.data(),
          .accesses = accesses.data(),
          .tasks = tasks.data(),
          .edges = edges.data(),
          .streams = streams.data(),
          .memory_limit = memory_limit,
          .meetings = meetings.data()};
}

void LibraryProblem::Tables::add_tensors(const graph::Graph& graph) {
  for (const graph::Tensor& tensor : graph.tensors()) {
    tensors.push_back({tensor.name.c_str(), static_cast<std::int32_t>(tensor.role),
                       graph::is_state(tensor.role) ? 1 : 0, tensor.bytes(), WEFT2_NONE, WEFT2_NONE});
  }
  for (std::uint32_t t = 0; t < graph.tasks().size(); ++t) {
    for (const graph::Access& access : graph.tasks()[t].accesses) {
      weft2_tensor& tensor = tensors[access.view.tensor.index()];
      if (tensor.first == WEFT2_NONE) tensor.first = t;
      tensor.last = t;
    }
  }
}

void LibraryProblem::add_channels(const graph::Graph& graph, const std::vector<plan::Stream>& streams,
                                  const PolicyOptions& options, Tables& tables) {
  for (const plan::Stream& stream : streams) {
    if (stream.compute) {
      tables.streams.push_back({stream.name.c_str(), -1});
      continue;
    }
    const auto known = std::ranges::find(channel_ids_, stream.channel);
    tables.streams.push_back({stream.name.c_str(), static_cast<std::int32_t>(known - channel_ids_.begin())});
    if (known != channel_ids_.end()) continue;
    const auto index = static_cast<std::size_t>(stream.channel);
    // Without numbers, a channel has a link of its own.
    const int number = index < options.link_of_channel.size() ? options.link_of_channel[index]
                                                              : -1 - static_cast<int>(channels_.size());
    auto link = std::ranges::find(link_numbers_, number);
    if (link == link_numbers_.end()) link = link_numbers_.insert(link_numbers_.end(), number);
    channel_ids_.push_back(stream.channel);
    channels_.push_back({stream.name.c_str(), 1, static_cast<std::uint32_t>(link - link_numbers_.begin())});
  }
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr) continue;
    const auto at = std::ranges::find(channel_ids_, *channel) - channel_ids_.begin();
    std::uint32_t& size = channels_[static_cast<std::size_t>(at)].group_size;
    size = std::max(size, group_size_of(graph, *channel, task));
  }
}

void LibraryProblem::add_links(const PolicyOptions& options) {
  for (const int number : link_numbers_) {
    const char* const name = number < 0 ? "" : number == 0 ? "node" : "network";
    const bool known = number >= 0 && options.machine != nullptr;
    const cost::Link link = !known ? cost::Link{0, 0} : number == 0 ? options.machine->node : options.machine->network;
    links_.push_back({name, link.bandwidth / kNsPerSecond, link.latency * kNsPerSecond});
  }
}

void LibraryProblem::add_meetings(graph::Classes classes) {
  const graph::Meetings meetings(classes);
  for (Tables& tables : tables_) tables.meetings.resize(tables.tasks.size(), WEFT2_NONE);
  for (std::uint32_t number = 0; number < meetings.all().size(); ++number) {
    const std::vector<graph::ClassTask>& members = meetings.all()[number].members;
    for (const graph::ClassTask& member : members) {
      weft2_task& task = tables_[member.of_class].tasks[member.task];
      tables_[member.of_class].meetings[member.task] = number;
      const graph::Graph& graph = *classes[member.of_class];
      const graph::Channel* channel = graph::channel_of(graph.tasks()[member.task].operation);
      if (graph.direction(*channel) == graph::Direction::both || members.size() != 2) continue;
      const graph::ClassTask& peer = member == members[0] ? members[1] : members[0];
      task.peer_class = peer.of_class;
      task.peer_task = peer.task;
    }
  }
}

void LibraryProblem::add_tasks(const graph::Graph& graph, const cost::TaskCosts& costs, Tables& tables) const {
  for (const graph::Task& task : graph.tasks()) tables.kinds.emplace_back(graph::kind_name(task.operation));
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const graph::Channel* channel = graph::channel_of(task.operation);
    const auto at =
        channel == nullptr ? std::ptrdiff_t{-1} : std::ranges::find(channel_ids_, *channel) - channel_ids_.begin();
    const graph::Work work = graph::work_of(graph, task);
    tables.tasks.push_back({.name = task.name.c_str(),
                            .kind = tables.kinds[i].c_str(),
                            .phase = static_cast<std::int32_t>(task.phase),
                            .layer = task.layer,
                            .micro_batch = task.micro_batch,
                            .channel = static_cast<std::int32_t>(at),
                            .peer_class = WEFT2_NONE,
                            .peer_task = WEFT2_NONE,
                            .access_begin = static_cast<std::uint32_t>(tables.accesses.size()),
                            .access_count = static_cast<std::uint32_t>(task.accesses.size()),
                            .cost_ns = costs.ns[i],
                            .beside_ns = costs.beside_ns.empty() ? costs.ns[i] : costs.beside_ns[i],
                            .cpu_ns = costs.cpu_ns.empty() ? 0 : costs.cpu_ns[i],
                            .flops = work.flops,
                            .bytes = work.bytes,
                            .network_bytes = work.network_bytes});
    for (const graph::Access& access : task.accesses) {
      const auto width = static_cast<std::int64_t>(size_of(graph.tensor(access.view.tensor).dtype));
      tables.accesses.push_back(
          {access.view.tensor.value, static_cast<std::int32_t>(access.mode) + 1, access.view.elements() * width});
    }
  }
}

void LibraryProblem::Tables::add_edges(const graph::Graph& graph) {
  for (const graph::Edge& edge : graph.edges()) {
    const bool issued = edge.kind == graph::EdgeKind::issued_before;
    edges.push_back({edge.from.value, edge.to.value, static_cast<std::uint8_t>(issued ? 1 : 0), edge.distance});
  }
}

}  // namespace weft::policy
