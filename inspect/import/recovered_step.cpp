#include "inspect/import/recovered_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inspect/import/cpu_work.h"
#include "inspect/import/data_edges.h"
#include "inspect/import/device_edges.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/host_work.h"
#include "inspect/import/open_cuts.h"
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
    if (op.collective != kNoCollective) {
      communication.push_back({op.begin, op.end});
    } else if (classes[op.name] == DeviceClass::compute) {
      compute.push_back({op.begin, op.end});
    }
  }
  return overlap_of(std::move(compute), std::move(communication));
}

namespace {

using graph::EdgeSource;
using graph::OpenKind;

constexpr std::size_t kNamesInNote = 5;

class StepAssembly {
 public:
  StepAssembly(const DeviceTrace& trace, const std::optional<MarkedStep>& step, TraceChannels& channels)
      : trace_(trace),
        channels_(channels),
        timeline_(make_timeline(trace, step)),
        work_(trace.cpu_only ? recover_cpu_work(trace, timeline_) : device_work()),
        device_(work_.edges),
        host_(work_.host),
        data_(recover_data_edges(trace, timeline_, trace.data ? &*trace.data : nullptr)) {}

  RecoveredStep run() && {
    check_execution_trace();
    out_.graph.edges_from_accesses = false;
    out_.graph.recorded_ns = static_cast<double>(timeline_.length());
    out_.marked_ns = timeline_.marked;
    out_.overlap = device_overlap(timeline_.recorded.empty() ? timeline_.ops : timeline_.recorded, trace_.names);
    if (trace_.rank >= 0) out_.graph.ranks = {trace_.rank};
    add_streams();
    order_tasks();
    add_tasks();
    add_edges();
    cut_at_delays(out_.graph);
    if (trace_.made_up_host) add_pauses();
    add_notes();
    return std::move(out_);
  }

 private:
  void check_execution_trace() const {
    if (!trace_.data) return;
    constexpr std::int64_t kMostMisnamed = 20;  // one in so many
    if (data_.joined > 0 && data_.misnamed * kMostMisnamed <= data_.joined) return;
    throw UserError(data_.joined == 0
                        ? fmt::format("'{}' has none of the step's operators in '{}'", trace_.data->file, trace_.file)
                        : fmt::format("'{}' has other operators than '{}': {} of {} differ in their names",
                                      trace_.data->file, trace_.file, data_.misnamed, data_.joined),
                    "an execution trace that was recorded beside the profiler's, of the same rank and steps",
                    "record both with profile(..., execution_trace_observer=...), or leave --execution-trace out");
  }

  CpuWork device_work() const {
    CpuWork work{recover_device_edges(trace_, timeline_), {}};
    if (!trace_.made_up_host) work.host = recover_host_work(trace_, timeline_);
    return work;
  }
  std::size_t op_count() const { return timeline_.ops.size(); }
  double since_origin(std::int64_t time) const {
    return static_cast<double>(std::max<std::int64_t>(0, time - timeline_.origin));
  }

  /// "gemm#0", "gemm#1", …
  std::string numbered(const std::string& base) { return fmt::format("{}#{}", base, next_number_[base]++); }

  void add_streams() {
    const bool devices = timeline_.streams.front().device != timeline_.streams.back().device;
    for (const TimelineStream& stream : timeline_.streams) {
      if (trace_.cpu_only) {
        out_.graph.streams.push_back({fmt::format("operators of thread {}", stream.stream)});
        continue;
      }
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
    raise_what_waited(key);
    // Tasks of a thread may begin at the same time: its own order counts then, and host work comes before the device's.
    std::vector<std::uint32_t> order(key.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::tuple(key[i], i < op_count(), i); });
    task_of_.resize(order.size());
    for (std::uint32_t at = 0; at < order.size(); ++at) task_of_[order[at]] = at;
    order_ = std::move(order);
  }

  /// Clocks jitter: work that is known to have waited comes after what it waited for, though it may seem to begin
  /// first.
  void raise_what_waited(std::vector<std::int64_t>& key) const {
    constexpr int kMostPasses = 8;
    bool changed = true;
    const auto raise = [&](std::uint32_t at, std::int64_t least) {
      changed = changed || key[at] < least;
      key[at] = std::max(key[at], least);
    };
    for (int pass = 0; changed && pass < kMostPasses; ++pass) {
      changed = false;
      for (const std::vector<FoundEdge>* edges : {&device_.edges, &data_.edges}) {
        for (const FoundEdge& edge : *edges) {
          const bool known = edge.source == EdgeSource::data || edge.source == EdgeSource::synchronisation;
          if (known && !edge.after_begin) raise(edge.to, key[edge.from] + 1);
        }
      }
      for (const TimelineStream& stream : timeline_.streams) {
        for (std::size_t i = 1; i < stream.ops.size(); ++i) raise(stream.ops[i], key[stream.ops[i - 1]]);
      }
    }
  }

  void add_tasks() {
    const std::vector<MarkedPlace> places = places_of_calls(trace_);
    name_kernels();
    std::vector<std::string> op_names(op_count());
    for (std::size_t i = 0; i < op_count(); ++i) op_names[i] = numbered(operation_of(timeline_.ops[i]));
    out_.graph.tasks.reserve(order_.size());
    for (const std::uint32_t index : order_) {
      out_.graph.tasks.push_back(index < op_count() ? device_task(index, op_names[index], places)
                                                    : host_task(host_.tasks[index - op_count()], op_names));
    }
  }

  void name_kernels() {
    std::set<std::uint32_t> used;
    for (const DeviceOp& op : timeline_.ops) used.insert(op.name);
    std::vector<std::string_view> full;
    for (const std::uint32_t name : used) full.push_back(trace_.names.text(name));
    const std::vector<std::string> told = telling_kernel_names(full);
    for (std::size_t i = 0; const std::uint32_t name : used) kernel_names_.emplace(name, told[i++]);
  }

  std::string operation_of(const DeviceOp& op) const {
    if (op.collective != kNoCollective && !trace_.collectives[op.collective].kind.empty()) {
      return trace_.collectives[op.collective].kind;
    }
    return trace_.cpu_only ? trace_.names.text(op.name) : kernel_names_.at(op.name);
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
    task.data_known = data_.known[index];
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
    // What the host did before the step was counted, or after its end, takes none of its time.
    task.begin_ns = since_origin(std::min(host.begin, timeline_.end));
    task.end_ns = since_origin(std::min(host.end, timeline_.end));
    task.ns = *task.end_ns - *task.begin_ns;
    task.operation = host.part > 0                       ? "host"
                     : host.kind == HostTaskKind::launch ? "launch"
                     : host.kind == HostTaskKind::wait   ? "wait"
                                                         : "host";
    std::string name = "before the first call";
    if (host.kind == HostTaskKind::launch) {
      name = "launch of " + op_names[timeline_.launches[host.call].front()];
    } else if (host.kind == HostTaskKind::wait) {
      name = host.call == kNone ? "wait for the device" : "wait in " + trace_.names.text(trace_.calls[host.call].name);
    } else if (host.kind == HostTaskKind::pause) {
      name = "between operators";
    }
    task.name = numbered(host.part > 0 ? "after " + name : name);
    return task;
  }

  void add_edges() {
    const auto host = [&](std::uint32_t index) { return task_of_[op_count() + index]; };
    for (const FoundEdge& edge : device_.edges) add_edge(edge, task_of_[edge.from], task_of_[edge.to]);
    for (const FoundEdge& edge : data_.edges) add_edge(edge, task_of_[edge.from], task_of_[edge.to]);
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

  /// Nobody knows what happened in the time before a task that nothing explains: it counts as the task's own.
  void add_pauses() {
    std::vector<double> ready(out_.graph.tasks.size(), -1);
    for (const graph::OpenEdge& edge : out_.graph.edges) {
      const graph::OpenTask& from = out_.graph.tasks[edge.from];
      const double done = edge.after_begin_ns ? *from.begin_ns + *edge.after_begin_ns : *from.end_ns;
      ready[edge.to] = std::max(ready[edge.to], done);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      graph::OpenTask& task = out_.graph.tasks[i];
      const double pause = ready[i] < 0 ? 0 : *task.begin_ns - ready[i];
      if (pause > 0) *task.ns += pause;
    }
  }

  void add_notes() {
    out_.notes = trace_.notes;
    const auto note = [&](std::int64_t count, std::string sentence) {
      if (count > 0) out_.notes.push_back(std::move(sentence));
    };
    const std::int64_t paired = out_.edges[static_cast<std::size_t>(EdgeSource::pairing)];
    const std::int64_t timed = out_.edges[static_cast<std::size_t>(EdgeSource::times)];
    if (trace_.cpu_only) {
      note_arrows();
      note(1,
           "No device worked: tasks are the outermost operators of CPU threads, and the host's are the times between "
           "them.");
      note(host_.guessed_waits,
           fmt::format("{} pauses of a thread are taken as waits for a collective that ended in them.",
                       host_.guessed_waits));
      return;
    }
    note(trace_.made_up_host ? 1 : 0,
         "Weft made up the times of the host's calls in this file: the host is left out, and a pause before a task "
         "that nothing explains counts as the task's own.");
    note_doubtful_names();
    note(paired, fmt::format("{} edges were guessed from the order of calls on CPU threads.", paired));
    note(timed, fmt::format("{} edges were guessed from times alone, {} of them between CPU threads.", timed,
                            host_.guessed_wakes));
    note(device_.contradicted,
         fmt::format("{} records of waits contradict the recorded times and were left out.", device_.contradicted));
    const std::int64_t known = std::ranges::count(data_.known, true);
    note(known, fmt::format("The execution trace tells the data of {} of {} tasks of the device; the others keep "
                            "their recorded order.",
                            known, op_count()));
    note_arrows();
    note(data_.contradicted,
         fmt::format("{} pairs of operators that need each other's data ran beside each other: their order was left "
                     "out.",
                     data_.contradicted));
    note(backwards_, fmt::format("{} edges go against the recorded order of begins and were left out.", backwards_));
    note(timeline_.without_launch,
         fmt::format("{} of {} device tasks have no launch in the trace.", timeline_.without_launch, op_count()));
    const bool waits = std::ranges::any_of(trace_.calls, [](const HostCall& call) {
      return call.kind == HostCallKind::event_sync || call.kind == HostCallKind::stream_sync ||
             call.kind == HostCallKind::device_sync;
    });
    note(host_.guessed_waits,
         fmt::format(
             "{} waits of the host for the device were guessed: calls that ask whether it is done, silence until "
             "it was, launches into a full queue.",
             host_.guessed_waits));
    note(!waits && host_.guessed_waits == 0 && !trace_.calls.empty() && !trace_.made_up_host ? 1 : 0,
         "The trace has no calls in which the host waits for the device: such waits count as the host's own time.");
    const bool between = device_.recorded_waits || std::ranges::any_of(trace_.calls, [](const HostCall& call) {
                           return call.kind == HostCallKind::wait;
                         });
    note(!between && timeline_.streams.size() > 1 ? 1 : 0,
         "The trace has no waits between streams, neither records nor calls: who waited for whom is a guess.");
    note(timeline_.behind,
         fmt::format(
             "The device was {:.3f} ms behind the host: the step is counted from the end of the last one's work.",
             static_cast<double>(timeline_.behind) / 1e6));
  }

  void note_arrows() {
    const std::int64_t told = trace_.data ? 0 : out_.edges[static_cast<std::size_t>(EdgeSource::data)];
    if (told == 0) return;
    out_.notes.push_back(fmt::format(
        "{} edges of data lead from forward operators to their nodes in the backward pass, as the trace's arrows tell; "
        "--execution-trace tells the other ones.",
        told));
  }

  void note_doubtful_names() {
    std::set<std::string> doubtful;
    std::int64_t count = 0;
    std::map<std::uint32_t, bool> looks;
    for (const DeviceOp& op : timeline_.ops) {
      if (op.collective != kNoCollective || op.work != DeviceWork::kernel) continue;
      const auto [told, added] = looks.try_emplace(op.name);
      if (added) told->second = looks_like_communication(trace_.names.text(op.name));
      if (!told->second) continue;
      ++count;
      doubtful.insert(kernel_names_.at(op.name));
    }
    if (count == 0) return;
    std::string names;
    for (std::size_t shown = 0; const std::string& name : doubtful) {
      if (shown++ == kNamesInNote) break;
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
    if (doubtful.size() > kNamesInNote) names += ", …";
    out_.notes.push_back(
        fmt::format("{} kernels count as computing though their names look like communication: {}. --communication "
                    "PATTERN makes them communication.",
                    count, names));
  }

  const DeviceTrace& trace_;
  TraceChannels& channels_;
  const StepTimeline timeline_;
  const CpuWork work_;
  const DeviceEdges& device_;
  const HostWork& host_;
  const DataEdges data_;
  std::map<std::string, std::int64_t> next_number_;
  std::map<std::uint32_t, std::string> kernel_names_;  // short ones
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
