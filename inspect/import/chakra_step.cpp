#include "inspect/import/chakra_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/intervals.h"
#include "inspect/import/trace_reader.h"

namespace weft::inspect {
namespace {

using graph::EdgeKind;
using graph::EdgeSource;
using graph::OpenKind;

constexpr const char* kFix = "convert the trace again";

class ChakraAssembly {
 public:
  ChakraAssembly(const ChakraFile& file, TraceChannels& channels) : file_(file), channels_(channels) {}

  RecoveredStep run() && {
    index_nodes();
    add_dependencies();
    add_stream_order();
    order_nodes();
    add_tasks();
    add_edges();
    out_.graph.edges_from_accesses = false;
    if (file_.rank >= 0) out_.graph.ranks = {file_.rank};
    set_recorded();
    return std::move(out_);
  }

 private:
  struct Edge {
    std::uint32_t from, to;
    EdgeKind kind;
    EdgeSource source;
    std::optional<double> after_begin;
  };

  const ChakraNode& node(std::uint32_t index) const { return file_.nodes[index]; }
  bool timed(std::uint32_t index) const { return node(index).begin_ns >= 0 && node(index).ns >= 0; }
  double end_of(std::uint32_t index) const { return node(index).begin_ns + node(index).ns; }
  bool on_device(std::uint32_t index) const { return !node(index).on_host && node(index).type != ChakraType::metadata; }

  void index_nodes() {
    for (std::uint32_t i = 0; i < file_.nodes.size(); ++i) {
      if (index_.emplace(node(i).id, i).second) continue;
      throw UserError(fmt::format("'{}': two nodes have the number {}", file_.name, node(i).id), "one each", kFix);
    }
    if (file_.nodes.empty()) {
      throw UserError(fmt::format("'{}' has no nodes", file_.name), "a rank's execution trace", kFix);
    }
    first_begin_ = -1;
    for (std::uint32_t i = 0; i < file_.nodes.size(); ++i) {
      if (timed(i) && (first_begin_ < 0 || node(i).begin_ns < first_begin_)) first_begin_ = node(i).begin_ns;
    }
  }

  std::uint32_t find(std::uint64_t id, std::uint32_t of) const {
    const auto found = index_.find(id);
    if (found != index_.end()) return found->second;
    throw UserError(fmt::format("'{}': node {} ('{}') depends on node {}, which isn't there", file_.name, node(of).id,
                                node(of).name, id),
                    "all nodes of the rank in one file", kFix);
  }

  void add_dependencies() {
    for (std::uint32_t to = 0; to < file_.nodes.size(); ++to) {
      for (const std::uint64_t id : node(to).data_deps) add_dependency(find(id, to), to, false);
      for (const std::uint64_t id : node(to).ctrl_deps) add_dependency(find(id, to), to, true);
    }
  }

  void add_dependency(std::uint32_t from, std::uint32_t to, bool control) {
    if (!known_.emplace(from, to).second) return;
    const bool times = timed(from) && timed(to);
    if (from == to || (times && node(to).begin_ns < node(from).begin_ns)) {
      ++denied_;
      return;
    }
    Edge edge{from, to, EdgeKind::completes_before, EdgeSource::given, {}};
    // Work that began while its predecessor still ran: it was launched by it, or is a part of it.
    if (times && node(to).begin_ns < end_of(from) && (node(from).on_host || control)) {
      edge.kind = EdgeKind::issued_before;
      edge.source = node(from).on_host && on_device(to) ? EdgeSource::launch : EdgeSource::given;
      edge.after_begin = node(to).begin_ns - node(from).begin_ns;
    }
    edges_.push_back(edge);
  }

  /// The predecessor on the stream, where the file names streams and times.
  void add_stream_order() {
    std::map<std::int64_t, std::vector<std::uint32_t>> streams;
    for (std::uint32_t i = 0; i < file_.nodes.size(); ++i) {
      if (on_device(i) && timed(i) && node(i).stream >= 0) streams[node(i).stream].push_back(i);
    }
    std::int64_t added = 0;
    for (auto& [stream, nodes] : streams) {
      std::ranges::stable_sort(nodes, {}, [&](std::uint32_t i) { return node(i).begin_ns; });
      for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (!known_.emplace(nodes[i - 1], nodes[i]).second) continue;
        ++added;
        const bool overlap = end_of(nodes[i - 1]) > node(nodes[i]).begin_ns + 1000;  // whole microseconds
        Edge edge{nodes[i - 1], nodes[i], EdgeKind::completes_before, EdgeSource::stream, {}};
        if (overlap) {
          edge.kind = EdgeKind::issued_before;
          edge.after_begin = node(nodes[i]).begin_ns - node(nodes[i - 1]).begin_ns;
        }
        edges_.push_back(edge);
      }
    }
    if (added > 0) {
      out_.notes.push_back(
          fmt::format("{} edges between neighbours on a stream, which the file lacks, were added.", added));
    }
    if (denied_ > 0) {
      out_.notes.push_back(fmt::format("{} dependencies go from later to earlier work and were left out.", denied_));
    }
  }

  /// By begin where it is told, else as the file has them, as far as the edges allow.
  void order_nodes() {
    std::vector<std::uint32_t> waiting(file_.nodes.size());
    std::vector<std::vector<std::uint32_t>> out(file_.nodes.size());
    for (const Edge& edge : edges_) {
      ++waiting[edge.to];
      out[edge.from].push_back(edge.to);
    }
    using Key = std::pair<double, std::uint32_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (std::uint32_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i] == 0) ready.emplace(node(i).begin_ns, i);
    }
    place_.assign(waiting.size(), kNoPlace);
    while (!ready.empty()) {
      const std::uint32_t next = ready.top().second;
      ready.pop();
      place_[next] = static_cast<std::uint32_t>(order_.size());
      order_.push_back(next);
      for (const std::uint32_t to : out[next]) {
        if (--waiting[to] == 0) ready.emplace(node(to).begin_ns, to);
      }
    }
    if (order_.size() == waiting.size()) return;
    const auto stuck = static_cast<std::uint32_t>(std::ranges::find(place_, kNoPlace) - place_.begin());
    throw UserError(
        fmt::format("'{}': node {} ('{}') depends on itself in the end", file_.name, node(stuck).id, node(stuck).name),
        "dependencies without a cycle", kFix);
  }

  std::int32_t stream_of(const ChakraNode& one) {
    std::string name = one.on_host ? "host" : one.stream >= 0 ? fmt::format("stream {}", one.stream) : "";
    if (name.empty()) return -1;
    const auto [at, added] = streams_.emplace(name, static_cast<std::int32_t>(out_.graph.streams.size()));
    if (added) out_.graph.streams.push_back({std::move(name), one.on_host});
    return at->second;
  }

  void add_tasks() {
    std::map<std::string, std::int64_t> taken;
    for (const std::uint32_t index : order_) {
      const ChakraNode& from = node(index);
      graph::OpenTask task;
      const std::string name = from.name.empty() ? "node" : from.name;
      const std::int64_t earlier = taken[name]++;
      task.name = earlier == 0 ? name : fmt::format("{}#{}", name, earlier);
      // Another node may be called like that.
      while (earlier > 0 && !taken.emplace(task.name, 1).second) task.name += "'";
      task.operation = name;
      task.kind = from.on_host || from.type == ChakraType::metadata ? OpenKind::host : OpenKind::compute;
      task.stream = stream_of(from);
      if (from.ns >= 0) task.ns = from.ns;
      if (timed(index)) {
        task.begin_ns = from.begin_ns - first_begin_;
        task.end_ns = *task.begin_ns + from.ns;
      }
      task.flops = from.flops;
      task.bytes = from.bytes;
      if (!from.on_host) add_kind(from, task);
      out_.graph.tasks.push_back(std::move(task));
    }
  }

  void add_kind(const ChakraNode& from, graph::OpenTask& task) {
    if (from.type == ChakraType::load || from.type == ChakraType::store) task.kind = OpenKind::copy;
    const bool communicates =
        from.type == ChakraType::collective || from.type == ChakraType::send || from.type == ChakraType::receive;
    if (!communicates) return;
    task.kind = from.type == ChakraType::send      ? OpenKind::send
                : from.type == ChakraType::receive ? OpenKind::receive
                                                   : OpenKind::collective;
    task.operation = task.kind == OpenKind::send      ? "send"
                     : task.kind == OpenKind::receive ? "receive"
                                                      : std::string(chakra_collective(from.comm_type));
    task.peer = from.peer;
    CollectiveNote note;
    note.group = from.group.empty() ? "all" : from.group;
    task.channel = channels_.channel_of({}, note, "");
    task.network_bytes = from.comm_bytes;
  }

  void add_edges() {
    for (const Edge& edge : edges_) {
      out_.graph.edges.push_back({place_[edge.from], place_[edge.to], edge.kind, edge.source, 1, edge.after_begin});
      ++out_.edges[static_cast<std::size_t>(edge.source)];
    }
    std::ranges::sort(out_.graph.edges, {}, [](const graph::OpenEdge& e) { return std::tuple(e.to, e.from); });
  }

  /// The span of all nodes that have times, and how they overlap.
  void set_recorded() {
    Intervals compute, communication;
    for (const graph::OpenTask& task : out_.graph.tasks) {
      if (!task.end_ns) continue;
      out_.graph.recorded_ns = std::max(out_.graph.recorded_ns, *task.end_ns);
      const Interval span{static_cast<std::int64_t>(*task.begin_ns), static_cast<std::int64_t>(*task.end_ns)};
      if (task.kind == OpenKind::compute) compute.push_back(span);
      if (task.kind == OpenKind::collective || task.kind == OpenKind::send || task.kind == OpenKind::receive) {
        communication.push_back(span);
      }
    }
    compute = merged(std::move(compute));
    communication = merged(std::move(communication));
    out_.overlap = {total_length(compute), total_length(communication),
                    total_length(intersection(compute, communication))};
  }

  static constexpr std::uint32_t kNoPlace = 0xFFFFFFFF;

  const ChakraFile& file_;
  TraceChannels& channels_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> known_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> order_, place_;
  std::map<std::string, std::int32_t> streams_;
  std::int64_t denied_ = 0;
  double first_begin_ = -1;
  RecoveredStep out_;
};

}  // namespace

RecoveredStep chakra_step(const ChakraFile& file, TraceChannels& channels) {
  return ChakraAssembly(file, channels).run();
}

const TraceReader kChakraReader = {
    .name = "chakra",
    .reads = [](std::string_view) { return true; },
    .open =
        [](const std::vector<std::filesystem::path>& files, const TellImport&) {
          std::vector<RankTrace> traces;
          for (const std::filesystem::path& path : files) {
            const auto file =
                std::make_shared<ChakraFile>(parse_chakra(open_text_file(path, "the trace").source, path.string()));
            traces.push_back({{.file = path.string(), .rank = file->rank, .events = std::ssize(file->nodes)},
                              [file](const TraceOutline& outline, const auto&, TraceChannels& channels) {
                                file->rank = outline.rank;
                                return chakra_step(*file, channels);
                              }});
          }
          return traces;
        },
    .marks_steps = false};

}  // namespace weft::inspect
