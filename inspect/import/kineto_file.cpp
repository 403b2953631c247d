#include "inspect/import/kineto_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/formats/json_pull.h"
#include "inspect/import/trace_import.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kTellEvery = 1 << 16;  // events
constexpr std::string_view kStepMark = "ProfilerStep#";
constexpr std::int64_t kMostWorld = 1 << 24;
constexpr std::string_view kTrace = "the trace";  // in messages

constexpr double kMostMicroseconds = 4e15;  // so that sums of two times fit into 63 bits of nanoseconds
constexpr std::size_t kMostRanksOfGroup = 1 << 20;

enum class KinetoCategory : std::uint8_t {
  other,
  kernel,
  copy,
  set,
  call,  // of the runtime or the driver
  sync,
  user_mark,
  cpu_op,
  flow,     // from a call to what it launched
  unnamed,  // of another program than PyTorch: work of a device if its arguments name a stream, as for HTA
};

/// Fields that an event lacks keep what clear() gives them.
struct KinetoEvent {
  char phase = 0;  // 'X', 's', 'f', …; 0: none given
  KinetoCategory category = KinetoCategory::other;
  bool has_category = false, has_begin = false, has_length = false;
  std::string name;
  std::int64_t begin = 0, length = 0;
  std::int64_t thread = 0;
  std::int64_t id = -1;  // of a flow
  // Of args; -1 and 0: absent.
  std::int64_t correlation = kNoCorrelation, record_correlation = kNoCorrelation;
  std::int64_t device = 0, stream = -1, wait_on_stream = -1;
  double bytes = 0;
  bool has_collective = false;
  CollectiveNote collective;
  double in_elements = 0, out_elements = 0;
  std::string dtype;

  void clear() {
    std::string kept = std::move(name);  // its memory
    *this = KinetoEvent();
    kept.clear();
    name = std::move(kept);
  }
  bool on_device() const {
    return category == KinetoCategory::kernel || category == KinetoCategory::copy || category == KinetoCategory::set ||
           (category == KinetoCategory::unnamed && stream >= 0);
  }
};

/// Which events a reader wants whole. Of the others only the category is read.
using WantedCategories = bool (*)(KinetoCategory);

KinetoCategory category_of(std::string_view text) {
  const std::string lower = lower_ascii(text);
  constexpr std::array<std::pair<std::string_view, KinetoCategory>, 20> kKnown = {
      {{"kernel", KinetoCategory::kernel},
       {"gpu_memcpy", KinetoCategory::copy},
       {"memcpy", KinetoCategory::copy},
       {"gpu_memset", KinetoCategory::set},
       {"memset", KinetoCategory::set},
       {"cuda_runtime", KinetoCategory::call},
       {"cuda_driver", KinetoCategory::call},
       {"runtime", KinetoCategory::call},
       {"hip_runtime", KinetoCategory::call},
       {"cuda_sync", KinetoCategory::sync},
       {"user_annotation", KinetoCategory::user_mark},
       {"cpu_op", KinetoCategory::cpu_op},
       {"operator", KinetoCategory::cpu_op},
       {"ac2g", KinetoCategory::flow},
       {"python_function", KinetoCategory::other},
       {"gpu_user_annotation", KinetoCategory::other},
       {"fwdbwd", KinetoCategory::other},
       {"cuda_event", KinetoCategory::other},
       {"overhead", KinetoCategory::other},
       {"trace", KinetoCategory::other}}};
  const auto found = std::ranges::find(kKnown, lower, &std::pair<std::string_view, KinetoCategory>::first);
  return found == kKnown.end() ? KinetoCategory::unnamed : found->second;
}

/// Takes the next value, if it is a number or a text, as text.
std::string_view scalar(JsonPull& in) {
  const char first = in.next_byte();
  if (first == '"') return in.text();
  if (first != '{' && first != '[') return in.word();
  in.skip();
  return {};
}

double number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::isfinite(value) && value >= 0 ? value : 0;
}

double element_bytes(std::string_view dtype) {
  const std::string lower = lower_ascii(dtype);
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  if (has("double") || has("long") || has("64")) return 8;
  if (has("bfloat16") || has("half") || has("short") || has("16")) return 2;
  if (has("byte") || has("char") || has("bool") || has("int8") || has("float8")) return 1;
  return 4;
}

/// Nanoseconds of microseconds as Kineto writes them: with decimals, an exponent or a sign.
std::int64_t nanoseconds_of(JsonPull& in) {
  const std::string_view word = scalar(in);
  const bool negative = word.starts_with('-');
  if (const auto plain = plain_nanoseconds(word.substr(negative ? 1 : 0))) {
    if (*plain >= 1000 * static_cast<std::int64_t>(kMostMicroseconds)) {
      in.refuse(fmt::format("the time {}", word), "microseconds below 4e15");
    }
    return negative ? -*plain : *plain;
  }
  const auto number = number_in<double>(word);
  if (!number || !(std::abs(*number) < kMostMicroseconds)) {
    in.refuse(fmt::format("found {} where a time stands", word), "microseconds");
  }
  return std::llround(*number * 1000);
}

/// A whole number as it stands or in quotes; `otherwise` for any other value.
std::int64_t loose_integer(JsonPull& in, std::int64_t otherwise) {
  return number_in<std::int64_t>(scalar(in)).value_or(otherwise);
}

/// A list of whole numbers, or the text of one: "[0, 1]". Anything else is no rank.
std::vector<std::int64_t> loose_ranks(JsonPull& in) {
  std::set<std::int64_t> ranks;
  const auto add = [&](std::string_view text) {
    const std::int64_t rank = number_in<std::int64_t>(text).value_or(-1);
    if (rank >= 0 && rank <= kMostWorld && ranks.size() < kMostRanksOfGroup) ranks.insert(rank);
  };
  if (in.next_byte() == '[') {
    read_list(in, [&] { add(scalar(in)); });
  } else {
    constexpr std::string_view kDigits = "0123456789";
    const std::string_view text = scalar(in);
    for (std::size_t at = 0; (at = text.find_first_of(kDigits, at)) != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
      add(text.substr(at, end - at));
      at = end;
    }
  }
  return {ranks.begin(), ranks.end()};
}

/// A text, or the word of a number; "" of anything else. Bytes that aren't UTF-8 become '?'.
std::string loose_text(JsonPull& in) {
  return utf8_or_ascii(std::string(scalar(in)));
}

void take_argument(JsonPull& in, std::string_view key, KinetoEvent& event) {
  const auto integer = [&](std::int64_t& of) { of = loose_integer(in, of); };
  const auto noted = [&](auto read) {
    event.has_collective = true;
    read();
  };
  CollectiveNote& note = event.collective;
  if (key == "correlation") return integer(event.correlation);
  if (key == "stream") return integer(event.stream);
  if (key == "device") return integer(event.device);
  if (key == "wait_on_stream") return integer(event.wait_on_stream);
  if (key == "wait_on_cuda_event_record_corr_id") return integer(event.record_correlation);
  if (key == "Collective name") return noted([&] { note.kind = std::string(collective_kind(scalar(in))); });
  if (key == "In msg nelems") return noted([&] { event.in_elements = number_of(scalar(in)); });
  if (key == "Out msg nelems") return noted([&] { event.out_elements = number_of(scalar(in)); });
  if (key == "Group size")
    return noted([&] { note.group_size = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostWorld); });
  if (key == "Process Group Name") return noted([&] { note.group = loose_text(in); });
  if (key == "Process Group Description") return noted([&] { note.description = loose_text(in); });
  if (key == "Process Group Ranks") return noted([&] { note.ranks = loose_ranks(in); });
  if (key == "Seq") return noted([&] { note.sequence = loose_integer(in, -1); });
  if (key == "Src Rank" || key == "Dst Rank") return noted([&] { note.peer = loose_integer(in, -1); });
  if (key == "bytes") {
    event.bytes = number_of(scalar(in));
  } else if (key == "dtype") {
    event.dtype = loose_text(in);
  } else {
    in.skip();
  }
}

void take_arguments(JsonPull& in, KinetoEvent& event) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) take_argument(in, key, event);
  event.collective.bytes = std::max(event.in_elements, event.out_elements) * element_bytes(event.dtype);
}

/// Reads one event by every spelling that PyTorch's profiler has had into `event`, which is cleared first.
void read_kineto_event(JsonPull& in, WantedCategories wanted, KinetoEvent& event) {
  event.clear();
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    // The category mostly comes early, and tells then that the rest doesn't matter.
    if (event.has_category && !wanted(event.category)) {
      in.skip();
      continue;
    }
    if (key == "cat") {
      event.category = category_of(scalar(in));
      event.has_category = true;
    } else if (key == "ph") {
      const std::string_view phase = scalar(in);
      event.phase = phase.empty() ? '\0' : phase[0];
    } else if (key == "name") {
      event.name = scalar(in);
    } else if (key == "ts") {
      event.begin = nanoseconds_of(in);
      event.has_begin = true;
    } else if (key == "dur") {
      event.length = std::max<std::int64_t>(0, nanoseconds_of(in));
      event.has_length = true;
    } else if (key == "tid") {
      event.thread = loose_integer(in, 0);
    } else if (key == "id") {
      event.id = loose_integer(in, -1);
    } else if (key == "args") {
      take_arguments(in, event);
    } else {
      in.skip();
    }
  }
  event.name = utf8_or_ascii(std::move(event.name));
}

/// Calls `take(event)` for each event of a file and `group(in)` for its part distributedInfo.
template <class Take, class Info>
std::int64_t for_each_event(ByteSource source, const std::string& name, WantedCategories wanted, const TellImport& tell,
                            Take take, Info info) {
  JsonPull in(std::move(source), name);
  KinetoEvent event;
  std::int64_t events = 0;
  bool any = false;
  const auto read_events = [&] {
    any = true;
    read_list(in, [&] {
      read_kineto_event(in, wanted, event);
      if (++events % kTellEvery == 0 && tell) tell(name, events);
      if (wanted(event.category)) take(event);
    });
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

void read_group(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '{') return in.skip();
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

void read_distributed_info(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    // A value that is no number is ignored.
    const auto number = [&](const char* member, std::int64_t& of, std::int64_t least) {
      const auto found = number_in<std::int64_t>(scalar(in));
      if (!found) return;
      if (*found < least || *found > kMostWorld) {
        in.refuse(fmt::format("distributedInfo.{} is {}", member, *found),
                  fmt::format("from {} to {}", least, kMostWorld));
      }
      of = *found;
    };
    if (key == "rank") {
      number("rank", out.rank, 0);
    } else if (key == "world_size") {
      number("world_size", out.world, 1);
    } else if (key == "pg_config" && in.next_byte() == '[') {
      read_list(in, [&] { read_group(in, out); });
    } else {
      in.skip();
    }
  }
  if (out.world > 0 && out.rank >= out.world)
    in.refuse(fmt::format("distributedInfo has rank {} of {}", out.rank, out.world), "a rank below world_size");
}

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
    std::ranges::sort(out_.ops, {}, &DeviceOp::begin);
    std::ranges::stable_sort(out_.calls, {}, &HostCall::begin);
    std::ranges::sort(out_.syncs, {}, &SyncRecord::begin);
    std::ranges::sort(out_.marks, {},
                      [](const HostMark& mark) { return std::tuple(mark.begin, -mark.end, mark.thread, mark.name); });
    join_by_flows();
    return std::move(out_);
  }

 private:
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
    if (event.phase == 's') starts_[{event.thread, event.begin}] = event.id;
    if (event.phase == 'f') ends_[{event.thread, event.begin}] = event.id;
  }

  /// Where events have no correlations, arrows between them tell the same.
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
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> starts_, ends_;  // flows by thread and time
};

}  // namespace

TraceOutline parse_kineto_outline(ByteSource source, const std::string& name, const TellImport& tell) {
  TraceOutline out;
  out.file = name;
  std::optional<std::int64_t> first;
  const auto take = [&](const KinetoEvent& event) {
    if (event.has_begin && event.has_length) first = std::min(first.value_or(event.begin), event.begin);
    if (event.on_device() || !event.has_begin || !event.has_length || !event.name.starts_with(kStepMark)) return;
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
                                const TellImport& tell) {
  StepEvents events(outline, step);
  const auto wanted = [](KinetoCategory category) { return category != KinetoCategory::other; };
  for_each_event(
      std::move(source), outline.file, wanted, tell, [&](const KinetoEvent& event) { events.take(event); },
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
            traces.push_back({parse_kineto_outline(open_text_file(file, kTrace).source, file.string(), tell),
                              [tell](const auto& outline, const auto& step, TraceChannels& channels) {
                                return recover_step(parse_kineto_events(open_text_file(outline.file, kTrace).source,
                                                                        outline, step, tell),
                                                    step, channels);
                              }});
          }
          return traces;
        }};

}  // namespace weft::inspect
