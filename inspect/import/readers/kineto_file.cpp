#include "inspect/import/readers/kineto_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/import/coalesced_groups.h"
#include "inspect/import/cpu_work.h"
#include "inspect/import/impossible_records.h"
#include "inspect/import/readers/kineto_events.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kStepMark = "ProfilerStep#";
constexpr std::string_view kTrace = "the trace";       // in messages
constexpr std::int64_t kFarFromZero = 60'000'000'000;  // ns

bool wanted_in_outline(KinetoCategory category) {
  return category == KinetoCategory::user_mark || category == KinetoCategory::kernel ||
         category == KinetoCategory::copy || category == KinetoCategory::set || category == KinetoCategory::unnamed;
}

/// The kind of a record of cuda_sync by its name: "Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync".
HostCallKind sync_kind(std::string_view name) {
  if (name.find("Wait") != std::string_view::npos) return HostCallKind::wait;
  if (name.starts_with("Event")) return HostCallKind::event_sync;
  if (name.starts_with("Stream")) return HostCallKind::stream_sync;
  return HostCallKind::device_sync;
}

/// Marks that tell phases, layers or micro-batches. Operators would fill the memory, and only the names of the backward
/// pass's tell anything.
bool tells_something(const KinetoEvent& event) {
  return event.category == KinetoCategory::user_mark || event.name.starts_with("autograd::engine::evaluate_function");
}

/// The number after "rank" in a file's name, as in rank_3.json or sampled_rank-0.json.gz; -1 if there is none.
std::int64_t rank_in_name(const std::string& file) {
  const std::size_t word = file.rfind("rank");
  if (word == std::string::npos) return -1;
  std::size_t at = word + 4;
  while (at < file.size() && (file[at] == '-' || file[at] == '_')) ++at;
  std::int64_t rank = -1;
  const auto [end, error] = std::from_chars(file.data() + at, file.data() + file.size(), rank);
  return error == std::errc() && rank >= 0 && rank <= kMostWorld ? rank : -1;
}

class StepEvents {
 public:
  StepEvents(const TraceOutline& outline, const std::optional<MarkedStep>& step) {
    out_.file = outline.file;
    out_.rank = outline.rank;
    out_.groups = outline.groups;
    out_.cpu_only = !outline.has_device;
    out_.made_up_host = outline.made_up_host;
    out_.notes = outline.notes;
    rules_ = outline.communication;
    device_ = outline.device;
    if (!step) return;
    window_ = step->window;
    latest_op_ = step->latest_work;
  }

  void take(const KinetoEvent& event) {
    if (!event.has_begin || event.begin < window_.begin) return take_earlier(event);
    if (event.is_negative) negative_.add(event.name);
    if (event.category == KinetoCategory::flow) return take_flow(event);
    if (event.category == KinetoCategory::arrow) return take_arrow(event);
    if (event.phase != 'X' && event.phase != '\0') return;
    if (event.on_device()) return take_op(event);
    if (event.category == KinetoCategory::sync) return take_sync(event);
    if (event.begin >= window_.end) return;
    if (event.category == KinetoCategory::call) return take_call(event);
    if (is_operator(event)) take_operator(event);
    if (tells_something(event)) take_mark(event);
  }

  DeviceTrace finish() && {
    std::ranges::sort(out_.ops, {}, &DeviceOp::begin);
    std::ranges::stable_sort(out_.calls, {}, &HostCall::begin);
    std::ranges::sort(out_.syncs, {}, &SyncRecord::begin);
    std::ranges::sort(out_.marks, {},
                      [](const HostMark& mark) { return std::tuple(mark.begin, -mark.end, mark.thread, mark.name); });
    join_by_flows();
    keep_arrows();
    std::ranges::sort(out_.operators, {},
                      [](const HostOperator& one) { return std::tuple(one.begin, -one.end, one.thread, one.name); });
    if (out_.cpu_only) {
      take_operators_as_work(out_);
    } else {
      join_coalesced_groups(out_);
    }
    if (device_) keep_device(out_, *device_);
    if (processes_.size() > 1) {
      out_.notes.push_back(
          fmt::format("Calls of {} processes are mixed in the file, {} and {} among them: import a "
                      "file of each one alone.",
                      processes_.size(), *processes_.begin(), *processes_.rbegin()));
    }
    negative_.tell(out_.notes, "records have a negative duration", ": taken as 0");
    if (!out_.cpu_only) mend_records(out_);
    return std::move(out_);
  }

 private:
  static bool is_operator(const KinetoEvent& event) {
    return event.category == KinetoCategory::cpu_op || event.name.starts_with(kGloo);
  }
  static std::int64_t end_of(const KinetoEvent& event) { return event.begin + event.length; }

  // A mark may have begun before the step that it covers.
  void take_earlier(const KinetoEvent& event) {
    // A time at 0 is none: the launch may tell it.
    if (event.has_begin && event.begin <= 0 && event.on_device()) return take_op(event);
    if (event.has_begin && event.has_length && tells_something(event) && end_of(event) > window_.begin) {
      take_mark(event);
    }
  }

  void take_mark(const KinetoEvent& event) {
    if (event.name.starts_with(kStepMark) || event.name.starts_with(kGloo)) return;
    out_.marks.push_back({event.begin, end_of(event), event.thread, out_.names.number(event.name)});
  }

  void take_operator(const KinetoEvent& event) {
    if (!event.has_length) return;
    HostOperator one{.begin = event.begin, .end = end_of(event), .thread = event.thread};
    one.record_function = event.record_function;
    one.name = out_.names.number(event.name);
    one.most_elements = event.most_input;
    one.least_elements = event.least_input;
    one.element_bytes = element_bytes(event.dtype);
    if (event.has_collective) {
      one.collective = static_cast<std::uint32_t>(out_.collectives.size());
      out_.collectives.push_back(event.collective);
    }
    out_.operators.push_back(one);
  }

  void take_op(const KinetoEvent& event) {
    if (!event.has_length || event.begin >= latest_op_) return;
    DeviceOp op{.begin = event.begin, .end = end_of(event), .correlation = event.correlation};
    op.name = out_.names.number(event.name);
    op.device = static_cast<std::int32_t>(std::clamp<std::int64_t>(event.device, 0, 1 << 16));
    const std::int64_t stream = event.stream >= 0 ? event.stream : event.thread;
    op.stream = static_cast<std::int32_t>(std::clamp<std::int64_t>(stream, INT32_MIN, INT32_MAX));
    op.bytes = event.bytes;
    op.work = event.category == KinetoCategory::copy  ? DeviceWork::copy
              : event.category == KinetoCategory::set ? DeviceWork::set
                                                      : DeviceWork::kernel;
    if (op.work == DeviceWork::kernel) take_collective(event, op);
    out_.ops.push_back(op);
  }

  void take_collective(const KinetoEvent& event, DeviceOp& op) {
    // Few names come often.
    const auto [told, added] = communication_.try_emplace(op.name);
    if (added) told->second = communication_of(event.name, rules_);
    if (!event.has_collective && !told->second) return;
    op.collective = static_cast<std::uint32_t>(out_.collectives.size());
    out_.collectives.push_back(event.collective);
    CollectiveNote& note = out_.collectives.back();
    if (note.kind.empty()) note.kind = told->second.value_or(std::string(collective_kind(event.name)));
  }

  void take_call(const KinetoEvent& event) {
    if (!event.has_length) return;
    if (event.process >= 0) processes_.insert(event.process);
    out_.calls.push_back({event.begin, end_of(event), event.correlation, event.thread, out_.names.number(event.name),
                          host_call_kind(event.name)});
  }

  void take_sync(const KinetoEvent& event) {
    if (event.begin >= latest_op_) return;
    const auto small = [](std::int64_t stream) {
      return static_cast<std::int32_t>(std::clamp<std::int64_t>(stream, -1, INT32_MAX));
    };
    out_.syncs.push_back({.kind = sync_kind(event.name),
                          .begin = event.begin,
                          .end = end_of(event),
                          .correlation = event.correlation,
                          .record_correlation = event.record_correlation,
                          .device = small(event.device),
                          .stream = small(event.stream),
                          .wait_on_stream = small(event.wait_on_stream)});
  }

  void take_flow(const KinetoEvent& event) {
    if (event.begin >= latest_op_ || event.id < 0) return;
    if (event.phase == 's') starts_[{event.thread, event.begin}] = event.id;
    if (event.phase == 'f') ends_[{event.thread, event.begin}] = event.id;
  }

  void take_arrow(const KinetoEvent& event) {
    if (event.phase == 's') arrows_[event.id].first = {event.thread, event.begin};
    if (event.phase == 'f') arrows_[event.id].second = {event.thread, event.begin};
  }

  void keep_arrows() {
    for (const auto& [id, ends] : arrows_) {
      if (ends.first && ends.second) out_.arrows.push_back({*ends.first, *ends.second});
    }
  }

  /// Where events have no correlations, flows between them tell the same.
  void join_by_flows() {
    const auto lacks = [](const auto& event) { return event.correlation == kNoCorrelation; };
    if (out_.ops.empty() || !std::ranges::all_of(out_.ops, lacks)) return;
    for (DeviceOp& op : out_.ops) {
      const auto found = ends_.find({op.stream, op.begin});
      if (found != ends_.end()) op.correlation = found->second;
    }
    for (HostCall& call : out_.calls) {
      const auto found = starts_.lower_bound({call.thread, call.begin});
      const bool inside =
          found != starts_.end() && found->first.first == call.thread && found->first.second <= call.end;
      if (inside) call.correlation = found->second;
    }
  }

  DeviceTrace out_;
  TimeWindow window_;
  std::int64_t latest_op_ = INT64_MAX;
  std::vector<CommunicationRule> rules_;
  std::optional<std::int32_t> device_;
  RecordFault negative_;
  std::set<std::int64_t> processes_;                                             // of calls
  std::unordered_map<std::uint32_t, std::optional<std::string>> communication_;  // by name
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> starts_, ends_;  // flows by thread and time
  using ArrowEnd = std::optional<BackwardArrow::Place>;
  std::map<std::int64_t, std::pair<ArrowEnd, ArrowEnd>> arrows_;  // by id
};

void note_mixed_steps(TraceOutline& out) {
  RecordFault mixed;
  for (std::size_t i = 1; i < out.steps.size(); ++i) {
    const MarkedStep &before = out.steps[i - 1], &step = out.steps[i];
    if (step.window.begin + kRounding < before.window.end || step.number == before.number) {
      mixed.add(fmt::format("{}{}", kStepMark, step.number));
    }
  }
  mixed.tell(out.notes, "marks of steps overlap the one before or have its number", ": the file may mix runs");
}

std::vector<TraceOutline> split_by_device(TraceOutline outline) {
  const std::vector<std::int32_t> devices = devices_of_ranks(outline.kernels_of_device);
  if (devices.size() < 2) return {std::move(outline)};
  std::vector<TraceOutline> out(devices.size(), outline);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out[i].device = devices[i];
    if (i > 0) out[i].rank = -1;
    if (out[i].world < std::ssize(devices)) out[i].world = 0;
  }
  out.front().notes.push_back(fmt::format("'{}' has work of {} devices, each of which is taken as a rank of its own.",
                                          outline.file, devices.size()));
  return out;
}

}  // namespace

TraceOutline parse_kineto_outline(ByteSource source, const std::string& name, const TellImport& tell) {
  TraceOutline out;
  out.file = name;
  out.has_device = false;
  std::int64_t first = INT64_MAX, first_positive = INT64_MAX;
  const auto take = [&](const KinetoEvent& event) {
    if (event.has_begin && event.has_length) {
      first = std::min(first, event.begin);
      if (event.begin > 0) first_positive = std::min(first_positive, event.begin);
    }
    if (event.on_device()) {
      out.has_device = true;
      if (event.category == KinetoCategory::kernel) ++out.kernels_of_device[event.device];
    }
    if (event.on_device() || !event.has_begin || !event.has_length || !event.name.starts_with(kStepMark)) return;
    MarkedStep step{.window = {event.begin, event.begin + event.length}, .thread = event.thread};
    const std::string_view digits = std::string_view(event.name).substr(kStepMark.size());
    const auto number = number_in<std::int64_t>(digits);
    step.number = number.value_or(0);
    if (number) out.steps.push_back(step);
  };
  out.events = for_each_kineto_event(std::move(source), name, wanted_in_outline, tell, take, &out);
  sort_steps(out.steps);
  note_mixed_steps(out);
  // A time at 0 is none if all others are far from it.
  if (first_positive != INT64_MAX && first_positive > kFarFromZero) first = first_positive;
  out.begin = first == INT64_MAX ? 0 : first;
  if (out.rank < 0) out.rank = rank_in_name(std::filesystem::path(name).filename().string());
  return out;
}

DeviceTrace parse_kineto_events(ByteSource source, const TraceOutline& outline, const std::optional<MarkedStep>& step,
                                const TellImport& tell) {
  StepEvents events(outline, step);
  const auto wanted = [](KinetoCategory category) { return category != KinetoCategory::other; };
  for_each_kineto_event(std::move(source), outline.file, wanted, tell,
                        [&](const KinetoEvent& event) { events.take(event); });
  return std::move(events).finish();
}

const TraceReader kKinetoReader = {
    .name = "kineto",
    .reads =
        [](std::string_view head) {
          const std::size_t first = head.find_first_not_of(" \t\r\n");
          if (first == std::string::npos || (head[first] != '{' && head[first] != '[')) return false;
          // A message of Chakra's as long as a bracket's code begins with the tag of a field: JSON doesn't go on so.
          const std::size_t second = head.find_first_not_of(" \t\r\n", first + 1);
          const std::string_view allowed = head[first] == '{' ? "\"}" : "{]";
          return second == std::string::npos || allowed.find(head[second]) != std::string_view::npos;
        },
    .open =
        [](const std::vector<std::filesystem::path>& files, const TellImport& tell) {
          std::vector<RankTrace> traces;
          for (const std::filesystem::path& file : files) {
            for (TraceOutline& outline :
                 split_by_device(parse_kineto_outline(open_text_file(file, kTrace).source, file.string(), tell))) {
              traces.push_back(
                  {std::move(outline), [tell](const auto& outline, const auto& step, TraceChannels& channels) {
                     DeviceTrace events =
                         parse_kineto_events(open_text_file(outline.file, kTrace).source, outline, step, tell);
                     if (!outline.execution_trace.empty()) events.data = read_execution_trace(outline.execution_trace);
                     return recover_step(events, step, channels);
                   }});
            }
          }
          return traces;
        }};

}  // namespace weft::inspect
