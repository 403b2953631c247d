#include "runtime/policy/policy_library.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"
#include "graph/analysis.h"
#include "runtime/policy/policy_abi.h"

namespace weft::policy {
namespace {

constexpr std::uint32_t kUnset = UINT32_MAX;
constexpr std::size_t kMostAdded = 10'000'000;  // of reasons and of edges: limits a library that adds without end

// The loader searches system folders for a path without a slash, so the path is made absolute.
std::array<std::string, 1> place_of(const std::string& path) {
  return {std::filesystem::absolute(path).string()};
}

// Reasons and edges that the library adds. Its calls come through C, so no exception may leave these functions.
struct Added {
  std::vector<plan::Reason> reasons = {{.kind = plan::ReasonKind::not_given}};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
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
    added.edges.emplace_back(from, to);
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

class LibraryPolicy final : public Policy {
 public:
  LibraryPolicy(std::string path, std::string parameters)
      : path_(std::move(path)), parameters_(std::move(parameters)), library_(place_of(path_)) {
    if (!library_) {
      throw UserError(fmt::format("can't load the policy {}: {}", path_, library_.failure()),
                      "a shared library as in examples/policy", "check the path and how the library was linked");
    }
    auto* const entry = library_.find<const weft_policy*()>("weft_policy_entry");
    if (entry == nullptr) {
      refuse("it exports no function weft_policy_entry",
             "declare it extern \"C\" and export it, as examples/policy does");
    }
    policy_ = entry();
    if (policy_ == nullptr) refuse("weft_policy_entry() returns null", "return the address of a static weft_policy");
    if (policy_->version != weft_policy_abi_version) {
      refuse(fmt::format("it was compiled for version {} of the interface, but this is version {}", policy_->version,
                         static_cast<int>(weft_policy_abi_version)),
             "compile it with the policy_abi.h of this version");
    }
    if (policy_->size != sizeof(weft_policy) || policy_->order == nullptr) {
      refuse(fmt::format("its weft_policy has {} bytes (here: {}), or no function order", policy_->size,
                         sizeof(weft_policy)),
             "set size to sizeof(weft_policy), and order");
    }
  }

  std::string name() const override { return parameters_.empty() ? path_ : path_ + ":" + parameters_; }

  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override {
    plan::Order order;
    order.streams = plan::streams_of(graph, options.compute_streams);
    const Described described(graph, order.streams, costs_of(graph, options));
    const std::size_t count = described.tasks.size();
    std::vector<std::uint32_t> sequence(count, kUnset), streams(count, kUnset), reasons(count, 0);
    Added added;
    ask(described, options, sequence, streams, reasons, added);
    if (added.too_many) refuse("it adds more than ten million reasons or edges", "add each once");
    place(graph, sequence, streams, reasons, added, order);
    add_edges(graph, added, order);
    order.reasons = std::move(added.reasons);
    return order;
  }

 private:
  [[noreturn]] void refuse(const std::string& why, std::string_view fix) const {
    throw UserError(fmt::format("policy {}: {}", path_, why), "", fix);
  }

  void ask(const Described& described, const PolicyOptions& options, std::vector<std::uint32_t>& sequence,
           std::vector<std::uint32_t>& streams, std::vector<std::uint32_t>& reasons, Added& added) const {
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
                                     .parameters = parameters_.c_str(),
                                     .memory_limit = options.memory_limit,
                                     .seed = options.seed};
    std::array<char, 1024> error{};
    weft_policy_output output = {.size = sizeof(weft_policy_output),
                                 .sequence = sequence.data(),
                                 .streams = streams.data(),
                                 .reasons = reasons.data(),
                                 .add_reason = Added::add_reason,
                                 .add_edge = Added::add_edge,
                                 .context = &added,
                                 .error = error.data(),
                                 .error_capacity = error.size()};
    std::int32_t answer = 0;
    std::string thrown;
    try {
      answer = policy_->order(&input, &output);
    } catch (const std::exception& exception) {
      thrown = fmt::format("an exception left order(): {}", exception.what());
    } catch (...) {
      thrown = "an exception left order()";
    }
    if (!thrown.empty()) refuse(thrown, "catch it and return a number other than 0 with a text in error");
    error.back() = '\0';
    if (answer != 0) {
      const std::string text = error.data();
      refuse(text.empty() ? fmt::format("order() returns {} without a text in error", answer) : text, "");
    }
  }

  void place(const graph::Graph& graph, const std::vector<std::uint32_t>& sequence,
             const std::vector<std::uint32_t>& streams, const std::vector<std::uint32_t>& reasons, const Added& added,
             plan::Order& order) const {
    const std::size_t count = graph.tasks().size();
    std::vector<bool> seen(count, false);
    std::vector<graph::TaskId> ids;
    for (std::size_t i = 0; i < count; ++i) {
      if (sequence[i] >= count) {
        refuse(sequence[i] == kUnset
                   ? fmt::format("sequence[{}] of {} is not filled", i, count)
                   : fmt::format("sequence[{}] = {} isn't an index of the {} tasks", i, sequence[i], count),
               "put every task in the sequence once");
      }
      const graph::TaskId id{std::size_t{sequence[i]}};
      const graph::Task& task = graph.task(id);
      if (seen[id.index()]) {
        refuse(fmt::format("task {} ('{}') is in the sequence twice, so another task is missing", id.value, task.name),
               "put every task in the sequence once");
      }
      seen[id.index()] = true;
      const graph::Channel* channel = graph::channel_of(task.operation);
      const bool known = streams[i] < order.streams.size();
      const plan::Stream* stream = known ? &order.streams[streams[i]] : nullptr;
      if (!known || (channel == nullptr ? !stream->compute : stream->compute || stream->channel != *channel)) {
        refuse(fmt::format("streams[{}] = {} can't run task '{}'", i,
                           known ? fmt::format("{} ({})", streams[i], stream->name) : fmt::format("{}", streams[i]),
                           task.name),
               channel == nullptr ? "give a computation a stream of channel -1"
                                  : fmt::format("give it the stream of channel {} ({})", static_cast<int>(*channel),
                                                graph::to_string(*channel)));
      }
      if (reasons[i] >= added.reasons.size()) {
        refuse(fmt::format("reasons[{}] = {} isn't a value that add_reason() returned", i, reasons[i]),
               "store the value that add_reason() returns, or leave 0");
      }
      ids.push_back(id);
      order.sequence.push_back({id, plan::StreamId(std::size_t{streams[i]}), reasons[i]});
    }
    if (const std::string why = graph::why_not_topological(graph, ids); !why.empty()) {
      refuse("its sequence contradicts an edge: " + why, "put each task after all tasks that have an edge to it");
    }
  }

  void add_edges(const graph::Graph& graph, const Added& added, plan::Order& order) const {
    std::vector<std::size_t> position(graph.tasks().size());
    for (std::size_t i = 0; i < order.sequence.size(); ++i) position[order.sequence[i].task.index()] = i;
    for (const auto& [from, to] : added.edges) {
      if (from >= position.size() || to >= position.size() || position[from] >= position[to]) {
        refuse(
            fmt::format("its edge from task {} to task {} contradicts its sequence, or a task doesn't exist", from, to),
            "add edges that go forward in the sequence");
      }
      order.added_edges.push_back({graph::TaskId(std::size_t{from}), graph::TaskId(std::size_t{to}),
                                   graph::EdgeKind::completes_before, graph::EdgeReason::policy, 0, graph::TensorId()});
    }
  }

  std::string path_, parameters_;
  SharedLibrary library_;
  const weft_policy* policy_ = nullptr;
};

}  // namespace

std::unique_ptr<Policy> load_policy_library(const std::string& path, std::string parameters) {
  return std::make_unique<LibraryPolicy>(path, std::move(parameters));
}

}  // namespace weft::policy
