#include "inspect/import/readers/chakra_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/intervals.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/formats/protobuf.h"
#include "inspect/import/open_cuts.h"
#include "inspect/import/step_timeline.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

using graph::EdgeKind;
using graph::EdgeSource;
using graph::OpenKind;

constexpr std::size_t kLongestMessage = 64 << 20;  // bytes of a message
constexpr std::size_t kPiece = 1 << 16;
constexpr double kMostNanoseconds = 4e18;  // so that sums of two times fit into 63 bits

/// Hands out the messages of a file.
class MessageReader {
 public:
  MessageReader(ByteSource source, const std::string& name) : source_(std::move(source)), name_(name) {}

  /// None at the end of the file. The view holds until the next call.
  std::optional<std::string_view> next() {
    std::uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at_ == buffer_.size() && !fill()) {
        if (shift == 0) return std::nullopt;
        refuse("the file breaks off within a length");
      }
      const auto byte = static_cast<std::uint8_t>(buffer_[at_++]);
      length |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
      if (shift > 28) refuse("a length of more than 32 bits");
    }
    if (length > kLongestMessage) refuse(fmt::format("a message of {} bytes", length));
    while (buffer_.size() - at_ < length) {
      if (!fill()) refuse("the file breaks off within a message");
    }
    const std::string_view message = std::string_view(buffer_).substr(at_, length);
    at_ += length;
    return message;
  }

  [[noreturn]] void refuse(std::string_view found) const {
    throw UserError(
        fmt::format("'{}' byte {}: {}", name_, before_ + at_, found),
        "a Chakra execution trace (other formats are JSON of PyTorch's profiler and Nsight Systems' SQLite)",
        "copy or make the file again");
  }

 private:
  bool fill() {
    buffer_.erase(0, at_);
    before_ += at_;
    at_ = 0;
    const std::size_t held = buffer_.size();
    buffer_.resize(held + kPiece);
    const std::size_t count = source_({buffer_.data() + held, kPiece});
    buffer_.resize(held + count);
    return count > 0;
  }

  ByteSource source_;
  const std::string& name_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::uint64_t before_ = 0;
};

std::string text_of(std::string_view bytes) {
  return utf8_or_ascii(std::string(bytes));
}

double finite(double number) {
  return std::isfinite(number) && number >= 0 ? number : 0;
}

bool read_attribute(std::string_view message, ChakraNode& node) {
  std::string_view name, text;
  double number = 0;  // whichever of the many fields it stands in
  std::int64_t integer = 0;
  ProtoFields fields(message);
  while (fields.next()) {
    const std::uint32_t field = fields.number();
    if (fields.is_bytes()) {
      if (field == 1) name = fields.bytes();
      if (field == 29) text = fields.bytes();
    } else if (field > 2) {
      const bool zigzag = field == 15 || field == 17, floating = field == 3 || field == 5;
      const std::uint64_t bits = fields.value();
      integer = static_cast<std::int64_t>(zigzag ? (bits >> 1) ^ (~(bits & 1) + 1) : bits);
      number = floating ? fields.as_double() : static_cast<double>(integer);
    }
  }
  if (name == "is_cpu_op") node.on_host = integer != 0;
  if (name == "stream") node.stream = std::clamp<std::int64_t>(integer, -1, INT32_MAX);
  if (name == "num_ops") node.flops = finite(number);
  if (name == "tensor_size") node.bytes = finite(number);
  if (name == "comm_type") node.comm_type = integer;
  if (name == "comm_size") node.comm_bytes = finite(number);
  if (name == "comm_dst" && node.type == ChakraType::send) node.peer = integer;
  if (name == "comm_src" && node.type == ChakraType::receive) node.peer = integer;
  if (name == "pg_name") node.group = text_of(text);
  return fields.good();
}

bool read_node(std::string_view message, ChakraNode& node) {
  bool good = true;
  std::vector<std::string_view> attributes;  // they are told apart by the type, which may come later
  ProtoFields fields(message);
  while (good && fields.next()) {
    const std::uint32_t field = fields.number();
    const std::uint64_t value = fields.value();
    if (field == 4) good = fields.add_to(node.ctrl_deps);
    if (field == 5) good = fields.add_to(node.data_deps);
    if (field == 2 || field == 10) good = fields.is_bytes();
    if (field == 1 || field == 3 || field == 6 || field == 7) good = !fields.is_bytes();
    if (field == 1) node.id = value;
    if (field == 2) node.name = text_of(fields.bytes());
    if (field == 3) node.type = value <= 7 ? static_cast<ChakraType>(value) : ChakraType::invalid;
    if (field == 6) node.begin_ns = 1e3 * static_cast<double>(value);
    if (field == 7) node.ns = 1e3 * static_cast<double>(value);
    if (field == 10) attributes.push_back(fields.bytes());
  }
  for (const std::string_view attribute : attributes) good = good && read_attribute(attribute, node);
  return good && fields.good();
}

/// A node of the oldest schema, whose files begin without metadata.
bool read_first_schema_node(std::string_view message, ChakraNode& node) {
  constexpr std::array<ChakraType, 7> kTypes = {ChakraType::invalid,     ChakraType::load, ChakraType::store,
                                                ChakraType::computation, ChakraType::send, ChakraType::receive,
                                                ChakraType::collective};
  constexpr std::array<std::int64_t, 5> kCollectives = {-1, 0, 6, 2, 7};  // in the numbers of the later schema
  bool good = true;
  std::int64_t source = -1, target = -1;
  ProtoFields fields(message);
  while (good && fields.next()) {
    const std::uint32_t field = fields.number();
    const std::uint64_t value = fields.value();
    const auto number = static_cast<double>(value);
    if (field == 1) node.id = value, good = !fields.is_bytes();
    if (field == 2) node.name = text_of(fields.bytes()), good = fields.is_bytes();
    if (field == 3) node.type = value < kTypes.size() ? kTypes[value] : ChakraType::invalid;
    if (field == 4) good = fields.add_to(node.data_deps);
    if (field == 6) node.bytes = number;
    if (field == 7) node.ns = 1e3 * number;
    if (field == 12) node.flops = number;
    if (field == 13) node.comm_type = value < kCollectives.size() ? kCollectives[value] : -1;
    if (field == 15) node.group = std::to_string(value);
    if (field == 16) source = static_cast<std::int64_t>(value);
    if (field == 17) target = static_cast<std::int64_t>(value);
    if (field == 18) node.comm_bytes = number;
  }
  node.peer = node.type == ChakraType::send ? target : node.type == ChakraType::receive ? source : -1;
  return good && fields.good();
}

std::int64_t rank_before_suffix(const std::string& path) {
  std::string file = std::filesystem::path(path).filename().string();
  for (const std::string_view suffix : {".gz", ".zst", ".et", ".chakra"}) {
    if (file.ends_with(suffix)) file.resize(file.size() - suffix.size());
  }
  const std::size_t digits = file.find_last_not_of("0123456789") + 1;
  const auto rank = number_in<std::int64_t>(std::string_view(file).substr(digits));
  return rank && *rank <= 1 << 24 ? *rank : -1;
}

/// Zeros aren't written: where some nodes have times, the others begin at 0 or take none.
void fill_in_zeros(std::vector<ChakraNode>& nodes) {
  const bool begins = std::ranges::any_of(nodes, [](const ChakraNode& node) { return node.begin_ns >= 0; });
  const bool lengths = std::ranges::any_of(nodes, [](const ChakraNode& node) { return node.ns >= 0; });
  for (ChakraNode& node : nodes) {
    if (begins) node.begin_ns = std::max(node.begin_ns, 0.0);
    if (lengths) node.ns = std::max(node.ns, 0.0);
  }
}

constexpr const char* kFix = "convert the trace again";

/// Of CollectiveCommType; "collective" of unknown numbers.
std::string_view chakra_collective(std::int64_t type) {
  constexpr std::array<std::string_view, 10> kNames = {"all_reduce",     "reduce",    "all_gather", "gather",
                                                       "scatter",        "broadcast", "all_to_all", "reduce_scatter",
                                                       "reduce_scatter", "barrier"};
  return type >= 0 && type < static_cast<std::int64_t>(kNames.size()) ? kNames[static_cast<std::size_t>(type)]
                                                                      : "collective";
}

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
    const bool timed =
        std::ranges::all_of(out_.graph.tasks, [](const graph::OpenTask& task) { return task.end_ns.has_value(); });
    if (timed) cut_at_delays(out_.graph);
    return std::move(out_);
  }

 private:
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
    graph::OpenEdge edge{from, to};
    // Work that began while its predecessor still ran: it was launched by it, or is a part of it.
    if (times && node(to).begin_ns < end_of(from) && (node(from).on_host || control)) {
      edge.kind = EdgeKind::issued_before;
      edge.source = node(from).on_host && on_device(to) ? EdgeSource::launch : EdgeSource::given;
      edge.after_begin_ns = node(to).begin_ns - node(from).begin_ns;
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
        graph::OpenEdge edge{nodes[i - 1], nodes[i], EdgeKind::completes_before, EdgeSource::stream};
        if (end_of(nodes[i - 1]) > node(nodes[i]).begin_ns + kRounding) {
          edge.kind = EdgeKind::issued_before;
          edge.after_begin_ns = node(nodes[i]).begin_ns - node(nodes[i - 1]).begin_ns;
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
    for (const graph::OpenEdge& edge : edges_) {
      ++waiting[edge.to];
      out[edge.from].push_back(edge.to);
    }
    using Key = std::pair<double, std::uint32_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    for (std::uint32_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i] == 0) ready.emplace(node(i).begin_ns, i);
    }
    place_.assign(waiting.size(), kNone);
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
    const auto stuck = static_cast<std::uint32_t>(std::ranges::find(place_, kNone) - place_.begin());
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
    if (from.type == ChakraType::collective) {
      task.kind = OpenKind::collective;
      task.operation = chakra_collective(from.comm_type);
    } else if (from.type == ChakraType::send || from.type == ChakraType::receive) {
      task.kind = from.type == ChakraType::send ? OpenKind::send : OpenKind::receive;
      task.operation = to_string(task.kind);
    } else {
      return;
    }
    task.peer = from.peer;
    CollectiveNote note;
    note.group = from.group.empty() ? "all" : from.group;
    task.channel = channels_.channel_of({}, note, "");
    task.network_bytes = from.comm_bytes;
  }

  void add_edges() {
    for (graph::OpenEdge edge : edges_) {
      edge.from = place_[edge.from], edge.to = place_[edge.to];
      out_.graph.edges.push_back(edge);
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
      if (communicates(task.kind)) communication.push_back(span);
    }
    out_.overlap = overlap_of(std::move(compute), std::move(communication));
  }

  const ChakraFile& file_;
  TraceChannels& channels_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> known_;
  std::vector<graph::OpenEdge> edges_;  // between nodes
  std::vector<std::uint32_t> order_, place_;
  std::map<std::string, std::int32_t> streams_;
  std::int64_t denied_ = 0;
  double first_begin_ = -1;
  RecoveredStep out_;
};

}  // namespace

ChakraFile parse_chakra(ByteSource source, const std::string& name) {
  ChakraFile out;
  out.name = name;
  out.rank = rank_before_suffix(name);
  MessageReader messages(std::move(source), name);
  std::optional<std::string_view> message = messages.next();
  if (!message) messages.refuse("the file is empty");
  // Files of later schemas begin with metadata, whose fields are texts and messages; a node begins with its number.
  ProtoFields fields(*message);
  const bool first_schema = fields.next() && !fields.is_bytes();
  if (!first_schema) message = messages.next();
  for (; message; message = messages.next()) {
    ChakraNode node;
    const bool good = first_schema ? read_first_schema_node(*message, node) : read_node(*message, node);
    if (!good) messages.refuse(fmt::format("node {} of the file is no message of the schema", out.nodes.size()));
    if (std::max(node.begin_ns, node.ns) > kMostNanoseconds) {
      messages.refuse(fmt::format("node {} of the file has a time above 4e15 microseconds", out.nodes.size()));
    }
    out.nodes.push_back(std::move(node));
  }
  fill_in_zeros(out.nodes);
  return out;
}

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
