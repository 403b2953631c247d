#include "inspect/formats/recorded_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "graph/grid.h"
#include "inspect/drawing/colors.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/json_pull.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kMostRecordedRanks = 1 << 20;
constexpr std::int64_t kLatestRecorded = std::int64_t{1} << 62;  // nanoseconds, steps
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;       // of one task
constexpr std::int64_t kMostSum = std::int64_t{1} << 62;
constexpr std::size_t kMostStreams = 900;  // their rows stand before the row of steps

constexpr std::uint64_t kLeastEvent = 48;                     // bytes of text
constexpr std::uint64_t kMostTimes = std::uint64_t{1} << 27;  // 2 GiB
constexpr plan::TaskTime kNoTime{INT64_MAX, INT64_MIN};

/// A list of up to N integers, each from 0 to its `most`. Returns how many there are.
template <std::size_t N>
std::size_t read_numbers(JsonPull& in, std::array<std::int64_t, N>& numbers, const std::array<std::int64_t, N>& most,
                         std::string_view too_many) {
  std::size_t count = 0;
  read_list(in, [&] {
    if (count == N) in.refuse(too_many, fmt::format("{} at most", N));
    numbers[count] = in.integer(0, most[count]);
    ++count;
  });
  return count;
}

/// Reads the part "weft" of a trace, which has all of a recording but the times of tasks, and the events, which have
/// these. Refuses tasks that are named twice and edges against their order; events of other tasks, ranks and steps,
/// tasks that run twice or never, times outside of their step, and more of them than a text of `most_bytes` has room
/// for, so that a short file can't ask for the memory of a long one.
class RecordingReader {
 public:
  RecordingReader(ByteSource source, std::uint64_t most_bytes, const std::string& name)
      : in_(std::move(source), name), open_(std::min(most_bytes / kLeastEvent, kMostTimes)), name_(name) {}

  plan::Recording read() && {
    bool any = false;
    const auto read_events_of = [&] {
      if (any) return read_events();
      throw UserError(
          fmt::format("'{}' has events, but no \"weft\" before them: another program's trace, or an old one", name_),
          "a trace that Weft wrote", "write the trace again with this version of Weft");
    };
    read_object(in_, kAllMembers, JsonMember{"weft", [&] { read_table(), any = true; }},
                JsonMember{"traceEvents", read_events_of});
    in_.finish();
    return std::move(out_);
  }

 private:
  struct Event {
    bool slice = false, annotation = false;
    bool known = false;  // its name is a task's
    std::uint32_t task = 0;
    std::int64_t pid = 0, begin = 0, length = 0, step = -1, waited = 0, grown = 0;
  };

  void read_table() {
    bool versioned = false, origin = false, streams = false, tasks = false, timed_tasks = false;
    const bool at_once = true;
    const auto after = [&](const bool& ready, std::string_view name, auto read) {
      return JsonMember{name, [&, name, read] {
                          if (!versioned)
                            in_.refuse(fmt::format("\"{}\" before \"version\"", name), "the version first");
                          if (!ready) {
                            in_.refuse(fmt::format("\"{}\" too early", name),
                                       "origin_ns, streams, tasks, edges, ranks in order");
                          }
                          read();
                        }};
    };
    read_object(in_, 10, JsonMember{"version", [&] { read_version(), versioned = true; }},
                after(at_once, "policy", [&] { out_.policy = in_.kept_text(); }),
                after(at_once, "world", [&] { out_.world = static_cast<int>(in_.integer(1, kMostRecordedRanks)); }),
                after(at_once, "state_bytes", [&] { out_.state_bytes = in_.integer(0, kMostSum); }),
                after(at_once, "plan_fingerprint", [&] { read_fingerprint(); }),
                after(at_once, "origin_ns",
                      [&] { origin_ = in_.integer(INT64_MIN, INT64_MAX), origin = true, timed_tasks = tasks; }),
                after(at_once, "streams", [&] { read_list(in_, [&] { read_stream(); }), streams = true; }),
                after(streams, "tasks", [&] { read_tasks(), tasks = true, timed_tasks = origin; }),
                after(tasks, "edges", [&] { read_list(in_, [&] { read_edge(); }); }),
                after(timed_tasks, "ranks", [&] { read_list(in_, [&] { read_rank(); }); }),
                after(at_once, "grid", [&] { read_grid(); }));
    if (!out_.ranks.empty() && out_.ranks.back().rank >= out_.world)
      in_.refuse(fmt::format("rank {} of {}", out_.ranks.back().rank, out_.world), "ranks below \"world\"");
  }

  void read_version() {
    const std::int64_t found = in_.integer(0, INT64_MAX);
    if (found != kTraceVersion) {
      in_.refuse(fmt::format("a trace of version {}", found), fmt::format("version {}", kTraceVersion));
    }
  }

  void read_fingerprint() {
    const std::string text = in_.kept_text();
    const auto fingerprint = parse_hex_fingerprint(text);
    if (!fingerprint) in_.refuse(fmt::format("the fingerprint \"{}\"", text), kHexFingerprint);
    out_.plan_fingerprint = *fingerprint;
  }

  void read_grid() {
    graph::Grid grid;
    std::int64_t ranks = 1;
    const auto size = [&](graph::Axis axis) {
      return [&, axis] {
        // Of at most kMostRecordedRanks each, so that the product fits.
        grid.on(axis) = in_.integer(1, kMostRecordedRanks);
        if ((ranks *= grid.on(axis)) > kMostRecordedRanks) in_.refuse("a grid of more than 1048576 ranks", "fewer");
      };
    };
    read_object(in_, 5, JsonMember{"x", size(graph::Axis::x)}, JsonMember{"y", size(graph::Axis::y)},
                JsonMember{"z", size(graph::Axis::z)}, JsonMember{"data", size(graph::Axis::data)},
                JsonMember{"order", [&] { read_order(grid); }}, JsonMember{"pipe", size(graph::Axis::pipe)},
                JsonMember{"context", [&] { grid.context = in_.integer(1, kMostRecordedRanks); }},
                JsonMember{"expert", [&] { grid.expert = in_.integer(1, kMostRecordedRanks); }});
    if (grid.z % grid.context != 0) in_.refuse(fmt::format("context {} of z {}", grid.context, grid.z), "a divisor");
    if (grid.z % grid.expert != 0) in_.refuse(fmt::format("expert {} of z {}", grid.expert, grid.z), "a divisor");
    out_.grid = grid;
  }

  void read_order(graph::Grid& grid) {
    std::size_t at = 0;
    read_list(in_, [&] {
      const graph::Axis axis = read_name(in_, graph::Axis::data);
      const auto known = grid.order.begin() + static_cast<std::ptrdiff_t>(std::min(at, grid.order.size()));
      if (at >= grid.order.size() || std::find(grid.order.begin(), known, axis) != known) {
        in_.refuse("an axis that stands twice", "each axis once");
      }
      grid.order[at++] = axis;
    });
    if (at != grid.order.size()) in_.refuse("an order of fewer than four axes", "each axis once");
  }

  void read_stream() {
    if (out_.streams.size() == kMostStreams) in_.refuse("more than 900 streams", "fewer");
    plan::RecordedStream& stream = out_.streams.emplace_back();
    read_object(in_, 2, JsonMember{"name", [&] { stream.name = in_.kept_text(); }},
                JsonMember{"compute", [&] { stream.compute = in_.boolean(); }},
                JsonMember{"local", [&] { stream.local = in_.boolean(); }});
  }

  void read_tasks() {
    read_list(in_, [&] {
      if (out_.tasks.size() == UINT32_MAX) in_.refuse("more than 4294967295 tasks", "fewer");
      out_.tasks.push_back(read_task());
    });
    task_by_name_.reserve(out_.tasks.size());
    for (std::size_t i = 0; i < out_.tasks.size(); ++i) {
      if (!task_by_name_.emplace(out_.tasks[i].name, static_cast<std::uint32_t>(i)).second) {
        in_.refuse(fmt::format("two tasks are called '{}'", out_.tasks[i].name), "each name once");
      }
    }
  }

  plan::RecordedTask read_task() {
    if (out_.streams.empty()) in_.refuse("tasks without streams", "a stream at least");
    plan::RecordedTask task;
    const auto last_stream = static_cast<std::int64_t>(out_.streams.size()) - 1;
    const auto text = [&](std::string& of) { return [&] { of = in_.kept_text(); }; };
    const auto index = [&](std::int32_t& of) {
      return [&] { of = static_cast<std::int32_t>(in_.integer(-1, INT32_MAX)); };
    };
    const auto work = [&](double& of) { return [&] { of = in_.number(); }; };
    read_object(in_, 12, JsonMember{"name", text(task.name)}, JsonMember{"kind", text(task.kind)},
                JsonMember{"style", [&] { task.style = read_style(); }},
                JsonMember{"stream", [&] { task.stream = static_cast<std::uint32_t>(in_.integer(0, last_stream)); }},
                JsonMember{"phase", [&] { task.phase = read_name(in_, graph::Phase::update); }},
                JsonMember{"layer", index(task.layer)}, JsonMember{"micro_batch", index(task.micro_batch)},
                JsonMember{"flops", work(task.flops)}, JsonMember{"bytes", work(task.bytes)},
                JsonMember{"network_bytes", work(task.network_bytes)},
                JsonMember{"allocates", [&] { add_bytes(task.allocates, allocated_); }},
                JsonMember{"frees", [&] { add_bytes(task.frees, freed_); }}, JsonMember{"channel", text(task.channel)},
                JsonMember{"group_size", [&] { task.group_size = in_.integer(0, kMostRecordedRanks); }},
                JsonMember{"reason", text(task.reason)});
    return task;
  }

  graph::KindClass read_style() {
    const std::string_view found = in_.text();
    for (const KindStyle& known : kKindStyles) {
      if (known.name == found) return known.kind;
    }
    in_.refuse(fmt::format("found \"{}\"", found), "a kind as legends name it: GEMM, all-reduce, …");
  }

  // Curves add them up.
  void add_bytes(std::int64_t& bytes, std::int64_t& sum) {
    bytes = in_.integer(0, kMostBytes);
    if ((sum += bytes) > kMostSum) in_.refuse("more scratch bytes than any machine has", "fewer");
  }

  void read_edge() {
    const std::int64_t last = static_cast<std::int64_t>(out_.tasks.size()) - 1;
    std::array<std::int64_t, 5> numbers{};  // from, to, reason, distance, kind
    const std::size_t count =
        read_numbers(in_, numbers, {last, last, static_cast<std::int64_t>(graph::EdgeReason::recorded_order), 1, 1},
                     "an edge of more than five numbers");
    const plan::RecordedEdge edge{.from = static_cast<std::uint32_t>(numbers[0]),
                                  .to = static_cast<std::uint32_t>(numbers[1]),
                                  .kind = static_cast<graph::EdgeKind>(numbers[4]),
                                  .reason = static_cast<graph::EdgeReason>(numbers[2]),
                                  .distance = static_cast<std::uint8_t>(numbers[3])};
    if (count < 2) in_.refuse("an edge of fewer than two numbers", "from and to");
    if (edge.distance == 0 && edge.from >= edge.to) {
      in_.refuse(fmt::format("an edge from '{}' to '{}', which stands before it or is the same",
                             out_.tasks[edge.from].name, out_.tasks[edge.to].name),
                 "edges along the order of tasks: with others they form a cycle");
    }
    out_.edges.push_back(edge);
  }

  void read_rank() {
    plan::RecordedRank& of = out_.ranks.emplace_back();
    read_object(in_, kAllMembers,
                JsonMember{"rank", [&] { of.rank = static_cast<int>(in_.integer(0, kMostRecordedRanks - 1)); }},
                JsonMember{"steps", [&] { read_list(in_, [&] { read_step(of.steps); }); }});
    if (out_.ranks.size() > 1 && of.rank <= out_.ranks[out_.ranks.size() - 2].rank) {
      in_.refuse(fmt::format("rank {} after rank {}", of.rank, out_.ranks[out_.ranks.size() - 2].rank),
                 "ranks that rise");
    }
  }

  void read_step(std::vector<plan::RecordedStep>& steps) {
    std::array<std::int64_t, 3> numbers{};
    const std::size_t count = read_numbers(in_, numbers, {kLatestRecorded, kLatestRecorded, kLatestRecorded},
                                           "a step of more than three numbers");
    plan::RecordedStep step{.step = numbers[0], .begin = 0, .end = 0, .times = {}};
    const bool fits = !__builtin_add_overflow(origin_, numbers[1], &step.begin) &&
                      !__builtin_add_overflow(origin_, numbers[2], &step.end);
    if (count != 3 || !fits || step.end < step.begin) {
      in_.refuse("a step that has no numbers, or ends before it begins", "step, begin and end in nanoseconds");
    }
    if (!steps.empty() && step.step <= steps.back().step) {
      in_.refuse(fmt::format("step {} after step {}", step.step, steps.back().step), "steps that rise");
    }
    steps.push_back(std::move(step));
  }

  void read_events() {
    for (std::size_t i = 0; i < out_.ranks.size(); ++i) {
      rank_index_.emplace(out_.ranks[i].rank, i);
      missing_.emplace_back(out_.ranks[i].steps.size(), out_.tasks.size());
    }
    read_list(in_, [&] { read_event(); });
    for (std::size_t rank = 0; rank < out_.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < out_.ranks[rank].steps.size(); ++i) {
        if (missing_[rank][i] > 0) refuse_missing(out_.ranks[rank], out_.ranks[rank].steps[i]);
      }
    }
  }

  void read_event() {
    Event event;
    std::string unknown;
    bool typed = false;
    // All kinds begin with "ph" as Weft writes them, and only slices matter.
    const auto of_slice = [&](auto read) { return [&, read] { typed && !event.slice ? in_.skip() : read(); }; };
    const auto seen =
        read_object(in_, 1, JsonMember{"ph", [&] { event.slice = in_.text() == "X", typed = true; }},
                    JsonMember{"name", of_slice([&] { find_task(in_.text(), event, unknown); })},
                    JsonMember{"cat", of_slice([&] { event.annotation = in_.text() == "user_annotation"; })},
                    JsonMember{"pid", of_slice([&] { event.pid = in_.integer(1, kMostRecordedRanks); })},
                    JsonMember{"ts", of_slice([&] { event.begin = in_.microseconds(); })},
                    JsonMember{"dur", of_slice([&] { event.length = in_.microseconds(); })},
                    JsonMember{"args", of_slice([&] { read_arguments(event); })});
    if (!event.slice || event.annotation) return;
    seen.require(in_, kAllMembers);
    if (!event.known) in_.refuse(fmt::format("a slice called '{}'", unknown), "the name of one of the file's tasks");
    put(event);
  }

  void find_task(std::string_view name, Event& event, std::string& unknown) {
    // Mostly the task after the last one: no look-up in a large table.
    const auto is = [&](std::size_t task) { return task < out_.tasks.size() && out_.tasks[task].name == name; };
    event.known = is(next_);
    event.task = static_cast<std::uint32_t>(next_);
    for (const std::string_view candidate :
         {name, name.starts_with(kKinetoCollective) ? name.substr(kKinetoCollective.size()) : name}) {
      if (event.known) break;
      const auto found = task_by_name_.find(candidate);
      event.known = found != task_by_name_.end();
      if (event.known) event.task = found->second;
    }
    if (!event.known) unknown = name;
  }

  void read_arguments(Event& event) {
    const auto number = [&](std::int64_t& of) { return [&] { of = in_.integer(0, kLatestRecorded); }; };
    read_object(in_, 0, JsonMember{"step", number(event.step)}, JsonMember{"waited_ns", number(event.waited)},
                JsonMember{"grown_ns", number(event.grown)});
  }

  void put(const Event& event) {
    const auto rank_at = rank_index_.find(static_cast<int>(event.pid - 1));
    if (rank_at == rank_index_.end()) {
      in_.refuse(fmt::format("an event of rank {}", event.pid - 1), "a rank that the file names");
    }
    plan::RecordedRank& rank = out_.ranks[rank_at->second];
    const auto step = std::ranges::lower_bound(rank.steps, event.step, {}, &plan::RecordedStep::step);
    if (step == rank.steps.end() || step->step != event.step) {
      in_.refuse(fmt::format("an event of step {} on rank {}", event.step, rank.rank), "a step that the file names");
    }
    if (step->times.empty()) {
      if (open_ < out_.tasks.size()) {
        in_.refuse("more tasks and steps than the file has room for events", "an event a task and step");
      }
      open_ -= out_.tasks.size();
      step->times.assign(out_.tasks.size(), kNoTime);
    }
    plan::TaskTime& time = step->times[event.task];
    const std::string& name = out_.tasks[event.task].name;
    if (time != kNoTime) {
      in_.refuse(fmt::format("task '{}' runs twice in step {} of rank {}", name, step->step, rank.rank), "once");
    }
    const bool fits = !__builtin_add_overflow(origin_, event.begin, &time.begin) &&
                      !__builtin_add_overflow(time.begin, event.length, &time.end) &&
                      !__builtin_sub_overflow(time.begin, event.waited, &time.begin) &&
                      !__builtin_sub_overflow(time.end, event.grown, &time.end);
    if (!fits || time.begin < step->begin || time.end < time.begin || time.end > step->end) {
      in_.refuse(fmt::format("task '{}' runs outside of step {} of rank {}", name, step->step, rank.rank),
                 "times within the step's");
    }
    --missing_[rank_at->second][static_cast<std::size_t>(step - rank.steps.begin())];
    next_ = event.task + 1 < out_.tasks.size() ? event.task + 1 : 0;
  }

  [[noreturn]] void refuse_missing(const plan::RecordedRank& rank, const plan::RecordedStep& step) const {
    const auto none = std::ranges::find(step.times, kNoTime);
    const auto first = step.times.empty() ? 0 : static_cast<std::size_t>(none - step.times.begin());
    in_.refuse(fmt::format("task '{}' doesn't run in step {} of rank {}", out_.tasks[first].name, step.step, rank.rank),
               "an event for each task, step and rank that the file names");
  }

  JsonPull in_;
  plan::Recording out_;
  std::int64_t origin_ = 0;  // what the times of events count from
  std::unordered_map<std::string_view, std::uint32_t> task_by_name_;
  std::int64_t allocated_ = 0, freed_ = 0;
  std::uint64_t open_;  // times that the rest of the file may hold
  std::unordered_map<int, std::size_t> rank_index_;
  std::vector<std::vector<std::size_t>> missing_;  // by rank and step: tasks without an event
  std::size_t next_ = 0;                           // the task that the next event is likely of
  const std::string name_;
};

}  // namespace

plan::Recording read_recording(const std::filesystem::path& path) {
  OpenedFile file = open_text_file(path, "the trace");
  return RecordingReader(std::move(file.source), file.most_bytes, path.string()).read();
}

plan::Recording parse_recording(std::string_view text, const std::string& name) {
  return RecordingReader(text_source(text), text.size(), name).read();
}

}  // namespace weft::inspect
