#include "runtime/plan/plan_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/hash.h"
#include "base/text/json_object.h"
#include "graph/analysis.h"
#include "graph/grid.h"
#include "runtime/plan/rewrite.h"

namespace weft::plan {
namespace {

constexpr const char* kFormat = "weft-plan";
// Of files of one rank class, and of files of several.
constexpr std::int64_t kVersion = 1, kVersionOfClasses = 2;
constexpr int kDeepest = 6;
constexpr std::size_t kMostValues = 20'000'000;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr const char* kRemake = "write it again with `weft plan`";

std::uint64_t fingerprint_of(const DocumentValue& value) {
  const std::optional<std::uint64_t> number = parse_hex_fingerprint(value.text());
  if (!number) value.refuse(kHexFingerprint);
  return *number;
}

std::vector<Stream> read_streams(const DocumentValue& list) {
  std::vector<Stream> streams;
  for (const DocumentValue& entry : list.items()) {
    entry.only({"name", "channel"});
    Stream stream{entry["name"].text(), !entry.find("channel"), graph::Channel::world};
    if (!stream.compute) {
      const std::optional<graph::Channel> channel = graph::find_channel(entry["channel"].text());
      if (!channel) {
        entry["channel"].refuse(
            "x, y, z_gather, z_scatter, data, context, expert, expert_copies, world, or own with a number");
      }
      stream.channel = *channel;
    }
    for (const Stream& other : streams) {
      const bool same_channel = !stream.compute && !other.compute && stream.channel == other.channel;
      if (other.name == stream.name || same_channel) entry["name"].refuse("each stream and channel once");
    }
    streams.push_back(std::move(stream));
    if (streams.size() > 1000) list.refuse("has more than 1000 streams", "fewer");
  }
  return streams;
}

void read_sequence(FiledPlan& file, const DocumentValue& list) {
  static const std::vector<std::string> kKeys = {"task", "stream", "reason"};
  std::unordered_map<std::string, std::uint32_t> stream_of, reason_of;
  for (const Stream& stream : file.streams) stream_of.emplace(stream.name, stream_of.size());
  std::unordered_set<std::string> known;
  for (const DocumentValue& entry : list.items()) {
    entry.only(kKeys);
    FiledPlan::PlacedTask placed;
    placed.task = entry["task"].text();
    if (!known.insert(placed.task).second) entry["task"].refuse("each task once");
    const auto stream = stream_of.find(entry["stream"].text());
    if (stream == stream_of.end()) entry["stream"].refuse("the name of one of the streams");
    placed.stream = stream->second;
    const auto [reason, fresh] = reason_of.emplace(entry["reason"].text(), file.reasons.size());
    if (fresh) file.reasons.push_back(reason->first);
    placed.reason = reason->second;
    file.sequence.push_back(std::move(placed));
  }
}

void read_edges(FiledPlan& file, const DocumentValue& list) {
  static const std::vector<std::string> kKeys = {"from", "to", "kind", "distance"};
  static const std::vector<std::string> kKinds = {"completes_before", "issued_before"};
  for (const DocumentValue& entry : list.items()) {
    entry.only(kKeys);
    file.added_edges.push_back({entry["from"].text(), entry["to"].text(),
                                entry["kind"].name_of(kKinds) == kKinds[0] ? graph::EdgeKind::completes_before
                                                                           : graph::EdgeKind::issued_before,
                                static_cast<std::uint8_t>(entry["distance"].integer(0, 1))});
  }
}

[[noreturn]] void refuse_order(const std::string& name, const std::string& found) {
  throw UserError(fmt::format("{}: {}", name, found), "a plan of this graph",
                  "give the configuration that the plan was made with, or make a new plan with `weft plan`");
}

/// The members of a class but its policy, without braces.
std::string members_of(const FiledPlan& plan) {
  const auto list = [](const char* key, const std::vector<std::string>& lines) {
    const std::string_view end = lines.empty() ? "" : "\n";
    return fmt::format(",\n\"{}\":[{}{}{}]", key, end, fmt::join(lines, ",\n"), end);
  };
  std::vector<std::string> streams, sequence, edges;
  for (const Stream& stream : plan.streams) {
    JsonObject entry;
    if (!stream.compute) entry.add("channel", graph::channel_text(stream.channel));
    streams.push_back(entry.add("name", stream.name).text());
  }
  for (const FiledPlan::PlacedTask& placed : plan.sequence) {
    sequence.push_back(JsonObject()
                           .add("task", placed.task)
                           .add("stream", plan.streams[placed.stream].name)
                           .add("reason", plan.reasons[placed.reason])
                           .text());
  }
  for (const FiledPlan::AddedEdge& edge : plan.added_edges) {
    edges.push_back(JsonObject()
                        .add("distance", edge.distance)
                        .add("from", edge.from)
                        .add("kind", graph::to_string(edge.kind))
                        .add("to", edge.to)
                        .text());
  }
  return fmt::format(
             "\"rewrites\":{},\n\"graph\":{{\"fingerprint\":\"{}\"}},\"plan\":{{\"fingerprint\":\"{}\",\"scratch_"
             "bytes\":{}}}",
             json_string(to_string(plan.rewrites)), hex_fingerprint(plan.graph_fingerprint),
             hex_fingerprint(plan.plan_fingerprint), plan.scratch_bytes) +
         list("streams", streams) + list("sequence", sequence) + list("added_edges", edges) + "\n";
}

FiledPlan read_plan(const DocumentValue& in, const std::string& policy, const std::string& name) {
  FiledPlan plan;
  plan.policy = policy;
  try {
    plan.rewrites = parse_rewrites(in["rewrites"].text());
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", name, error.what()), "", "");
  }
  in["graph"].only({"fingerprint"});
  in["plan"].only({"fingerprint", "scratch_bytes"});
  plan.graph_fingerprint = fingerprint_of(in["graph"]["fingerprint"]);
  plan.plan_fingerprint = fingerprint_of(in["plan"]["fingerprint"]);
  plan.scratch_bytes = in["plan"]["scratch_bytes"].integer(0, INT64_MAX);
  plan.streams = read_streams(in["streams"]);
  read_sequence(plan, in["sequence"]);
  read_edges(plan, in["added_edges"]);
  return plan;
}

}  // namespace

FiledPlan filed(const Plan& plan, std::vector<Rewrite> rewrites) {
  FiledPlan file{.policy = plan.policy,
                 .rewrites = std::move(rewrites),
                 .stages = {},
                 .graph_fingerprint = plan.graph->fingerprint(),
                 .plan_fingerprint = plan.fingerprint,
                 .scratch_bytes = plan.scratch_bytes};
  std::set<std::int64_t> stages;
  for (const graph::Task& task : plan.graph->tasks()) {
    if (task.stage >= 0) stages.insert(task.stage);
  }
  file.stages.assign(stages.begin(), stages.end());
  for (const StreamPlan& stream : plan.streams) file.streams.push_back(stream.stream);
  std::vector<std::string> reasons;
  for (const Reason& reason : plan.reasons) reasons.push_back(to_string(reason));
  std::unordered_map<std::string, std::uint32_t> reason_of;
  for (const graph::TaskId task : plan.sequence) {
    const Position at = plan.position[task.index()];
    const std::string& reason = reasons[plan.streams[at.stream.index()].entries[at.entry].reason];
    const auto [known, fresh] = reason_of.emplace(reason, file.reasons.size());
    if (fresh) file.reasons.push_back(reason);
    file.sequence.push_back({plan.graph->task(task).name, at.stream.value, known->second});
  }
  for (const graph::Edge& edge : plan.added_edges) {
    if (edge.reason != graph::EdgeReason::policy) continue;
    file.added_edges.push_back(
        {plan.graph->task(edge.from).name, plan.graph->task(edge.to).name, edge.kind, edge.distance});
  }
  return file;
}

std::string to_json(const PlanFile& file) {
  const std::string policy = json_string(file.front().policy);
  if (file.size() == 1) {
    return fmt::format("{{\"format\":\"{}\",\"version\":{},\n\"policy\":{},{}}}\n", kFormat, kVersion, policy,
                       members_of(file.front()));
  }
  std::string classes;
  for (const FiledPlan& plan : file) {
    classes += fmt::format("{}\n{{\"stages\":[{}],{}}}", classes.empty() ? "" : ",", fmt::join(plan.stages, ","),
                           members_of(plan));
  }
  return fmt::format("{{\"format\":\"{}\",\"version\":{},\n\"policy\":{},\"classes\":[{}\n]}}\n", kFormat,
                     kVersionOfClasses, policy, classes);
}

PlanFile parse_plan_file(std::string_view json_text, const std::string& name) {
  constexpr std::size_t kMostClasses = 10'000;
  static const std::vector<std::string> kMembers = {"rewrites", "graph", "plan", "streams", "sequence", "added_edges"};
  const Document document = read_json(json_text, name, {kDeepest, kMostValues, kRemake});
  const DocumentValue in = document.of_format("a plan", kFormat, kVersion, kVersionOfClasses);
  std::vector<std::string> members = {"format", "version", "policy"};
  if (in["version"].integer(kVersion, kVersionOfClasses) == kVersion) {
    members.insert(members.end(), kMembers.begin(), kMembers.end());
    in.only(members);
    return {read_plan(in, in["policy"].text(), name)};
  }
  members.emplace_back("classes");
  in.only(members);
  members = kMembers;
  members.emplace_back("stages");
  PlanFile file;
  for (const DocumentValue& each : in["classes"].items()) {
    each.only(members);
    file.push_back(read_plan(each, in["policy"].text(), name));
    for (const DocumentValue& stage : each["stages"].items()) file.back().stages.push_back(stage.integer(0, INT32_MAX));
    if (file.size() > kMostClasses) in["classes"].refuse(fmt::format("at most {} classes", kMostClasses));
  }
  if (file.size() < 2) in["classes"].refuse("two or more classes; version 1 has one");
  return file;
}

PlanFile read_plan_file(const std::filesystem::path& path) {
  return parse_plan_file(read_text_file(path, "the plan", kMostBytes, "a file that `weft plan` wrote", kRemake),
                         path.string());
}

Order order_of(const FiledPlan& file, const graph::Graph& graph, const std::string& name, ReasonTables tables) {
  const auto find = [&](const std::string& task) {
    const graph::TaskId id = graph.find_task(task);
    if (!id.valid()) refuse_order(name, fmt::format("task '{}' of the file is not in this graph", task));
    return id;
  };
  Order order;
  order.streams = file.streams;
  for (const std::string& reason : file.reasons) order.reasons.push_back(parse_reason(reason, tables));
  std::vector<bool> placed(graph.tasks().size(), false);
  std::vector<graph::TaskId> sequence;
  for (const FiledPlan::PlacedTask& entry : file.sequence) {
    const graph::TaskId id = find(entry.task);
    const StreamId stream{std::size_t{entry.stream}};
    const Stream& on = file.streams[entry.stream];
    const graph::Channel* channel = graph::channel_of(graph.task(id).operation);
    if (channel == nullptr ? !on.compute : on.compute || on.channel != *channel) {
      refuse_order(name, fmt::format("task '{}' is on stream {}, but belongs on {}", entry.task, on.name,
                                     channel == nullptr
                                         ? "a compute stream"
                                         : fmt::format("the stream of channel {}", graph.channel_name(*channel))));
    }
    placed[id.index()] = true;
    sequence.push_back(id);
    order.sequence.push_back({id, stream, entry.reason});
  }
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i])
      refuse_order(name, fmt::format("task '{}' of this graph is not in the file", graph.tasks()[i].name));
  }
  if (const std::string why = graph::why_not_topological(graph, sequence); !why.empty()) {
    refuse_order(name, "its order contradicts an edge of the graph: " + why);
  }
  std::vector<std::size_t> place(sequence.size());
  for (std::size_t i = 0; i < sequence.size(); ++i) place[sequence[i].index()] = i;
  for (const FiledPlan::AddedEdge& entry : file.added_edges) {
    const graph::TaskId from = find(entry.from), to = find(entry.to);
    if (entry.distance == 0 && place[from.index()] >= place[to.index()]) {
      refuse_order(name, fmt::format("its edge from '{}' to '{}' contradicts its order", entry.from, entry.to));
    }
    order.added_edges.push_back({from, to, entry.kind, graph::EdgeReason::policy, entry.distance, graph::TensorId()});
  }
  return order;
}

}  // namespace weft::plan
