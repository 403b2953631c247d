#include "inspect/formats/graph_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files/byte_source.h"
#include "base/text/json_object.h"
#include "inspect/formats/json_pull.h"
#include "inspect/formats/trace_file.h"

namespace weft::inspect {
namespace {

using graph::AccessMode;
using graph::EdgeKind;
using graph::EdgeSource;
using graph::OpenChannel;
using graph::OpenClass;
using graph::OpenEdge;
using graph::OpenGraph;
using graph::OpenKind;
using graph::OpenStream;
using graph::OpenTask;
using graph::OpenTensor;
using graph::Phase;
using graph::Role;

constexpr std::string_view kFormat = "weft-graph";
constexpr std::int64_t kLargest = std::int64_t{1} << 62;
constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max();

std::int32_t read_index(JsonPull& in) {
  return static_cast<std::int32_t>(in.integer(-1, kLargestIndex));
}

std::vector<std::int64_t> read_ranks(JsonPull& in) {
  std::vector<std::int64_t> ranks;
  read_list(in, [&] { ranks.push_back(in.integer(0, kLargest)); });
  return ranks;
}

OpenChannel read_channel(JsonPull& in) {
  OpenChannel channel;
  read_object(in, 1, JsonMember{"name", [&] { channel.name = in.kept_text(); }},
              JsonMember{"group_size", [&] { channel.group_size = in.integer(1, kLargest); }},
              JsonMember{"groups", [&] { read_list(in, [&] { channel.groups.push_back(read_ranks(in)); }); }},
              JsonMember{"link", [&] { channel.link = in.kept_text(); }});
  return channel;
}

graph::OpenContention read_contention(JsonPull& in) {
  constexpr std::int64_t kMostStreams = 1 << 20;
  graph::OpenContention contention;
  const auto slowdown = [&] {
    graph::OpenSlowdown& each = contention.slowdowns.emplace_back();
    read_object(in, 1, JsonMember{"factor", [&] { each.factor = in.number(); }},
                JsonMember{"compute", [&] { each.compute = in.kept_text(); }},
                JsonMember{"collective", [&] { each.collective = in.kept_text(); }});
    if (each.factor < 1) in.refuse(fmt::format("a slowdown of {}", each.factor), "a factor of 1 or more");
  };
  read_object(in, 0,
              JsonMember{"compute_streams",
                         [&] { contention.compute_streams = static_cast<int>(in.integer(1, kMostStreams)); }},
              JsonMember{"shared_cores", [&] { contention.shared_cores = in.number(); }},
              JsonMember{"slowdowns", [&] { read_list(in, slowdown); }});
  if (contention.shared_cores && *contention.shared_cores <= 0)
    in.refuse(fmt::format("{} shared cores", *contention.shared_cores), "a number above 0");
  return contention;
}

OpenStream read_stream(JsonPull& in) {
  OpenStream stream;
  read_object(in, 1, JsonMember{"name", [&] { stream.name = in.kept_text(); }},
              JsonMember{"host", [&] { stream.host = in.boolean(); }},
              JsonMember{"channel", [&] { stream.channel = read_index(in); }});
  return stream;
}

Role read_role(JsonPull& in) {
  return read_name(in, {Role::parameter, Role::gradient, Role::optimizer_state, Role::scalar, Role::input, Role::cache,
                        Role::activation, Role::gathered, Role::workspace});
}

OpenTensor read_tensor(JsonPull& in) {
  OpenTensor tensor;
  read_object(in, 2, JsonMember{"name", [&] { tensor.name = in.kept_text(); }},
              JsonMember{"bytes", [&] { tensor.bytes = in.integer(0, kLargest); }},
              JsonMember{"outlives_step", [&] { tensor.outlives_step = in.boolean(); }},
              JsonMember{"role", [&] { tensor.role = read_role(in); }});
  return tensor;
}

OpenTask read_task(JsonPull& in) {
  OpenTask task;
  std::vector<graph::OpenAccess> reads, updates, writes;
  const auto accesses = [&in](std::vector<graph::OpenAccess>& out, AccessMode mode) {
    read_list(in, [&] { out.push_back({static_cast<std::uint32_t>(in.integer(0, kLargestIndex)), mode}); });
  };
  read_object(
      in, 1, JsonMember{"name", [&] { task.name = in.kept_text(); }},
      JsonMember{"kind",
                 [&] {
                   task.kind = read_name(in, {OpenKind::compute, OpenKind::collective, OpenKind::send,
                                              OpenKind::receive, OpenKind::copy, OpenKind::host});
                 }},
      JsonMember{"operation", [&] { task.operation = in.kept_text(); }},
      JsonMember{"stream", [&] { task.stream = read_index(in); }},
      JsonMember{"channel", [&] { task.channel = read_index(in); }},
      JsonMember{"sequence", [&] { task.sequence = in.integer(-1, kLargest); }},
      JsonMember{"peer", [&] { task.peer = in.integer(-1, kLargest); }},
      JsonMember{"message", [&] { task.message = in.integer(-1, kLargest); }},
      JsonMember{"ns", [&] { task.ns = in.number(); }}, JsonMember{"begin_ns", [&] { task.begin_ns = in.number(); }},
      JsonMember{"end_ns", [&] { task.end_ns = in.number(); }}, JsonMember{"flops", [&] { task.flops = in.number(); }},
      JsonMember{"bytes", [&] { task.bytes = in.number(); }},
      JsonMember{"network_bytes", [&] { task.network_bytes = in.number(); }},
      JsonMember{"beside_ns", [&] { task.beside_ns = in.number(); }},
      JsonMember{"link_ns", [&] { task.link_ns = in.number(); }},
      JsonMember{"cpu_ns", [&] { task.cpu_ns = in.number(); }},
      JsonMember{"reads", [&] { accesses(reads, AccessMode::read); }},
      JsonMember{"updates", [&] { accesses(updates, AccessMode::read_write); }},
      JsonMember{"writes", [&] { accesses(writes, AccessMode::write); }},
      JsonMember{"layer", [&] { task.layer = read_index(in); }},
      JsonMember{"micro_batch", [&] { task.micro_batch = read_index(in); }},
      JsonMember{"phase", [&] {
                   task.phase = read_name(in, {Phase::forward, Phase::backward, Phase::update});
                 }});
  task.accesses = std::move(reads);
  task.accesses.insert(task.accesses.end(), updates.begin(), updates.end());
  task.accesses.insert(task.accesses.end(), writes.begin(), writes.end());
  return task;
}

OpenEdge read_edge(JsonPull& in) {
  OpenEdge edge;
  const auto task = [&in] { return static_cast<std::uint32_t>(in.integer(0, kLargestIndex)); };
  read_object(in, 2, JsonMember{"from", [&] { edge.from = task(); }}, JsonMember{"to", [&] { edge.to = task(); }},
              JsonMember{"kind",
                         [&] {
                           edge.kind = read_name(in, {EdgeKind::completes_before, EdgeKind::issued_before});
                         }},
              JsonMember{"source",
                         [&] {
                           edge.source =
                               read_name(in, {EdgeSource::given, EdgeSource::synchronisation, EdgeSource::stream,
                                              EdgeSource::launch, EdgeSource::pairing, EdgeSource::times});
                         }},
              JsonMember{"confidence", [&] { edge.confidence = in.number(); }},
              JsonMember{"after_begin_ns", [&] { edge.after_begin_ns = in.number(); }});
  return edge;
}

OpenClass read_class(JsonPull& in) {
  OpenClass one;
  read_object(in, 0, JsonMember{"name", [&] { one.name = in.kept_text(); }},
              JsonMember{"ranks", [&] { one.ranks = read_ranks(in); }},
              JsonMember{"recorded_ns", [&] { one.recorded_ns = in.number(); }},
              JsonMember{"edges_from_accesses", [&] { one.edges_from_accesses = in.boolean(); }},
              JsonMember{"streams", [&] { read_list(in, [&] { one.streams.push_back(read_stream(in)); }); }},
              JsonMember{"tensors", [&] { read_list(in, [&] { one.tensors.push_back(read_tensor(in)); }); }},
              JsonMember{"tasks", [&] { read_list(in, [&] { one.tasks.push_back(read_task(in)); }); }},
              JsonMember{"edges", [&] { read_list(in, [&] { one.edges.push_back(read_edge(in)); }); }});
  return one;
}

OpenGraph read_graph_from(ByteSource source, const std::string& name) {
  JsonPull in(std::move(source), name);
  OpenGraph graph;
  const auto format = [&in] {
    if (in.text() != kFormat) in.refuse("a file of another format", fmt::format("\"format\": \"{}\"", kFormat));
  };
  const auto version = [&in] {
    const std::int64_t found = in.integer(0, kLargest);
    if (found != kGraphFileVersion) {
      in.refuse(fmt::format("version {} of the format", found), fmt::format("version {}", kGraphFileVersion));
    }
  };
  read_object(in, 2, JsonMember{"format", format}, JsonMember{"version", version},
              JsonMember{"name", [&] { graph.name = in.kept_text(); }},
              JsonMember{"source", [&] { graph.source = in.kept_text(); }},
              JsonMember{"notes", [&] { read_list(in, [&] { graph.notes.push_back(in.kept_text()); }); }},
              JsonMember{"world", [&] { graph.world = in.integer(1, kLargest); }},
              JsonMember{"channels", [&] { read_list(in, [&] { graph.channels.push_back(read_channel(in)); }); }},
              JsonMember{"contention", [&] { graph.contention = read_contention(in); }},
              JsonMember{"classes", [&] { read_list(in, [&] { graph.classes.push_back(read_class(in)); }); }});
  in.finish();
  check(graph, name);
  return graph;
}

/// The text that waits to be handed on, and the commas between its values.
class GraphWriter {
 public:
  explicit GraphWriter(const TextSink& sink) : sink_(sink) {}

  void open(char bracket) {
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void item(std::string_view indent) {
    if (!first_) text_ += ',';
    text_ += indent;
    first_ = false;
    if (text_.size() > kPiece) flush();
  }
  void key(std::string_view name, std::string_view indent = "") {
    if (!first_) text_ += indent.empty() ? ", " : ",";
    fmt::format_to(std::back_inserter(text_), "{}\"{}\": ", indent, name);
    first_ = false;
  }
  void value(std::string_view text) { text_ += json_string(text); }
  void value(bool yes) { text_ += yes ? "true" : "false"; }
  void value(std::int64_t number) { fmt::format_to(std::back_inserter(text_), "{}", number); }
  void value(double number) { fmt::format_to(std::back_inserter(text_), "{}", number); }
  void value(const std::vector<std::int64_t>& numbers) {
    fmt::format_to(std::back_inserter(text_), "[{}]", fmt::join(numbers, ", "));
  }
  /// A member, unless it has the value `absent`.
  template <class T>
  void member(std::string_view name, const T& found, const T& absent) {
    if (found == absent) return;
    key(name);
    value(found);
  }
  void name(std::string_view name, std::string_view text) {
    key(name);
    value(text);
  }
  void name_unless_empty(std::string_view name, std::string_view text) {
    if (!text.empty()) this->name(name, text);
  }
  void index(std::string_view name, std::int64_t found) { member(name, found, std::int64_t{-1}); }
  void time(std::string_view name, const std::optional<double>& found) {
    if (!found) return;
    key(name);
    value(*found);
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }
  void end_line() { text_ += '\n'; }

 private:
  static constexpr std::size_t kPiece = 1 << 16;
  const TextSink& sink_;
  std::string text_;
  bool first_ = true;
};

/// A list with an item a line; nothing if it is empty.
template <class Items, class Write>
void write_lines(GraphWriter& out, std::string_view name, std::string_view indent, const Items& items, Write write) {
  if (items.empty()) return;
  out.key(name, indent);
  out.open('[');
  for (const auto& item : items) {
    out.item(std::string(indent) + " ");
    out.open('{');
    write(item);
    out.close('}');
  }
  out.close(']');
}

void write_channel(GraphWriter& out, const OpenChannel& channel) {
  out.name("name", channel.name);
  out.member("group_size", channel.group_size, std::int64_t{1});
  if (!channel.groups.empty()) {
    out.key("groups");
    out.open('[');
    for (const auto& group : channel.groups) {
      out.item(&group == channel.groups.data() ? "" : " ");
      out.value(group);
    }
    out.close(']');
  }
  out.name_unless_empty("link", channel.link);
}

void write_contention(GraphWriter& out, const graph::OpenContention& contention) {
  out.member("compute_streams", std::int64_t{contention.compute_streams}, std::int64_t{1});
  out.time("shared_cores", contention.shared_cores);
  write_lines(out, "slowdowns", "\n ", contention.slowdowns, [&](const graph::OpenSlowdown& each) {
    out.name_unless_empty("compute", each.compute);
    out.name_unless_empty("collective", each.collective);
    out.key("factor");
    out.value(each.factor);
  });
}

void write_accesses(GraphWriter& out, const OpenTask& task, std::string_view name, AccessMode mode) {
  std::vector<std::int64_t> tensors;
  for (const graph::OpenAccess& access : task.accesses) {
    if (access.mode == mode) tensors.push_back(access.tensor);
  }
  out.member(name, tensors, {});
}

void write_task(GraphWriter& out, const OpenTask& task) {
  out.name("name", task.name);
  if (task.kind != OpenKind::compute) out.name("kind", to_string(task.kind));
  out.name_unless_empty("operation", task.operation);
  out.index("stream", task.stream);
  out.index("channel", task.channel);
  out.index("sequence", task.sequence);
  out.index("peer", task.peer);
  out.index("message", task.message);
  out.time("ns", task.ns);
  out.time("begin_ns", task.begin_ns);
  out.time("end_ns", task.end_ns);
  out.time("beside_ns", task.beside_ns);
  out.time("link_ns", task.link_ns);
  out.time("cpu_ns", task.cpu_ns);
  out.member("flops", task.flops, 0.0);
  out.member("bytes", task.bytes, 0.0);
  out.member("network_bytes", task.network_bytes, 0.0);
  write_accesses(out, task, "reads", AccessMode::read);
  write_accesses(out, task, "updates", AccessMode::read_write);
  write_accesses(out, task, "writes", AccessMode::write);
  out.index("layer", task.layer);
  out.index("micro_batch", task.micro_batch);
  if (task.phase) out.name("phase", to_string(*task.phase));
}

void write_edge(GraphWriter& out, const OpenEdge& edge) {
  out.index("from", edge.from);
  out.index("to", edge.to);
  if (edge.kind != EdgeKind::completes_before) out.name("kind", to_string(edge.kind));
  if (edge.source != EdgeSource::given) out.name("source", to_string(edge.source));
  out.member("confidence", edge.confidence, 1.0);
  out.time("after_begin_ns", edge.after_begin_ns);
}

void write_class(GraphWriter& out, const OpenClass& one) {
  out.name_unless_empty("name", one.name);
  out.member("ranks", one.ranks, {});
  out.member("recorded_ns", one.recorded_ns, 0.0);
  out.member("edges_from_accesses", one.edges_from_accesses, true);
  write_lines(out, "streams", "\n  ", one.streams, [&](const OpenStream& stream) {
    out.name("name", stream.name);
    out.member("host", stream.host, false);
    out.index("channel", stream.channel);
  });
  write_lines(out, "tensors", "\n  ", one.tensors, [&](const OpenTensor& tensor) {
    out.name("name", tensor.name);
    out.index("bytes", tensor.bytes);
    out.member("outlives_step", tensor.outlives_step, false);
    if (tensor.role) out.name("role", to_string(*tensor.role));
  });
  write_lines(out, "tasks", "\n  ", one.tasks, [&](const OpenTask& task) { write_task(out, task); });
  write_lines(out, "edges", "\n  ", one.edges, [&](const OpenEdge& edge) { write_edge(out, edge); });
}

}  // namespace

bool is_graph_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const auto ends_in = [&](std::string_view end) { return name.size() > end.size() && name.ends_with(end); };
  return ends_in(".graph.json") || ends_in(".graph.json.gz");
}

OpenGraph read_graph_file(const std::filesystem::path& path) {
  OpenedFile file = open_text_file(path, "the graph");
  return read_graph_from(std::move(file.source), path.string());
}

OpenGraph parse_graph_file(std::string_view text, const std::string& name) {
  return read_graph_from(text_source(text), name);
}

void write_graph(const OpenGraph& graph, const TextSink& sink) {
  GraphWriter out(sink);
  out.open('{');
  out.name("format", kFormat);
  out.key("version");
  out.value(std::int64_t{kGraphFileVersion});
  if (!graph.name.empty()) {
    out.key("name", "\n");
    out.value(graph.name);
  }
  out.name_unless_empty("source", graph.source);
  out.member("world", graph.world, std::int64_t{1});
  if (!graph.notes.empty()) {
    out.key("notes", "\n");
    out.open('[');
    for (const std::string& note : graph.notes) {
      out.item("\n  ");
      out.value(note);
    }
    out.close(']');
  }
  write_lines(out, "channels", "\n", graph.channels, [&](const OpenChannel& channel) { write_channel(out, channel); });
  if (graph.contention) {
    out.key("contention", "\n");
    out.open('{');
    write_contention(out, *graph.contention);
    out.close('}');
  }
  write_lines(out, "classes", "\n", graph.classes, [&](const OpenClass& one) { write_class(out, one); });
  out.close('}');
  out.end_line();
  out.flush();
}

void write_graph_file(const std::filesystem::path& path, const OpenGraph& graph, Named named) {
  write_text_file(path, named, [&](const TextSink& sink) { write_graph(graph, sink); });
}

}  // namespace weft::inspect
