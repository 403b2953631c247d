#include "inspect/formats/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "inspect/formats/json_pull.h"

namespace weft::inspect {
namespace {

using graph::AccessMode;
using graph::OpenChannel;
using graph::OpenClass;
using graph::OpenContention;
using graph::OpenEdge;
using graph::OpenGraph;
using graph::OpenSlowdown;
using graph::OpenStream;
using graph::OpenTask;
using graph::OpenTensor;

constexpr std::string_view kFormat = "weft-graph";
constexpr std::int64_t kLargest = std::int64_t{1} << 62;
constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostItems = std::size_t{1} << 24;  // of a list; packed files of a megabyte may have more

/// A member of a part of a graph, absent from the file where it has the struct's default.
template <class Part, class Value>
struct Member {
  std::string_view name;
  Value Part::*value;
  std::int64_t bound = 0;  // the least of numbers, the last of an enumeration
  std::int64_t most = sizeof(Value) == 8 ? kLargest : kLargestIndex;
  bool required = false, own_line = false;
};

/// The accesses of a task that have one mode.
struct AccessMember {
  std::string_view name;
  AccessMode mode;
  static constexpr bool required = false;
};

template <class Part, class Value>
constexpr Member<Part, Value> member(std::string_view name, Value Part::*value, std::int64_t bound = 0) {
  return {.name = name, .value = value, .bound = bound};
}
template <class Part, class Value, class Enum>
requires std::is_enum_v<Enum>
constexpr Member<Part, Value> member(std::string_view name, Value Part::*value, Enum last) {
  return {.name = name, .value = value, .bound = static_cast<std::int64_t>(last)};
}
template <class Part, class Value>
constexpr Member<Part, Value> required(std::string_view name, Value Part::*value) {
  return {.name = name, .value = value, .required = true};
}
template <class Part, class Value>
constexpr Member<Part, Value> on_own_line(std::string_view name, Value Part::*value) {
  return {.name = name, .value = value, .own_line = true};
}

// What a file holds, in the order in which it is written.

constexpr auto members_of(const OpenChannel&) {
  return std::tuple(required("name", &OpenChannel::name), member("group_size", &OpenChannel::group_size, 1),
                    member("groups", &OpenChannel::groups), member("link", &OpenChannel::link));
}

constexpr auto members_of(const OpenSlowdown&) {
  return std::tuple(member("compute", &OpenSlowdown::compute), member("collective", &OpenSlowdown::collective),
                    required("factor", &OpenSlowdown::factor));
}

constexpr auto members_of(const OpenContention&) {
  constexpr std::int64_t kMostStreams = 1 << 20;
  return std::tuple(Member<OpenContention, int>{"compute_streams", &OpenContention::compute_streams, 1, kMostStreams},
                    member("shared_cores", &OpenContention::shared_cores),
                    on_own_line("slowdowns", &OpenContention::slowdowns));
}

constexpr auto members_of(const OpenStream&) {
  return std::tuple(required("name", &OpenStream::name), member("host", &OpenStream::host),
                    member("channel", &OpenStream::channel, -1));
}

constexpr auto members_of(const OpenTensor&) {
  return std::tuple(required("name", &OpenTensor::name), required("bytes", &OpenTensor::bytes),
                    member("outlives_step", &OpenTensor::outlives_step),
                    member("role", &OpenTensor::role, graph::Role::workspace));
}

constexpr auto members_of(const OpenTask&) {
  return std::tuple(
      required("name", &OpenTask::name), member("kind", &OpenTask::kind, graph::OpenKind::host),
      member("operation", &OpenTask::operation), member("stream", &OpenTask::stream, -1),
      member("channel", &OpenTask::channel, -1), member("sequence", &OpenTask::sequence, -1),
      member("peer", &OpenTask::peer, -1), member("message", &OpenTask::message, -1), member("ns", &OpenTask::ns),
      member("begin_ns", &OpenTask::begin_ns), member("end_ns", &OpenTask::end_ns),
      member("beside_ns", &OpenTask::beside_ns), member("link_ns", &OpenTask::link_ns),
      member("cpu_ns", &OpenTask::cpu_ns), member("flops", &OpenTask::flops), member("bytes", &OpenTask::bytes),
      member("network_bytes", &OpenTask::network_bytes), AccessMember{"reads", AccessMode::read},
      AccessMember{"updates", AccessMode::read_write}, AccessMember{"writes", AccessMode::write},
      member("layer", &OpenTask::layer, -1), member("micro_batch", &OpenTask::micro_batch, -1),
      member("phase", &OpenTask::phase, graph::Phase::update), member("data_known", &OpenTask::data_known));
}

constexpr auto members_of(const OpenEdge&) {
  return std::tuple(required("from", &OpenEdge::from), required("to", &OpenEdge::to),
                    member("kind", &OpenEdge::kind, graph::EdgeKind::issued_before),
                    member("source", &OpenEdge::source, graph::EdgeSource::times),
                    member("confidence", &OpenEdge::confidence), member("after_begin_ns", &OpenEdge::after_begin_ns));
}

constexpr auto members_of(const OpenClass&) {
  return std::tuple(member("name", &OpenClass::name), member("ranks", &OpenClass::ranks),
                    member("recorded_ns", &OpenClass::recorded_ns),
                    member("edges_from_accesses", &OpenClass::edges_from_accesses),
                    on_own_line("streams", &OpenClass::streams), on_own_line("tensors", &OpenClass::tensors),
                    on_own_line("tasks", &OpenClass::tasks), on_own_line("edges", &OpenClass::edges));
}

constexpr auto members_of(const OpenGraph&) {
  return std::tuple(on_own_line("name", &OpenGraph::name), member("source", &OpenGraph::source),
                    member("world", &OpenGraph::world, 1), on_own_line("notes", &OpenGraph::notes),
                    on_own_line("channels", &OpenGraph::channels), on_own_line("contention", &OpenGraph::contention),
                    on_own_line("classes", &OpenGraph::classes));
}

template <class Part>
void read_part(JsonPull& in, Part& part);

template <class Value>
void read_value(JsonPull& in, Value& value, std::int64_t bound, std::int64_t most) {
  if constexpr (std::same_as<Value, std::string>) {
    value = in.kept_text();
  } else if constexpr (std::same_as<Value, bool>) {
    value = in.boolean();
  } else if constexpr (std::floating_point<Value>) {
    value = in.number();
  } else if constexpr (std::integral<Value>) {
    value = static_cast<Value>(in.integer(bound, most));
  } else if constexpr (std::is_enum_v<Value>) {
    value = read_name(in, static_cast<Value>(bound));
  } else if constexpr (requires { value.emplace(); }) {
    read_value(in, value.emplace(), bound, most);
  } else if constexpr (requires { value.emplace_back(); }) {
    read_list(in, [&] {
      if (value.size() == kMostItems) in.refuse(fmt::format("a list of more than {} items", kMostItems), "fewer");
      read_value(in, value.emplace_back(), bound, most);
    });
  } else {
    read_part(in, value);
  }
}

template <class Part, class Value>
void read_member(JsonPull& in, Part& part, const Member<Part, Value>& member) {
  read_value(in, part.*member.value, member.bound, member.most);
}

// Reads come before updates, and updates before writes.
void read_member(JsonPull& in, OpenTask& task, const AccessMember& member) {
  const auto place = [](AccessMode mode) { return mode == AccessMode::read ? 0 : mode == AccessMode::write ? 2 : 1; };
  const auto at = std::ranges::upper_bound(task.accesses, place(member.mode), {},
                                           [&](const graph::OpenAccess& access) { return place(access.mode); });
  std::vector<graph::OpenAccess> accesses;
  read_list(in, [&] { accesses.push_back({static_cast<std::uint32_t>(in.integer(0, kLargestIndex)), member.mode}); });
  task.accesses.insert(at, accesses.begin(), accesses.end());
}

void check_part(JsonPull& in, const OpenSlowdown& slowdown) {
  if (slowdown.factor < 1) in.refuse(fmt::format("a slowdown of {}", slowdown.factor), "a factor of 1 or more");
}

void check_part(JsonPull& in, const OpenContention& contention) {
  if (contention.shared_cores && *contention.shared_cores <= 0)
    in.refuse(fmt::format("{} shared cores", *contention.shared_cores), "a number above 0");
}

/// `first`: members that the file has besides, which are required.
template <class Part, class... Read>
void read_members(JsonPull& in, Part& part, const JsonMember<Read>&... first) {
  const auto read = [&](const auto&... members) {
    const auto seen = read_object(in, sizeof...(first), first...,
                                  JsonMember{members.name, [&] { read_member(in, part, members); }}...);
    std::size_t index = sizeof...(first);
    ((members.required ? seen.require(in, index + 1, index) : void(), ++index), ...);
  };
  std::apply(read, members_of(part));
}

template <class Part>
void read_part(JsonPull& in, Part& part) {
  read_members(in, part);
  if constexpr (requires { check_part(in, part); }) check_part(in, part);
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
  read_members(in, graph, JsonMember{"format", format}, JsonMember{"version", version});
  in.finish();
  check(graph, name);
  return graph;
}

class GraphWriter {
 public:
  explicit GraphWriter(const TextSink& sink) : out_(sink) {}

  void write(const OpenGraph& graph) {
    out_.put("{{\"format\": \"{}\", \"version\": {}", kFormat, kGraphFileVersion);
    first_ = false;
    put_members(graph, "\n");
    out_.add("}\n");
    out_.flush();
  }

 private:
  /// `indent`: of members that have lines of their own.
  template <class Part>
  void put_members(const Part& part, const std::string& indent) {
    std::apply([&](const auto&... members) { (put_member(part, members, indent), ...); }, members_of(part));
  }

  template <class Part>
  void put_object(const Part& part, const std::string& indent) {
    out_.add("{");
    first_ = true;
    put_members(part, indent);
    out_.add("}");
    first_ = false;
  }

  void put_key(std::string_view name, std::string_view indent) {
    if (!first_) out_.add(indent.empty() ? ", " : ",");
    out_.put("{}\"{}\": ", indent, name);
    first_ = false;
  }

  template <class Part, class Value>
  void put_member(const Part& part, const Member<Part, Value>& member, const std::string& indent) {
    static const Part kDefault{};
    const Value& value = part.*member.value;
    if (!member.required && is_absent(value, kDefault.*member.value)) return;
    const std::string& at = member.own_line ? indent : kInline;
    put_key(member.name, at);
    put_value(value, at);
  }

  void put_member(const OpenTask& task, const AccessMember& member, const std::string&) {
    std::vector<std::int64_t> tensors;
    for (const graph::OpenAccess& access : task.accesses) {
      if (access.mode == member.mode) tensors.push_back(access.tensor);
    }
    if (tensors.empty()) return;
    put_key(member.name, kInline);
    put_value(tensors, kInline);
  }

  template <class Value>
  static bool is_absent(const Value& value, const Value& absent) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (requires { value.has_value(); }) {
      return !value.has_value();
    } else {
      return value == absent;
    }
  }

  template <class Value>
  void put_value(const Value& value, const std::string& indent) {
    if constexpr (std::same_as<Value, std::string>) {
      out_.add(json_string(value));
    } else if constexpr (std::is_arithmetic_v<Value>) {
      out_.put("{}", value);
    } else if constexpr (std::is_enum_v<Value>) {
      out_.put("\"{}\"", to_string(value));
    } else if constexpr (requires { value.has_value(); }) {
      put_value(*value, indent);
    } else if constexpr (requires { value.empty(); }) {
      put_list(value, indent);
    } else {
      put_object(value, indent + " ");
    }
  }

  template <class Item>
  void put_list(const std::vector<Item>& items, const std::string& indent) {
    out_.add("[");
    for (const Item& item : items) {
      if (&item != items.data()) out_.add(indent.empty() ? ", " : ",");
      if constexpr (std::same_as<Item, std::string>) {
        out_.add(indent + "  ");
      } else if constexpr (std::is_class_v<Item>) {
        out_.add(indent.empty() ? "" : indent + " ");
      }
      put_value(item, indent.empty() ? indent : indent + " ");
    }
    out_.add("]");
  }

  const std::string kInline;
  TextWriter out_;
  bool first_ = true;
};

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
  GraphWriter(sink).write(graph);
}

void write_graph_file(const std::filesystem::path& path, const OpenGraph& graph, Named named) {
  write_text_file(path, named, [&](const TextSink& sink) { write_graph(graph, sink); });
}

}  // namespace weft::inspect
