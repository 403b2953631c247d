#include "inspect/import/recovered_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "inspect/import/device_trace.h"
#include "inspect/import/step_edges.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

DeviceOverlap overlap_of(Intervals compute, Intervals communication) {
  compute = merged(std::move(compute));
  communication = merged(std::move(communication));
  return {total_length(compute), total_length(communication), total_length(intersection(compute, communication))};
}

DeviceOverlap device_overlap(std::span<const DeviceOp> ops, const NameTable& names) {
  std::vector<DeviceClass> classes;
  for (std::uint32_t name = 0; name < names.size(); ++name) classes.push_back(device_class(names.text(name)));
  Intervals compute, communication;
  for (const DeviceOp& op : ops) {
    if (classes[op.name] == DeviceClass::compute) compute.push_back({op.begin, op.end});
    if (classes[op.name] == DeviceClass::communication) communication.push_back({op.begin, op.end});
  }
  return overlap_of(std::move(compute), std::move(communication));
}

namespace {

using graph::EdgeSource;
using graph::OpenKind;

class StepAssembly {
 public:
  StepAssembly(const DeviceTrace& trace, const std::optional<MarkedStep>& step, TraceChannels& channels)
      : trace_(trace),
        channels_(channels),
        timeline_(make_timeline(trace, step)),
        device_(recover_device_edges(trace, timeline_)),
        host_(recover_host_work(trace, timeline_)) {}

  RecoveredStep run() && {
    out_.graph.edges_from_accesses = false;
    out_.graph.recorded_ns = static_cast<double>(timeline_.length());
    out_.overlap = device_overlap(timeline_.ops, trace_.names);
    if (trace_.rank >= 0) out_.graph.ranks = {trace_.rank};
    add_streams();
    order_tasks();
    add_tasks();
    add_edges();
    add_notes();
    return std::move(out_);
  }

 private:
  std::size_t op_count() const { return timeline_.ops.size(); }
  double since_origin(std::int64_t time) const {
    return static_cast<double>(std::max<std::int64_t>(0, time - timeline_.origin));
  }

  /// "gemm#0", "gemm#1", …
  std::string numbered(const std::string& base) { return fmt::format("{}#{}", base, next_number_[base]++); }

  void add_streams() {
    const bool devices = timeline_.streams.front().device != timeline_.streams.back().device;
    for (const TimelineStream& stream : timeline_.streams) {
      out_.graph.streams.push_back({devices ? fmt::format("device {} stream {}", stream.device, stream.stream)
                                            : fmt::format("stream {}", stream.stream)});
    }
    for (const HostTask& task : host_.tasks) {
      if (thread_stream_.contains(task.thread)) continue;
      thread_stream_.emplace(task.thread, static_cast<std::int32_t>(out_.graph.streams.size()));
      out_.graph.streams.push_back({fmt::format("thread {}", task.thread), true});
    }
  }

  /// By begin, which rises on each stream and thread, and no launch comes after what it launched.
  void order_tasks() {
    std::vector<std::int64_t> key(op_count() + host_.tasks.size());
    for (std::size_t i = 0; i < host_.tasks.size(); ++i) key[op_count() + i] = host_.tasks[i].begin;
    for (std::size_t i = 0; i < op_count(); ++i) key[i] = timeline_.ops[i].begin;
    for (const FoundEdge& edge : host_.launches) key[edge.to] = std::max(key[edge.to], key[op_count() + edge.from]);
    for (const TimelineStream& stream : timeline_.streams) {
      for (std::size_t i = 1; i < stream.ops.size(); ++i) {
        key[stream.ops[i]] = std::max(key[stream.ops[i]], key[stream.ops[i - 1]]);
      }
    }
    // Tasks of a thread may begin at the same time: its own order counts then, and host work comes before the device's.
    std::vector<std::uint32_t> order(key.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple(key[i], i < op_count(), i); });
    task_of_.resize(order.size());
    for (std::uint32_t at = 0; at < order.size(); ++at) task_of_[order[at]] = at;
    order_ = std::move(order);
  }

  void add_tasks() {
    const std::vector<MarkedPlace> places = places_of_calls(trace_);
    std::vector<std::string> op_names(op_count());
    for (std::size_t i = 0; i < op_count(); ++i) op_names[i] = numbered(operation_of(timeline_.ops[i]));
    out_.graph.tasks.reserve(order_.size());
    for (const std::uint32_t index : order_) {
      out_.graph.tasks.push_back(index < op_count() ? device_task(index, op_names[index], places)
                                                    : host_task(host_.tasks[index - op_count()], op_names));
    }
  }

  std::string operation_of(const DeviceOp& op) const {
    if (op.collective != kNoCollective && !trace_.collectives[op.collective].kind.empty()) {
      return trace_.collectives[op.collective].kind;
    }
    return short_kernel_name(trace_.names.text(op.name));
  }

  graph::OpenTask device_task(std::uint32_t index, const std::string& name, const std::vector<MarkedPlace>& places) {
    const DeviceOp& op = timeline_.ops[index];
    graph::OpenTask task;
    task.name = name;
    task.operation = operation_of(op);
    task.kind = op.work == DeviceWork::kernel ? OpenKind::compute : OpenKind::copy;
    task.stream = static_cast<std::int32_t>(timeline_.stream_of[index]);
    task.ns = static_cast<double>(op.end - op.begin);
    task.begin_ns = since_origin(op.begin);
    task.end_ns = since_origin(op.end);
    task.bytes = op.bytes;
    if (const std::uint32_t call = timeline_.call_of[index]; call != kNone) {
      task.phase = places[call].phase;
      task.layer = places[call].layer;
      task.micro_batch = places[call].micro_batch;
    }
    if (op.collective != kNoCollective) add_collective(trace_.collectives[op.collective], task);
    return task;
  }

  void add_collective(const CollectiveNote& note, graph::OpenTask& task) {
    task.kind = note.kind == "send"      ? OpenKind::send
                : note.kind == "receive" ? OpenKind::receive
                                         : OpenKind::collective;
    const std::string& stream = out_.graph.streams[static_cast<std::size_t>(task.stream)].name;
    task.channel = channels_.channel_of(trace_, note, stream);
    task.sequence = note.sequence;
    task.peer = note.peer;
    // Of a channel whose size nobody tells, the bytes that were sent aren't known.
    if (note.group_size > 0) task.network_bytes = ring_bytes(note.kind, note.bytes, note.group_size);
  }

  graph::OpenTask host_task(const HostTask& host, const std::vector<std::string>& op_names) {
    graph::OpenTask task;
    task.kind = OpenKind::host;
    task.stream = thread_stream_.at(host.thread);
    task.ns = static_cast<double>(host.end - host.begin);
    task.begin_ns = since_origin(host.begin);
    task.end_ns = since_origin(host.end);
    task.operation = host.kind == HostTaskKind::launch ? "launch" : host.kind == HostTaskKind::wait ? "wait" : "host";
    if (host.kind == HostTaskKind::launch) {
      task.name = numbered("launch of " + op_names[timeline_.launches[host.call].front()]);
    } else if (host.kind == HostTaskKind::wait) {
      task.name = numbered("wait in " + trace_.names.text(trace_.calls[host.call].name));
    } else {
      task.name = numbered("before the first call");
    }
    return task;
  }

  void add_edges() {
    const auto host = [&](std::uint32_t index) { return task_of_[op_count() + index]; };
    for (const FoundEdge& edge : device_.edges) add_edge(edge, task_of_[edge.from], task_of_[edge.to]);
    for (const FoundEdge& edge : host_.between) add_edge(edge, host(edge.from), host(edge.to));
    for (const FoundEdge& edge : host_.launches) add_edge(edge, host(edge.from), task_of_[edge.to]);
    for (const FoundEdge& edge : host_.waits) add_edge(edge, task_of_[edge.from], host(edge.to));
    std::ranges::sort(out_.graph.edges, {},
                      [](const graph::OpenEdge& e) { return std::tuple(e.to, e.from, e.source); });
  }

  void add_edge(const FoundEdge& found, std::uint32_t from, std::uint32_t to) {
    if (from >= to) {
      ++backwards_;
      return;
    }
    graph::OpenEdge& edge = out_.graph.edges.emplace_back();
    edge.from = from;
    edge.to = to;
    edge.source = found.source;
    edge.confidence = found.confidence;
    if (found.after_begin) {
      edge.kind = graph::EdgeKind::issued_before;
      edge.after_begin_ns = static_cast<double>(*found.after_begin);
    }
    ++out_.edges[static_cast<std::size_t>(edge.source)];
  }

  void add_notes() {
    const auto note = [&](std::int64_t count, std::string sentence) {
      if (count > 0) out_.notes.push_back(std::move(sentence));
    };
    const std::int64_t paired = out_.edges[static_cast<std::size_t>(EdgeSource::pairing)];
    const std::int64_t timed = out_.edges[static_cast<std::size_t>(EdgeSource::times)];
    note(paired, fmt::format("{} edges were guessed from the order of calls on CPU threads.", paired));
    note(timed, fmt::format("{} edges were guessed from times alone, {} of them between CPU threads.", timed,
                            host_.guessed_wakes));
    note(device_.contradicted,
         fmt::format("{} records of waits contradict the recorded times and were left out.", device_.contradicted));
    note(backwards_, fmt::format("{} edges go against the recorded order of begins and were left out.", backwards_));
    note(timeline_.without_launch,
         fmt::format("{} of {} device tasks have no launch in the trace.", timeline_.without_launch, op_count()));
    const bool waits = std::ranges::any_of(trace_.calls, [](const HostCall& call) {
      return call.kind == HostCallKind::event_sync || call.kind == HostCallKind::stream_sync ||
             call.kind == HostCallKind::device_sync;
    });
    note(!waits && !trace_.calls.empty() ? 1 : 0,
         "The trace has no calls in which the host waits for the device: such waits count as the host's own time.");
    note(timeline_.behind,
         fmt::format("The device was {:.3f} ms behind the host: the step is counted from its own first task.",
                     static_cast<double>(timeline_.behind) / 1e6));
  }

  const DeviceTrace& trace_;
  TraceChannels& channels_;
  const StepTimeline timeline_;
  const DeviceEdges device_;
  const HostWork host_;
  std::map<std::string, std::int64_t> next_number_;
  std::map<std::int64_t, std::int32_t> thread_stream_;
  std::vector<std::uint32_t> order_, task_of_;  // both: ops first, then the host's tasks
  std::int64_t backwards_ = 0;
  RecoveredStep out_;
};

}  // namespace

std::int32_t TraceChannels::channel_of(const DeviceTrace& trace, const CollectiveNote& note,
                                       const std::string& stream) {
  std::string name, description = note.description;
  std::vector<std::int64_t> members = note.ranks;
  std::int64_t size = note.group_size;
  for (const ProcessGroup& group : trace.groups) {
    if (note.group.empty() || group.name != note.group) continue;
    if (description.empty()) description = group.description;
    if (members.empty()) members = group.ranks;
    if (size == 0) size = group.size;
  }
  const bool known = !note.group.empty() || !description.empty();
  // Some descriptions say nothing about what a group is for.
  if (!description.empty() && description != "undefined" && description != "default_pg") {
    name = description;
  } else if (known) {
    name = note.group.empty() ? description : "group " + note.group;
  } else {
    name = fmt::format("{} (inferred)", stream);
  }
  if (size == 0) size = members.empty() ? std::max<std::int64_t>(1, ranks_) : static_cast<std::int64_t>(members.size());
  const auto [at, added] = by_name_.emplace(std::pair(name, size), static_cast<std::int32_t>(channels_.size()));
  if (added) {
    // Two groups of one name and different sizes are told apart by their sizes.
    const auto taken = [&](const std::string& text) {
      return std::ranges::any_of(channels_, [&](const graph::OpenChannel& channel) { return channel.name == text; });
    };
    if (taken(name)) name = fmt::format("{}, {} ranks", name, size);
    while (taken(name)) name += "'";
    channels_.push_back({name, size});
    inferred_ += known ? 0 : 1;
  }
  graph::OpenChannel& channel = channels_[static_cast<std::size_t>(at->second)];
  const bool fits = static_cast<std::int64_t>(members.size()) == size;
  if (fits && std::ranges::find(channel.groups, members) == channel.groups.end()) channel.groups.push_back(members);
  return at->second;
}

std::vector<graph::OpenChannel> TraceChannels::channels() && {
  for (graph::OpenChannel& channel : channels_) std::ranges::sort(channel.groups);
  return std::move(channels_);
}

double ring_bytes(std::string_view kind, double bytes, std::int64_t group_size) {
  if (group_size < 2) return 0;
  const double share = static_cast<double>(group_size - 1) / static_cast<double>(group_size);
  if (kind == "all_reduce") return 2 * share * bytes;
  if (kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all") return share * bytes;
  return bytes;
}

RecoveredStep recover_step(const DeviceTrace& trace, const std::optional<MarkedStep>& step, TraceChannels& channels) {
  return StepAssembly(trace, step, channels).run();
}

}  // namespace weft::inspect
