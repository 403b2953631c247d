#include "inspect/import/kineto_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/parse_number.h"
#include "inspect/formats/json_pull.h"
#include "inspect/import/kineto_event.h"
#include "inspect/import/trace_reader.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kTellEvery = 1 << 16;  // events
constexpr std::string_view kStepMark = "ProfilerStep#";
constexpr std::int64_t kMostWorld = 1 << 24;
constexpr std::string_view kTrace = "the trace";  // in messages

/// Calls `take(event)` for each event of a file and `group(in)` for its part distributedInfo.
template <class Take, class Info>
std::int64_t for_each_event(ByteSource source, const std::string& name, WantedCategories wanted, const TellEvents& tell,
                            Take take, Info info) {
  JsonPull in(std::move(source), name);
  KinetoEvent event;
  std::int64_t events = 0;
  bool any = false;
  const auto read_events = [&] {
    any = true;
    in.open_array();
    while (in.next_item()) {
      read_kineto_event(in, wanted, event);
      if (++events % kTellEvery == 0 && tell) tell(events);
      if (wanted(event.category)) take(event);
    }
  };
  if (in.next_byte() == '[') {
    read_events();
  } else {
    in.open_object();
    for (std::string_view key; in.next_key(key);) {
      if (key == "traceEvents") {
        read_events();
      } else if (key == "distributedInfo") {
        info(in);
      } else {
        in.skip();
      }
    }
  }
  in.finish();
  if (!any) {
    throw UserError(fmt::format("'{}' has no \"traceEvents\"", name), "a trace of PyTorch's profiler",
                    "export it with export_chrome_trace()");
  }
  return events;
}

void read_groups(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '[') return in.skip();
  in.open_array();
  while (in.next_item()) {
    if (in.next_byte() != '{') {
      in.skip();
      continue;
    }
    ProcessGroup group;
    in.open_object();
    for (std::string_view key; in.next_key(key);) {
      if (key == "pg_name") {
        group.name = loose_text(in);
      } else if (key == "pg_desc") {
        group.description = loose_text(in);
      } else if (key == "pg_size") {
        group.size = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostWorld);
      } else if (key == "ranks") {
        group.ranks = loose_ranks(in);
      } else {
        in.skip();
      }
    }
    if (group.size == 0) group.size = static_cast<std::int64_t>(group.ranks.size());
    out.groups.push_back(std::move(group));
  }
}

void read_distributed_info(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    if (key == "rank") {
      out.rank = std::clamp<std::int64_t>(loose_integer(in, -1), -1, kMostWorld);
    } else if (key == "world_size") {
      out.world = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostWorld);
    } else if (key == "pg_config") {
      read_groups(in, out);
    } else {
      in.skip();
    }
  }
}

bool wanted_in_outline(KinetoCategory category) {
  return category == KinetoCategory::user_mark || category == KinetoCategory::kernel ||
         category == KinetoCategory::copy || category == KinetoCategory::set || category == KinetoCategory::unnamed;
}

bool wanted_in_step(KinetoCategory category) {
  return category != KinetoCategory::other;
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

bool before(std::int64_t a, std::int64_t b) {
  return a < b;
}

class StepEvents {
 public:
  StepEvents(const TraceOutline& outline, const std::optional<MarkedStep>& step) {
    out_.file = outline.file;
    out_.rank = outline.rank;
    out_.world = outline.world;
    out_.groups = outline.groups;
    if (!step) return;
    window_ = step->window;
    latest_op_ = step->latest_work;
  }

  void take(const KinetoEvent& event) {
    if (!event.has_begin || event.begin < window_.begin) return take_earlier(event);
    if (event.category == KinetoCategory::flow) return take_flow(event);
    if (event.phase != 'X' && event.phase != '\0') return;
    if (event.on_device()) return take_op(event);
    if (event.category == KinetoCategory::sync) return take_sync(event);
    if (event.begin >= window_.end) return;
    if (event.category == KinetoCategory::call) return take_call(event);
    if (tells_something(event)) take_mark(event);
  }

  DeviceTrace finish() && {
    std::ranges::sort(out_.ops, before, &DeviceOp::begin);
    std::ranges::stable_sort(out_.calls, before, &HostCall::begin);
    std::ranges::sort(out_.syncs, before, &SyncRecord::begin);
    std::ranges::sort(out_.marks, [](const HostMark& a, const HostMark& b) {
      return std::tuple(a.begin, -a.end, a.thread, a.name) < std::tuple(b.begin, -b.end, b.thread, b.name);
    });
    join_by_flows();
    return std::move(out_);
  }

 private:
  struct FlowEnd {
    std::int64_t id, time, thread;
  };

  static std::int64_t end_of(const KinetoEvent& event) { return event.begin + event.length; }

  // A mark may have begun before the step that it covers.
  void take_earlier(const KinetoEvent& event) {
    if (event.has_begin && event.has_length && tells_something(event) && end_of(event) > window_.begin) {
      take_mark(event);
    }
  }

  void take_mark(const KinetoEvent& event) {
    if (event.name.starts_with(kStepMark)) return;
    out_.marks.push_back({event.begin, end_of(event), event.thread, out_.names.number(event.name)});
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
    if (op.work == DeviceWork::kernel &&
        (event.has_collective || device_class(event.name) == DeviceClass::communication)) {
      op.collective = static_cast<std::uint32_t>(out_.collectives.size());
      out_.collectives.push_back(event.collective);
      CollectiveNote& note = out_.collectives.back();
      if (note.kind.empty()) note.kind = std::string(collective_kind(event.name));
    }
    out_.ops.push_back(op);
  }

  void take_call(const KinetoEvent& event) {
    if (!event.has_length) return;
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
    if (event.phase == 's') starts_.push_back({event.id, event.begin, event.thread});
    if (event.phase == 'f') ends_.push_back({event.id, event.begin, event.thread});
  }

  /// Where events have no correlations, arrows between them tell the same.
  void join_by_flows() {
    const auto lacks = [](const auto& event) { return event.correlation == kNoCorrelation; };
    if (out_.ops.empty() || !std::ranges::all_of(out_.ops, lacks)) return;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> by_start, by_end;
    for (const FlowEnd& end : starts_) by_start[{end.thread, end.time}] = end.id;
    for (const FlowEnd& end : ends_) by_end[{end.thread, end.time}] = end.id;
    for (DeviceOp& op : out_.ops) {
      const auto found = by_end.find({op.stream, op.begin});
      if (found != by_end.end()) op.correlation = found->second;
    }
    for (HostCall& call : out_.calls) {
      const auto found = by_start.lower_bound({call.thread, call.begin});
      const bool inside =
          found != by_start.end() && found->first.first == call.thread && found->first.second <= call.end;
      if (inside) call.correlation = found->second;
    }
  }

  DeviceTrace out_;
  TimeWindow window_;
  std::int64_t latest_op_ = INT64_MAX;
  std::vector<FlowEnd> starts_, ends_;
};

}  // namespace

TraceOutline parse_kineto_outline(ByteSource source, const std::string& name, const TellEvents& tell) {
  TraceOutline out;
  out.file = name;
  std::optional<std::int64_t> first;
  const auto take = [&](const KinetoEvent& event) {
    if (event.has_begin && event.has_length) first = std::min(first.value_or(event.begin), event.begin);
    if (event.on_device()) {
      ++out.device_ops;
      return;
    }
    if (!event.has_begin || !event.has_length || !event.name.starts_with(kStepMark)) return;
    MarkedStep step{.window = {event.begin, event.begin + event.length}, .thread = event.thread};
    const std::string_view digits = std::string_view(event.name).substr(kStepMark.size());
    const auto number = number_in<std::int64_t>(digits);
    step.number = number.value_or(0);
    if (number) out.steps.push_back(step);
  };
  out.events = for_each_event(std::move(source), name, wanted_in_outline, tell, take,
                              [&](JsonPull& in) { read_distributed_info(in, out); });
  sort_steps(out.steps);
  out.begin = first.value_or(0);
  if (out.rank < 0) out.rank = rank_in_name(std::filesystem::path(name).filename().string());
  return out;
}

DeviceTrace parse_kineto_events(ByteSource source, const TraceOutline& outline, const std::optional<MarkedStep>& step,
                                const TellEvents& tell) {
  StepEvents events(outline, step);
  for_each_event(
      std::move(source), outline.file, wanted_in_step, tell, [&](const KinetoEvent& event) { events.take(event); },
      [](JsonPull& in) { in.skip(); });
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
            TellEvents told;
            if (tell) told = [tell, name = file.string()](std::int64_t events) { tell(name, events); };
            traces.push_back({parse_kineto_outline(open_text_file(file, kTrace).source, file.string(), told),
                              [told](const auto& outline, const auto& step, TraceChannels& channels) {
                                return recover_step(parse_kineto_events(open_text_file(outline.file, kTrace).source,
                                                                        outline, step, told),
                                                    step, channels);
                              }});
          }
          return traces;
        }};

}  // namespace weft::inspect
