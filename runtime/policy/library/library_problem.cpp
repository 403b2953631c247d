#include "runtime/policy/library/library_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "graph/analysis.h"

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

LibraryProblem::LibraryProblem(const graph::Graph& graph, const std::vector<plan::Stream>& streams,
                               const cost::TaskCosts& costs, const PolicyOptions& options,
                               const std::string& parameters) {
  add_tensors(graph);
  add_channels(graph, streams, options);
  add_tasks(graph, costs);
  add_edges(graph);
  if (options.machine != nullptr) {
    for (const cost::Slowdown& slowdown : options.machine->slowdowns) {
      slowdowns_.push_back({slowdown.compute.c_str(), slowdown.collective.c_str(), slowdown.factor});
    }
  }
  class_ = {.size = sizeof(weft2_class),
            .tensor_size = sizeof(weft2_tensor),
            .access_size = sizeof(weft2_access),
            .task_size = sizeof(weft2_task),
            .edge_size = sizeof(weft2_edge),
            .stream_size = sizeof(weft2_stream),
            .name = "",
            .tensor_count = tensors_.size(),
            .access_count = accesses_.size(),
            .task_count = tasks_.size(),
            .edge_count = edges_.size(),
            .stream_count = streams_.size(),
            .tensors = tensors_.data(),
            .accesses = accesses_.data(),
            .tasks = tasks_.data(),
            .edges = edges_.data(),
            .streams = streams_.data(),
            .memory_limit = options.memory_limit};
  const bool shares = options.machine != nullptr && options.machine->shared_cores;
  problem_ = {.size = sizeof(weft2_problem),
              .class_size = sizeof(weft2_class),
              .channel_size = sizeof(weft2_channel),
              .link_size = sizeof(weft2_link),
              .slowdown_size = sizeof(weft2_slowdown),
              .class_count = 1,
              .channel_count = channels_.size(),
              .link_count = links_.size(),
              .slowdown_count = slowdowns_.size(),
              .classes = &class_,
              .channels = channels_.data(),
              .links = links_.data(),
              .slowdowns = slowdowns_.data(),
              .shared_cores = shares ? options.machine->cores : 0,
              .parameters = parameters.c_str(),
              .seed = options.seed};
}

void LibraryProblem::add_tensors(const graph::Graph& graph) {
  for (const graph::Tensor& tensor : graph.tensors()) {
    tensors_.push_back({tensor.name.c_str(), static_cast<std::int32_t>(tensor.role),
                        graph::is_state(tensor.role) ? 1 : 0, tensor.bytes(), WEFT2_NONE, WEFT2_NONE});
  }
  for (std::uint32_t t = 0; t < graph.tasks().size(); ++t) {
    for (const graph::Access& access : graph.tasks()[t].accesses) {
      weft2_tensor& tensor = tensors_[access.view.tensor.index()];
      if (tensor.first == WEFT2_NONE) tensor.first = t;
      tensor.last = t;
    }
  }
}

void LibraryProblem::add_channels(const graph::Graph& graph, const std::vector<plan::Stream>& streams,
                                  const PolicyOptions& options) {
  std::vector<int> numbers;  // of links, by index of a link
  for (const plan::Stream& stream : streams) {
    if (stream.compute) {
      streams_.push_back({stream.name.c_str(), -1});
      continue;
    }
    const auto index = static_cast<std::size_t>(stream.channel);
    // Without numbers, a channel has a link of its own.
    const int number = index < options.link_of_channel.size() ? options.link_of_channel[index]
                                                              : -1 - static_cast<int>(channels_.size());
    auto link = std::ranges::find(numbers, number);
    if (link == numbers.end()) link = numbers.insert(numbers.end(), number);
    streams_.push_back({stream.name.c_str(), static_cast<std::int32_t>(channels_.size())});
    channel_ids_.push_back(stream.channel);
    channels_.push_back({stream.name.c_str(), 1, static_cast<std::uint32_t>(link - numbers.begin())});
  }
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr) continue;
    const auto at = std::ranges::find(channel_ids_, *channel) - channel_ids_.begin();
    std::uint32_t& size = channels_[static_cast<std::size_t>(at)].group_size;
    size = std::max(size, group_size_of(graph, *channel, task));
  }
  for (const int number : numbers) link_names_.emplace_back(number < 0 ? "" : number == 0 ? "node" : "network");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool known = numbers[i] >= 0 && options.machine != nullptr;
    const cost::Link link = !known            ? cost::Link{0, 0}
                            : numbers[i] == 0 ? options.machine->node
                                              : options.machine->network;
    links_.push_back({link_names_[i].c_str(), link.bandwidth / kNsPerSecond, link.latency * kNsPerSecond});
  }
}

void LibraryProblem::add_tasks(const graph::Graph& graph, const cost::TaskCosts& costs) {
  for (const graph::Task& task : graph.tasks()) kinds_.emplace_back(graph::kind_name(task.operation));
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Task& task = graph.tasks()[i];
    const graph::Channel* channel = graph::channel_of(task.operation);
    const auto at =
        channel == nullptr ? std::ptrdiff_t{-1} : std::ranges::find(channel_ids_, *channel) - channel_ids_.begin();
    const graph::Work work = graph::work_of(graph, task);
    tasks_.push_back({.name = task.name.c_str(),
                      .kind = kinds_[i].c_str(),
                      .phase = static_cast<std::int32_t>(task.phase),
                      .layer = task.layer,
                      .micro_batch = task.micro_batch,
                      .channel = static_cast<std::int32_t>(at),
                      .peer_class = WEFT2_NONE,
                      .peer_task = WEFT2_NONE,
                      .access_begin = static_cast<std::uint32_t>(accesses_.size()),
                      .access_count = static_cast<std::uint32_t>(task.accesses.size()),
                      .cost_ns = costs.ns[i],
                      .beside_ns = costs.beside_ns.empty() ? costs.ns[i] : costs.beside_ns[i],
                      .cpu_ns = costs.cpu_ns.empty() ? 0 : costs.cpu_ns[i],
                      .flops = work.flops,
                      .bytes = work.bytes,
                      .network_bytes = work.network_bytes});
    for (const graph::Access& access : task.accesses) {
      const auto width = static_cast<std::int64_t>(size_of(graph.tensor(access.view.tensor).dtype));
      accesses_.push_back(
          {access.view.tensor.value, static_cast<std::int32_t>(access.mode) + 1, access.view.elements() * width});
    }
  }
}

void LibraryProblem::add_edges(const graph::Graph& graph) {
  for (const graph::Edge& edge : graph.edges()) {
    const bool issued = edge.kind == graph::EdgeKind::issued_before;
    edges_.push_back({edge.from.value, edge.to.value, static_cast<std::uint8_t>(issued ? 1 : 0), edge.distance});
  }
}

}  // namespace weft::policy
