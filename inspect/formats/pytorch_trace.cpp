#include "inspect/formats/pytorch_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/json_object.h"
#include "inspect/formats/viewer_rows.h"

namespace weft::inspect {
namespace {

constexpr int kProcess = 4000, kThread = 4000;  // of the host
constexpr std::uint32_t kFirstStream = 7;       // the default stream's number in PyTorch's traces
constexpr std::int64_t kSlot = 1000;            // from one call to the next, where there is time for it
constexpr std::int64_t kMostLead = 5000;        // by which the host begins a step before its device
constexpr std::int64_t kLeadShare = 1000;       // of a step
constexpr std::int64_t kShift = 1'000'000'000;  // times before the first step stay positive

/// NVIDIA's numbers of the functions (cupti_runtime_cbid.h).
constexpr int kLaunchId = 211, kLaunchExId = 430, kRecordId = 135, kWaitId = 147;

/// "AllReduce" of "all_reduce".
std::string joined_words(std::string_view kind) {
  std::string out;
  bool upper = true;
  for (const char c : kind) {
    if (c == '_') {
      upper = true;
      continue;
    }
    out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return out;
}

/// Bytes of a collective's whole tensor, from what a rank sends in a ring.
double whole_bytes(std::string_view kind, double network_bytes, std::int64_t size) {
  if (size < 2) return 0;
  const double share = static_cast<double>(size - 1) / static_cast<double>(size);
  return network_bytes / (kind == "all_reduce" ? 2 * share : share);
}

std::string operator_name(const plan::RecordedTask& task) {
  return "weft::" + task.kind;
}

class PytorchWriter {
 public:
  PytorchWriter(const plan::Recording& recording, std::size_t index, const PytorchTraceOptions& options,
                const TextSink& sink)
      : recording_(recording),
        rank_(recording.ranks.at(index)),
        options_(options),
        out_(sink),
        origin_(first_begin(recording) - kShift),
        waits_(plan::waits_between_streams(recording)),
        waits_of_(recording.tasks.size()),
        signals_(recording.tasks.size()),
        rows_(recording.streams.size()) {
    for (const plan::RecordedWait& wait : waits_) {
      waits_of_[wait.to].push_back(&wait);
      signals_[wait.from] = true;
    }
  }

  void write() {
    refuse_host_work();
    out_.put(
        "{{\n\"schemaVersion\": 1,\n\"weftMadeUpHostTimes\": true,\n\"deviceProperties\": [{{\"id\": "
        "0}}],\n\"distributedInfo\": {{\"backend\": "
        "\"nccl\", \"rank\": {}, \"world_size\": {}, \"pg_count\": {}, \"pg_config\": [",
        rank_.rank, recording_.world, tasks_by_channel(recording_).size());
    put_groups();
    out_.put("]}},\n\"traceEvents\": [");
    name("process_name", kProcess, 0, "python");
    name("process_name", 0, 0, "python");
    name("thread_name", kProcess, kThread, fmt::format("thread {} (python)", kThread));
    for (std::uint32_t i = 0; i < recording_.streams.size(); ++i) {
      name("thread_name", 0, stream_number(i),
           fmt::format("stream {} {}", stream_number(i), recording_.streams[i].name));
    }
    std::vector<std::int64_t> begins;
    for (const plan::RecordedStep& step : rank_.steps) begins.push_back(step.begin - lead_of(step));
    for (std::size_t i = 0; i < rank_.steps.size(); ++i) {
      const std::int64_t end = i + 1 < begins.size() ? begins[i + 1] : rank_.steps[i].end;
      write_step(rank_.steps[i], begins[i], end);
    }
    out_.put("\n],\n\"traceName\": \"rank_{}.json\"}}\n", rank_.rank);
    out_.flush();
  }

 private:
  static std::uint32_t stream_number(std::uint32_t stream) { return kFirstStream + stream; }

  void refuse_host_work() const {
    for (const plan::RecordedStream& stream : recording_.streams) {
      if (!stream.local) continue;
      throw UserError(fmt::format("the step has a queue of the host, '{}'", stream.name),
                      "a step of Weft: computations and collectives", "--format chrome");
    }
  }

  // ---- text
  void begin_event() {
    out_.add(any_ ? ",\n" : "\n");
    any_ = true;
  }
  void name(std::string_view what, int process, std::uint32_t thread, std::string_view text) {
    begin_event();
    out_.put(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "ts": 0, "args": {{"name": {}}}}})", what, process,
             thread, json_string(std::string(text)));
  }
  void slice(std::string_view category, std::string_view quoted_name, int process, std::uint32_t thread,
             const plan::TaskTime& time, std::string_view arguments) {
    const std::int64_t begin = time.begin - origin_, length = time.end - time.begin;
    begin_event();
    out_.put(
        R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}.{:03}, "dur": {}.{:03}, "args": {{{}}}}})",
        category, quoted_name, process, thread, begin / 1000, begin % 1000, length / 1000, length % 1000, arguments);
  }

  // ---- groups
  void put_groups() {
    bool first = true;
    for (const auto& [channel, task] : tasks_by_channel(recording_)) {
      out_.put(R"({}{{"pg_name": {}, "pg_desc": {}, "backend_config": "cuda:nccl", "pg_size": {}, "ranks": [{}]}})",
               std::exchange(first, false) ? "" : ", ", json_string(channel), json_string(channel), task->group_size,
               fmt::join(group_of(recording_, channel, rank_.rank).value_or(std::vector<std::int64_t>()), ", "));
    }
  }

  std::string collective_arguments(const plan::RecordedTask& task) const {
    const std::int64_t size = task.group_size;
    const double whole = whole_bytes(task.kind, task.network_bytes, size),
                 part = size > 0 ? whole / static_cast<double>(size) : 0;
    const double in = task.kind == "all_gather" ? part : whole, out = task.kind == "reduce_scatter" ? part : whole;
    std::string text = fmt::format(
        R"(, "Collective name": {}, "In msg nelems": {:.0f}, "Out msg nelems": {:.0f}, "Group size": {}, "dtype": "Byte", "Process Group Name": {}, "Process Group Description": {})",
        json_string(task.kind), in, out, size, json_string(task.channel), json_string(task.channel));
    constexpr std::size_t kMostRanks = 30;  // PyTorch cuts longer lists
    if (const auto ranks = group_of(recording_, task.channel, rank_.rank); ranks && ranks->size() <= kMostRanks) {
      text += fmt::format(R"(, "Process Group Ranks": "[{}]")", fmt::join(*ranks, ", "));
    }
    return text;
  }

  // ---- a step
  std::int64_t calls() const {
    return std::ssize(recording_.tasks) + std::ssize(waits_) + std::ranges::count(signals_, true);
  }
  std::int64_t lead_of(const plan::RecordedStep& step) const {
    return std::max(calls() + 1, std::min(kMostLead, (step.end - step.begin) / kLeadShare));
  }

  /// The time from a call to the next one: short enough that no task begins before its launch.
  std::int64_t slot_of(const plan::RecordedStep& step, std::int64_t host_begin) const {
    std::int64_t slot = kSlot, place = 0;
    for (std::size_t i = 0; i < recording_.tasks.size(); ++i) {
      place += std::ssize(waits_of_[i]) + 1;  // of the launch, counted from 1
      slot = std::min(slot, (step.times[i].begin - host_begin) / place);
      place += signals_[i] ? 1 : 0;
    }
    return std::max<std::int64_t>(slot, 1);
  }

  void write_step(const plan::RecordedStep& step, std::int64_t begin, std::int64_t end) {
    slice("user_annotation", fmt::format("\"ProfilerStep#{}\"", step.step), kProcess, kThread, {begin, end}, "");
    const std::int64_t slot = slot_of(step, begin);
    host_ = begin;
    slot_ = slot;
    std::vector<std::int64_t> recorded(recording_.tasks.size(), -1);
    std::size_t marked = recording_.tasks.size();  // the first task of the open mark
    std::int64_t mark_begin = 0;
    const auto close_mark = [&] {
      if (marked < recording_.tasks.size()) put_mark(recording_.tasks[marked], {mark_begin, host_});
    };
    for (std::uint32_t i = 0; i < recording_.tasks.size(); ++i) {
      if (marked == recording_.tasks.size() || !same_place(recording_.tasks[marked], recording_.tasks[i])) {
        close_mark();
        marked = i;
        mark_begin = host_;
      }
      for (const plan::RecordedWait* wait : waits_of_[i]) write_wait(*wait, recorded);
      write_task(i, step.times[i]);
      if (!signals_[i]) continue;
      recorded[i] = ++correlation_;
      call("cudaEventRecord", kRecordId);
    }
    close_mark();
    before_ = std::move(recorded);
  }

  static bool same_place(const plan::RecordedTask& a, const plan::RecordedTask& b) {
    return a.phase == b.phase && a.layer == b.layer && a.micro_batch == b.micro_batch;
  }
  void put_mark(const plan::RecordedTask& task, const plan::TaskTime& time) {
    std::string text = task.phase == graph::Phase::update ? "optimizer" : std::string(graph::to_string(task.phase));
    if (task.micro_batch >= 0) text += fmt::format(" micro-batch {}", task.micro_batch);
    if (task.layer >= 0) text += fmt::format(" layer {}", task.layer);
    slice("user_annotation", json_string(text), kProcess, kThread, time, "");
  }

  void call(std::string_view function, int number) {
    const std::int64_t begin = host_;
    host_ += slot_;
    slice("cuda_runtime", fmt::format("\"{}\"", function), kProcess, kThread,
          {begin, std::max(begin + 1, host_ - slot_ / 4)},
          fmt::format(R"("cbid": {}, "correlation": {})", number, correlation_));
  }

  void write_wait(const plan::RecordedWait& wait, const std::vector<std::int64_t>& recorded) {
    ++correlation_;
    const std::int64_t begin = host_;
    call("cudaStreamWaitEvent", kWaitId);
    const std::vector<std::int64_t>& of = wait.distance == 0 ? recorded : before_;
    if (!options_.sync_records || of.empty()) return;
    const std::uint32_t stream = stream_number(recording_.tasks[wait.to].stream);
    slice(
        "cuda_sync", "\"Stream Wait Event\"", 0, stream, {begin, begin},
        fmt::format(R"("cuda_sync_kind": "Stream Wait Event", "stream": {}, "correlation": {}, "device": 0, )"
                    R"("context": 1, "wait_on_stream": {}, "wait_on_cuda_event_record_corr_id": {}, )"
                    R"("wait_on_cuda_event_id": {})",
                    stream, correlation_, stream_number(recording_.tasks[wait.from].stream), of[wait.from], wait.from));
  }

  void write_task(std::uint32_t index, const plan::TaskTime& time) {
    const plan::RecordedTask& task = recording_.tasks[index];
    const bool communicates = !task.channel.empty();
    ++correlation_;
    ++operators_;
    if (options_.operators) {
      slice("cpu_op", json_string(operator_name(task)), kProcess, kThread, {host_, host_ + slot_},
            fmt::format(R"("External id": {0}, "Record function id": {0})", operators_));
    }
    call(communicates ? "cudaLaunchKernelExC" : "cudaLaunchKernel", communicates ? kLaunchExId : kLaunchId);
    const std::uint32_t stream = stream_number(task.stream);
    std::string arguments =
        fmt::format(R"("device": 0, "context": 1, "stream": {}, "correlation": {})", stream, correlation_);
    if (communicates) arguments += collective_arguments(task);
    slice(
        "kernel",
        json_string(communicates ? fmt::format("ncclDevKernel_{}({})", joined_words(task.kind), task.name) : task.name),
        0, stream, rows_[task.stream].place(time), arguments);
  }

  const plan::Recording& recording_;
  const plan::RecordedRank& rank_;
  const PytorchTraceOptions& options_;
  TextWriter out_;
  const std::int64_t origin_;
  const std::vector<plan::RecordedWait> waits_;
  std::vector<std::vector<const plan::RecordedWait*>> waits_of_;  // by task
  std::vector<bool> signals_;                                     // by task: another stream waits for it
  std::vector<ViewerRow> rows_;
  bool any_ = false;
  std::int64_t host_ = 0, slot_ = 1, correlation_ = 0, operators_ = 0;
  std::vector<std::int64_t> before_;  // by task: the correlation of its event's record in the step before
};

/// The storages of each task, as an execution trace has them.
class StoragesOfTasks {
 public:
  explicit StoragesOfTasks(const plan::Recording& recording)
      : reads_(recording.tasks.size()), writes_(recording.tasks.size()) {
    std::size_t next = recording.tasks.size() + 1;
    for (const plan::RecordedEdge& edge : recording.edges) {
      if (edge.distance != 0) continue;
      if (edge.reason == graph::EdgeReason::read_after_write) {
        reads_[edge.to].push_back(made_by(edge.from));
      } else if (edge.reason == graph::EdgeReason::write_after_read) {
        reads_[edge.from].push_back(next);
        writes_[edge.to].push_back(next++);
      } else if (edge.reason == graph::EdgeReason::write_after_write) {
        writes_[edge.from].push_back(next);
        writes_[edge.to].push_back(next++);
      }
    }
  }

  static std::size_t made_by(std::uint32_t task) { return task + 1; }
  const std::vector<std::size_t>& reads(std::size_t task) const { return reads_[task]; }
  const std::vector<std::size_t>& writes(std::size_t task) const { return writes_[task]; }

 private:
  std::vector<std::vector<std::size_t>> reads_, writes_;
};

/// Tensors are [number, storage, offset, elements, bytes of an element, device].
std::string tensor_list(const std::vector<std::size_t>& storages) {
  std::string out;
  for (const std::size_t storage : storages) {
    out += fmt::format(R"({}[{}, {}, 0, 1, 4, "cuda:0"])", out.empty() ? "" : ", ", storage, storage);
  }
  return out;
}

}  // namespace

void write_execution_trace(const plan::Recording& recording, std::size_t index, const TextSink& sink) {
  const StoragesOfTasks storages(recording);
  TextWriter out(sink);
  out.put("{{\n\"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": {}, \"nodes\": [\n", kProcess);
  out.put(R"({{"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, )"
          R"("inputs": {{"values": []}}, "outputs": {{"values": []}}, "attrs": []}})");
  std::int64_t number = 0;
  for (std::size_t step = 0; step < recording.ranks.at(index).steps.size(); ++step) {
    for (std::uint32_t i = 0; i < recording.tasks.size(); ++i) {
      ++number;
      const std::string name = operator_name(recording.tasks[i]);
      out.put(R"(,{}{{"id": {}, "name": {}, "ctrl_deps": 1, "inputs": {{"values": [[{}], [{}]]}}, )", "\n", number + 1,
              json_string(name), tensor_list(storages.reads(i)), tensor_list(storages.writes(i)));
      out.put(R"("outputs": {{"values": [{}]}}, "attrs": [{{"name": "rf_id", "type": "uint64", "value": {}}}, )",
              tensor_list({StoragesOfTasks::made_by(i)}), number);
      out.put(R"({{"name": "scope", "type": "uint64", "value": 0}}, {{"name": "op_schema", "type": "string", )"
              R"("value": {}}}]}})",
              json_string(name + "(Tensor[] reads, Tensor(a!)[] writes) -> Tensor"));
    }
  }
  out.put("\n]}}\n");
  out.flush();
}

void write_pytorch_trace(const plan::Recording& recording, std::size_t index, const PytorchTraceOptions& options,
                         const TextSink& sink) {
  PytorchWriter(recording, index, options, sink).write();
}

}  // namespace weft::inspect
