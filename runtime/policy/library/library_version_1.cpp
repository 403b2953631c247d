#include "runtime/policy/library/library_version_1.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <vector>

#include "graph/analysis.h"
#include "runtime/policy/library/library_answer.h"

namespace weft::policy {
namespace {

// Reasons and edges that the library adds. Its calls come through C, so no exception may leave these functions.
struct Added {
  std::vector<plan::Reason> reasons = {{.kind = plan::ReasonKind::not_given}};
  std::vector<graph::Edge> edges;
  bool too_many = false;

  static std::uint32_t add_reason(void* context, const char* text) noexcept {
    auto& added = *static_cast<Added*>(context);
    if (added.reasons.size() >= kMostAdded || text == nullptr) {
      added.too_many = added.too_many || text != nullptr;
      return 0;
    }
    added.reasons.push_back(plan::parse_reason(text));
    return static_cast<std::uint32_t>(added.reasons.size() - 1);
  }
  static void add_edge(void* context, std::uint32_t from, std::uint32_t to) noexcept {
    auto& added = *static_cast<Added*>(context);
    if (added.edges.size() >= kMostAdded) {
      added.too_many = true;
      return;
    }
    added.edges.push_back({graph::TaskId(std::size_t{from}), graph::TaskId(std::size_t{to}),
                           graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
  }
};

// A graph as the library sees it; the names are the graph's own.
struct Described {
  std::vector<std::string> kinds;  // with their terminating zeros
  std::vector<weft_policy_task> tasks;
  std::vector<weft_policy_edge> edges;
  std::vector<weft_policy_stream> streams;

  Described(const graph::Graph& graph, const std::vector<plan::Stream>& graph_streams, const cost::TaskCosts& costs) {
    for (const graph::Task& task : graph.tasks()) kinds.emplace_back(graph::kind_name(task.operation));
    for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
      const graph::Task& task = graph.tasks()[i];
      const graph::Channel* channel = graph::channel_of(task.operation);
      const graph::Work work = graph::work_of(graph, task);
      tasks.push_back({task.name.c_str(), kinds[i].c_str(), static_cast<std::int32_t>(task.phase), task.layer,
                       task.micro_batch, channel == nullptr ? -1 : static_cast<std::int32_t>(*channel), costs.ns[i],
                       channel == nullptr ? work.bytes : work.network_bytes});
    }
    for (const graph::Edge& edge : graph.edges()) {
      if (edge.distance == 0) edges.push_back({edge.from.value, edge.to.value});
    }
    for (const plan::Stream& stream : graph_streams) {
      streams.push_back({stream.name.c_str(), stream.compute ? -1 : static_cast<std::int32_t>(stream.channel)});
    }
  }
};

}  // namespace

void check_version_1(const std::string& path, const weft_policy* entry) {
  if (entry == nullptr) {
    refuse_library(path, "weft_policy_entry() returns null", "return the address of a static weft_policy");
  }
  if (entry->version != weft_policy_abi_version) {
    refuse_library(path,
                   fmt::format("weft_policy_entry() tells version {}, which has the type weft_policy of version {}",
                               entry->version, static_cast<int>(weft_policy_abi_version)),
                   "export weft_policy_entry_2() for version 2, or set version to weft_policy_abi_version");
  }
  if (entry->size != sizeof(weft_policy) || entry->order == nullptr) {
    refuse_library(
        path,
        fmt::format("its weft_policy has {} bytes (here: {}), or no function order", entry->size, sizeof(weft_policy)),
        "set size to sizeof(weft_policy), and order");
  }
}

plan::Order ask_version_1(const std::string& path, const weft_policy& entry, const std::string& parameters,
                          const graph::Graph& graph, const PolicyOptions& options) {
  std::vector<plan::Stream> streams = plan::streams_of(graph, options.compute_streams);
  const Described described(graph, streams, costs_of(graph, options));
  LibraryAnswer answer(described.tasks.size());
  Added added;
  const weft_policy_input input = {.size = sizeof(weft_policy_input),
                                   .task_size = sizeof(weft_policy_task),
                                   .edge_size = sizeof(weft_policy_edge),
                                   .stream_size = sizeof(weft_policy_stream),
                                   .tasks = described.tasks.data(),
                                   .edges = described.edges.data(),
                                   .streams = described.streams.data(),
                                   .task_count = described.tasks.size(),
                                   .edge_count = described.edges.size(),
                                   .stream_count = described.streams.size(),
                                   .parameters = parameters.c_str(),
                                   .memory_limit = options.memory_limit,
                                   .seed = options.seed};
  std::array<char, 1024> error{};
  weft_policy_output output = {.size = sizeof(weft_policy_output),
                               .sequence = answer.sequence.data(),
                               .streams = answer.streams.data(),
                               .reasons = answer.reason_of.data(),
                               .add_reason = Added::add_reason,
                               .add_edge = Added::add_edge,
                               .context = &added,
                               .error = error.data(),
                               .error_capacity = error.size()};
  std::int32_t failed = 0;
  std::string thrown;
  try {
    failed = entry.order(&input, &output);
  } catch (const std::exception& exception) {
    thrown = fmt::format("an exception left order(): {}", exception.what());
  } catch (...) {
    thrown = "an exception left order()";
  }
  if (!thrown.empty()) refuse_library(path, thrown, "catch it and return a number other than 0 with a text in error");
  error.back() = '\0';
  if (failed != 0) {
    const std::string text = error.data();
    refuse_library(path, text.empty() ? fmt::format("order() returns {} without a text in error", failed) : text, "");
  }
  if (added.too_many) refuse_library(path, "it adds more than ten million reasons or edges", "add each once");
  answer.edges = std::move(added.edges);
  return order_of_answer(path, graph, std::move(streams), answer, added.reasons);
}

}  // namespace weft::policy
