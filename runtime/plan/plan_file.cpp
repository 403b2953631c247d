#include "runtime/plan/plan_file.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files/json_file.h"
#include "graph/analysis.h"
#include "graph/groups.h"
#include "runtime/plan/rewrite.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "weft-plan";
constexpr std::int64_t kVersion = 1;
constexpr int kDeepest = 4;
constexpr std::size_t kMostValues = 20'000'000;
constexpr std::uintmax_t kMostBytes = std::uintmax_t{256} << 20;
constexpr const char* kRemake = "write it again with `weft plan`";

std::string hex(std::uint64_t value) {
  return fmt::format("{:#018x}", value);
}

// Members of one object, by name and type; messages say where they stand.
class ObjectReader {
 public:
  ObjectReader(const json& object, std::string where, std::string file)
      : object_(object), where_(std::move(where)), file_(std::move(file)) {
    if (!object_.is_object()) refuse(where_.empty() ? "the whole" : where_, "an object");
  }

  const json& array(const char* key) {
    return require(key, "an array", [](const json& v) { return v.is_array(); });
  }
  const json& object(const char* key) {
    return require(key, "an object", [](const json& v) { return v.is_object(); });
  }
  std::string text(const char* key) {
    return require(key, "a text", [](const json& v) { return v.is_string(); }).get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) {
    const std::string expected = fmt::format("an integer from {} to {}", least, most);
    const json& value = require(key, expected, [](const json& v) {
      return v.is_number_unsigned() ? v.get<std::uint64_t>() <= INT64_MAX : v.is_number_integer();
    });
    const auto number = value.get<std::int64_t>();
    if (number < least || number > most) refuse(path(key), expected);
    return number;
  }
  std::uint64_t fingerprint(const char* key) {
    const std::string value = text(key);
    std::uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(value.data() + std::min<std::size_t>(2, value.size()), value.data() + value.size(), number, 16);
    if (value.size() != 18 || error != std::errc() || hex(number) != value) refuse(path(key), "0x and 16 hex digits");
    return number;
  }
  bool has(const char* key) const { return object_.contains(key); }
  /// To be called at the end: refuses members that nobody asked for.
  void finish() const {
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) {
        throw UserError(fmt::format("{}: unknown member \"{}\"", file_, path(key)), "", "leave it out");
      }
    }
  }
  std::string path(std::string_view key) const { return fmt::format("{}{}", where_.empty() ? "" : where_ + ".", key); }
  [[noreturn]] void refuse(const std::string& what, std::string_view expected) const {
    throw UserError(fmt::format("{}: {} is missing or wrong", file_, what), expected, kRemake);
  }

 private:
  template <class Fits>
  const json& require(const char* key, std::string_view expected, const Fits& fits) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end() || !fits(*found)) refuse(path(key), expected);
    return *found;
  }

  const json& object_;
  std::string where_, file_;
  std::set<std::string> known_;
};

std::vector<Stream> read_streams(const json& list, const std::string& file) {
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader in(list[i], fmt::format("streams[{}]", i), file);
    Stream stream{in.text("name"), !in.has("channel"), Channel::world};
    if (!stream.compute) {
      const std::optional<Channel> channel = find_channel(in.text("channel"));
      if (!channel) in.refuse(in.path("channel"), "x, y, z_gather, z_scatter, data or world");
      stream.channel = *channel;
    }
    in.finish();
    for (const Stream& other : streams) {
      const bool same_channel = !stream.compute && !other.compute && stream.channel == other.channel;
      if (other.name == stream.name || same_channel) in.refuse(in.path("name"), "each stream and channel once");
    }
    streams.push_back(std::move(stream));
    if (streams.size() > 1000) in.refuse("streams", "at most 1000 streams");
  }
  return streams;
}

void read_sequence(PlanFile& file, const json& list, const std::string& name) {
  std::unordered_map<std::string, std::uint32_t> stream_of, reason_of;
  for (const Stream& stream : file.streams) stream_of.emplace(stream.name, stream_of.size());
  std::unordered_set<std::string> known;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader in(list[i], fmt::format("sequence[{}]", i), name);
    PlanFile::PlacedTask placed;
    placed.task = in.text("task");
    if (!known.insert(placed.task).second) in.refuse(in.path("task"), "each task once");
    const auto stream = stream_of.find(in.text("stream"));
    if (stream == stream_of.end()) in.refuse(in.path("stream"), "the name of one of the streams");
    placed.stream = stream->second;
    const auto [reason, fresh] = reason_of.emplace(in.text("reason"), file.reasons.size());
    if (fresh) file.reasons.push_back(reason->first);
    placed.reason = reason->second;
    in.finish();
    file.sequence.push_back(std::move(placed));
  }
}

void read_edges(PlanFile& file, const json& list, const std::string& name) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    ObjectReader in(list[i], fmt::format("added_edges[{}]", i), name);
    PlanFile::AddedEdge edge{in.text("from"), in.text("to"), EdgeKind::completes_before, 0};
    const std::string kind = in.text("kind");
    if (kind == "issued_before") edge.kind = EdgeKind::issued_before;
    if (kind != "issued_before" && kind != "completes_before") {
      in.refuse(in.path("kind"), "completes_before or issued_before");
    }
    edge.distance = static_cast<std::uint8_t>(in.integer("distance", 0, 1));
    in.finish();
    file.added_edges.push_back(std::move(edge));
  }
}

[[noreturn]] void refuse_order(const std::string& name, const std::string& found) {
  throw UserError(fmt::format("{}: {}", name, found), "a plan of this very graph",
                  "give the configuration that the plan was made with, or make a new plan with `weft plan`");
}

}  // namespace

PlanFile plan_file_of(const Plan& plan, std::vector<Rewrite> rewrites) {
  PlanFile file{
      plan.policy, std::move(rewrites), plan.graph->fingerprint(), plan.fingerprint, plan.scratch_bytes, {}, {}, {},
      {}};
  for (const StreamPlan& stream : plan.streams) file.streams.push_back(stream.stream);
  std::unordered_map<std::string, std::uint32_t> reason_of;
  for (const TaskId task : plan.sequence) {
    const Position at = plan.position[task.index()];
    const std::string& reason = plan.reasons[plan.streams[at.stream.index()].entries[at.entry].reason];
    const auto [known, fresh] = reason_of.emplace(reason, file.reasons.size());
    if (fresh) file.reasons.push_back(reason);
    file.sequence.push_back({plan.graph->task(task).name, at.stream.value, known->second});
  }
  for (const Edge& edge : plan.added_edges) {
    if (edge.reason != EdgeReason::policy) continue;
    file.added_edges.push_back(
        {plan.graph->task(edge.from).name, plan.graph->task(edge.to).name, edge.kind, edge.distance});
  }
  return file;
}

std::string to_json(const PlanFile& file) {
  const auto text = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  const auto list = [](const char* key, const std::vector<std::string>& lines) {
    return fmt::format(",\n\"{}\":[{}{}]", key, lines.empty() ? "" : "\n", [&] {
      std::string joined;
      for (std::size_t i = 0; i < lines.size(); ++i) joined += lines[i] + (i + 1 < lines.size() ? ",\n" : "\n");
      return joined;
    }());
  };
  std::vector<std::string> streams, sequence, edges;
  for (const Stream& stream : file.streams) {
    json entry = {{"name", stream.name}};
    if (!stream.compute) entry["channel"] = to_string(stream.channel);
    streams.push_back(text(entry));
  }
  for (const PlanFile::PlacedTask& placed : file.sequence) {
    sequence.push_back(fmt::format("{{\"task\":{},\"stream\":{},\"reason\":{}}}", text(placed.task),
                                   text(file.streams[placed.stream].name), text(file.reasons[placed.reason])));
  }
  for (const PlanFile::AddedEdge& edge : file.added_edges) {
    edges.push_back(text({{"from", edge.from},
                          {"to", edge.to},
                          {"kind", edge.kind == EdgeKind::completes_before ? "completes_before" : "issued_before"},
                          {"distance", edge.distance}}));
  }
  return fmt::format(
             "{{\"format\":\"{}\",\"version\":{},\n\"policy\":{},\"rewrites\":{},\n"
             "\"graph\":{{\"fingerprint\":\"{}\"}},\"plan\":{{\"fingerprint\":\"{}\",\"scratch_bytes\":{}}}",
             kFormat, kVersion, text(file.policy), text(to_string(file.rewrites)), hex(file.graph_fingerprint),
             hex(file.plan_fingerprint), file.scratch_bytes) +
         list("streams", streams) + list("sequence", sequence) + list("added_edges", edges) + "\n}\n";
}

PlanFile parse_plan_file(std::string_view json_text, const std::string& name) {
  const json document = parse_json(json_text, name, {kDeepest, kMostValues, kRemake});
  ObjectReader in(document, "", name);
  if (in.text("format") != kFormat) in.refuse("format", fmt::format("\"{}\"", kFormat));
  const std::int64_t version = in.integer("version", 0, INT64_MAX);
  if (version != kVersion) {
    throw UserError(fmt::format("{} is a plan of version {}", name, version), fmt::format("version {}", kVersion),
                    "write it again with the `weft plan` of this version");
  }
  PlanFile file;
  file.policy = in.text("policy");
  try {
    file.rewrites = parse_rewrites(in.text("rewrites"));
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", name, error.what()), "", "");
  }
  ObjectReader graph(in.object("graph"), "graph", name), plan(in.object("plan"), "plan", name);
  file.graph_fingerprint = graph.fingerprint("fingerprint");
  file.plan_fingerprint = plan.fingerprint("fingerprint");
  file.scratch_bytes = plan.integer("scratch_bytes", 0, INT64_MAX);
  file.streams = read_streams(in.array("streams"), name);
  read_sequence(file, in.array("sequence"), name);
  read_edges(file, in.array("added_edges"), name);
  graph.finish();
  plan.finish();
  in.finish();
  return file;
}

PlanFile read_plan_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) {
    throw UserError(fmt::format("can't read the plan {}", path.string()), "a file that `weft plan` wrote",
                    "check the path");
  }
  if (size > kMostBytes) {
    throw UserError(fmt::format("{} has {} bytes", path.string(), size), fmt::format("at most {}", kMostBytes),
                    "give a file that `weft plan` wrote");
  }
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return parse_plan_file(text, path.string());
}

Order order_of(const PlanFile& file, const Graph& graph, const std::string& name) {
  const auto find = [&](const std::string& task) {
    const TaskId id = graph.find_task(task);
    if (!id.valid()) refuse_order(name, fmt::format("task '{}' of the file is not in this graph", task));
    return id;
  };
  Order order;
  order.streams = file.streams;
  order.reasons = file.reasons;
  std::vector<bool> placed(graph.tasks().size(), false);
  std::vector<TaskId> sequence;
  for (const PlanFile::PlacedTask& entry : file.sequence) {
    const TaskId id = find(entry.task);
    const StreamId stream{std::size_t{entry.stream}};
    const Stream& on = file.streams[entry.stream];
    const Channel* channel = channel_of(graph.task(id).operation);
    if (channel == nullptr ? !on.compute : on.compute || on.channel != *channel) {
      refuse_order(name,
                   fmt::format("task '{}' is on stream {}, but belongs on {}", entry.task, on.name,
                               channel == nullptr ? "a compute stream"
                                                  : fmt::format("the stream of channel {}", to_string(*channel))));
    }
    placed[id.index()] = true;
    sequence.push_back(id);
    order.sequence.push_back({id, stream, entry.reason});
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i])
      refuse_order(name, fmt::format("task '{}' of this graph is not in the file", graph.tasks()[i].name));
  }
  if (const std::string why = why_not_topological(graph, sequence); !why.empty()) {
    refuse_order(name, "its order is against an edge of the graph: " + why);
  }
  std::vector<std::size_t> place(sequence.size());
  for (std::size_t i = 0; i < sequence.size(); ++i) place[sequence[i].index()] = i;
  for (const PlanFile::AddedEdge& entry : file.added_edges) {
    const TaskId from = find(entry.from), to = find(entry.to);
    if (entry.distance == 0 && place[from.index()] >= place[to.index()]) {
      refuse_order(name, fmt::format("its edge from '{}' to '{}' is against its order", entry.from, entry.to));
    }
    order.added_edges.push_back({from, to, entry.kind, EdgeReason::policy, entry.distance, TensorId()});
  }
  return order;
}

}  // namespace weft
