#include "inspect/formats/recorded_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "graph/groups.h"
#include "inspect/drawing/colors.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/json_pull.h"

namespace weft {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;  // of one task
constexpr std::int64_t kMostSum = std::int64_t{1} << 62;
constexpr std::size_t kMostStreams = 900;                     // their rows stand before the row of steps
constexpr std::uint64_t kLeastEvent = 48;                     // bytes of text
constexpr std::uint64_t kMostTimes = std::uint64_t{1} << 27;  // 2 GiB
constexpr std::int64_t kLatest = std::int64_t{1} << 62;       // nanoseconds
constexpr const char* kRemake = "write the trace again with this version of Weft";

/// The members of an object, each at most once and some of them at least once.
template <std::size_t N>
class Members {
 public:
  Members(JsonPull& in, const std::array<std::string_view, N>& names) : in_(in), names_(names) { in.open_object(); }

  /// The index of the next known member; N: none is left. Unknown members are passed over.
  std::size_t next() {
    for (std::string_view key; in_.next_key(key);) {
      const auto found = static_cast<std::size_t>(std::ranges::find(names_, key) - names_.begin());
      if (found == N) {
        in_.skip();
        continue;
      }
      if (seen_[found]) in_.refuse(fmt::format("the member \"{}\" stands twice", names_[found]), "each member once");
      seen_[found] = true;
      return found;
    }
    return N;
  }
  bool has(std::size_t index) const { return seen_[index]; }
  /// Refuses unless the members [0, count) were there.
  void require(std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (!seen_[i]) in_.refuse(fmt::format("an object without \"{}\"", names_[i]), "one with it");
    }
  }

 private:
  JsonPull& in_;
  const std::array<std::string_view, N>& names_;
  std::array<bool, N> seen_{};
};

template <class Value, class Name>
Value named_value(JsonPull& in, std::initializer_list<Value> values, const Name& name_of) {
  const std::string_view found = in.text();
  std::string known;
  for (const Value value : values) {
    if (name_of(value) == found) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(value));
  }
  in.refuse(fmt::format("found \"{}\"", found), "one of " + known);
}

/// What stands behind "weft".
class TableReader {
 public:
  TableReader(JsonPull& in, Recording& out) : in_(in), out_(out) {}

  void read() {
    enum { version, policy, world, state_bytes, fingerprint, origin, streams, tasks, edges, ranks, grid, count };
    static constexpr std::array<std::string_view, count> kNames = {
        "version", "policy", "world", "state_bytes", "plan_fingerprint", "origin_ns", "streams",
        "tasks",   "edges",  "ranks", "grid"};
    Members members(in_, kNames);
    for (std::size_t member = members.next(); member != count; member = members.next()) {
      if (member != version && !members.has(version)) {
        in_.refuse(fmt::format("\"{}\" before \"version\"", kNames[member]), "the version first");
      }
      const bool names_tasks = member == edges || member == ranks;
      if ((names_tasks && !members.has(tasks)) || (member == tasks && !members.has(streams)) ||
          (member == ranks && !members.has(origin))) {
        in_.refuse(fmt::format("\"{}\" too early", kNames[member]), "origin_ns, streams, tasks, edges, ranks in order");
      }
      switch (member) {
        case version:
          read_version();
          break;
        case policy:
          out_.policy = in_.kept_text();
          break;
        case world:
          out_.world = static_cast<int>(in_.integer(1, kMostRanks));
          break;
        case state_bytes:
          out_.state_bytes = in_.integer(0, kMostSum);
          break;
        case fingerprint:
          read_fingerprint();
          break;
        case origin:
          origin_ = in_.integer(INT64_MIN, INT64_MAX);
          break;
        case streams:
          read_streams();
          break;
        case tasks:
          read_tasks();
          break;
        case edges:
          read_edges();
          break;
        case ranks:
          read_ranks();
          break;
        case grid:
          read_grid();
          break;
        default:
          break;
      }
    }
    members.require(grid);
  }

  std::int64_t origin() const { return origin_; }
  const std::unordered_map<std::string_view, std::uint32_t>& task_by_name() const { return by_name_; }

 private:
  void read_version() {
    const std::int64_t found = in_.integer(0, INT64_MAX);
    if (found != kTraceVersion) {
      in_.refuse(fmt::format("a trace of version {}", found), fmt::format("version {}", kTraceVersion));
    }
  }

  void read_fingerprint() {
    const std::string text = in_.kept_text();
    const auto [end, error] = std::from_chars(text.data() + std::min<std::size_t>(2, text.size()),
                                              text.data() + text.size(), out_.plan_fingerprint, 16);
    const bool good = error == std::errc() && fmt::format("{:#018x}", out_.plan_fingerprint) == text;
    if (!good) in_.refuse(fmt::format("the fingerprint \"{}\"", text), "0x and 16 hex digits");
  }

  void read_grid() {
    enum { x, y, z, data, order, count };
    static constexpr std::array<std::string_view, count> kNames = {"x", "y", "z", "data", "order"};
    Members members(in_, kNames);
    Grid grid;
    std::int64_t ranks = 1;
    for (std::size_t member = members.next(); member != count; member = members.next()) {
      if (member != order) {
        // Of at most kMostRanks each, so that the product fits.
        const std::int64_t size = in_.integer(1, kMostRanks);
        grid.on(kAxes[member]) = size;
        if ((ranks *= size) > kMostRanks) in_.refuse("a grid of more than 1048576 ranks", "fewer");
        continue;
      }
      in_.open_array();
      std::size_t at = 0;
      for (; in_.next_item(); ++at) {
        const Axis axis =
            named_value(in_, {Axis::x, Axis::y, Axis::z, Axis::data}, [](Axis a) { return to_string(a); });
        const auto known = grid.order.begin() + static_cast<std::ptrdiff_t>(std::min(at, grid.order.size()));
        if (at >= grid.order.size() || std::find(grid.order.begin(), known, axis) != known) {
          in_.refuse("an axis that stands twice", "each axis once");
        }
        grid.order[at] = axis;
      }
      if (at != grid.order.size()) in_.refuse("an order of fewer than four axes", "each axis once");
    }
    members.require(count);
    out_.grid = grid;
  }

  void read_streams() {
    enum { name, compute, count };
    static constexpr std::array<std::string_view, count> kNames = {"name", "compute"};
    in_.open_array();
    while (in_.next_item()) {
      if (out_.streams.size() == kMostStreams) in_.refuse("more than 900 streams", "fewer");
      Members members(in_, kNames);
      RecordedStream& stream = out_.streams.emplace_back();
      for (std::size_t member = members.next(); member != count; member = members.next()) {
        if (member == name) stream.name = in_.kept_text();
        if (member == compute) stream.compute = in_.boolean();
      }
      members.require(count);
    }
  }

  void read_tasks() {
    in_.open_array();
    while (in_.next_item()) {
      if (out_.tasks.size() == UINT32_MAX) in_.refuse("more than 4294967295 tasks", "fewer");
      out_.tasks.push_back(read_task());
    }
    by_name_.reserve(out_.tasks.size());
    for (std::size_t i = 0; i < out_.tasks.size(); ++i) {
      if (!by_name_.emplace(out_.tasks[i].name, static_cast<std::uint32_t>(i)).second) {
        in_.refuse(fmt::format("two tasks are called '{}'", out_.tasks[i].name), "each name once");
      }
    }
  }

  RecordedTask read_task() {
    enum {
      name,
      kind,
      style,
      stream,
      phase,
      layer,
      batch,
      flops,
      bytes,
      network,
      allocates,
      frees,
      channel,
      size,
      reason,
      count
    };
    static constexpr std::array<std::string_view, count> kNames = {
        "name",  "kind",          "style",     "stream", "phase",   "layer",      "micro_batch", "flops",
        "bytes", "network_bytes", "allocates", "frees",  "channel", "group_size", "reason"};
    if (out_.streams.empty()) in_.refuse("tasks without streams", "a stream at least");
    Members members(in_, kNames);
    RecordedTask task;
    const auto number32 = [&] { return static_cast<std::int32_t>(in_.integer(-1, INT32_MAX)); };
    for (std::size_t member = members.next(); member != count; member = members.next()) {
      switch (member) {
        case name:
          task.name = in_.kept_text();
          break;
        case kind:
          task.kind = in_.kept_text();
          break;
        case style:
          task.style = read_style();
          break;
        case stream:
          task.stream = static_cast<std::uint32_t>(in_.integer(0, static_cast<std::int64_t>(out_.streams.size()) - 1));
          break;
        case phase:
          task.phase =
              named_value(in_, {Phase::forward, Phase::backward, Phase::update}, [](Phase p) { return to_string(p); });
          break;
        case layer:
          task.layer = number32();
          break;
        case batch:
          task.micro_batch = number32();
          break;
        case flops:
          task.flops = in_.number();
          break;
        case bytes:
          task.bytes = in_.number();
          break;
        case network:
          task.network_bytes = in_.number();
          break;
        case allocates:
          add_bytes(task.allocates, allocated_);
          break;
        case frees:
          add_bytes(task.frees, freed_);
          break;
        case channel:
          task.channel = in_.kept_text();
          break;
        case size:
          task.group_size = in_.integer(0, kMostRanks);
          break;
        case reason:
          task.reason = in_.kept_text();
          break;
        default:
          break;
      }
    }
    members.require(channel);
    return task;
  }

  KindClass read_style() {
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

  void read_edges() {
    in_.open_array();
    const std::int64_t last = static_cast<std::int64_t>(out_.tasks.size()) - 1;
    while (in_.next_item()) {
      std::array<std::int64_t, 5> numbers{};  // from, to, reason, distance, kind
      const std::array<std::int64_t, 5> most = {last, last, static_cast<std::int64_t>(EdgeReason::policy), 1, 1};
      std::size_t count = 0;
      in_.open_array();
      for (; in_.next_item(); ++count) {
        if (count == numbers.size()) in_.refuse("an edge of more than five numbers", "five at most");
        numbers[count] = in_.integer(0, most[count]);
      }
      const RecordedEdge edge{.from = static_cast<std::uint32_t>(numbers[0]),
                              .to = static_cast<std::uint32_t>(numbers[1]),
                              .kind = static_cast<EdgeKind>(numbers[4]),
                              .reason = static_cast<EdgeReason>(numbers[2]),
                              .distance = static_cast<std::uint8_t>(numbers[3])};
      if (count < 2) in_.refuse("an edge of fewer than two numbers", "from and to");
      if (edge.distance == 0 && edge.from >= edge.to) {
        in_.refuse(fmt::format("an edge from '{}' to '{}', which stands before it or is the same",
                               out_.tasks[edge.from].name, out_.tasks[edge.to].name),
                   "edges along the order of tasks: with others they form a cycle");
      }
      out_.edges.push_back(edge);
    }
  }

  void read_ranks() {
    enum { rank, steps, count };
    static constexpr std::array<std::string_view, count> kNames = {"rank", "steps"};
    in_.open_array();
    while (in_.next_item()) {
      Members members(in_, kNames);
      RecordedRank& of = out_.ranks.emplace_back();
      for (std::size_t member = members.next(); member != count; member = members.next()) {
        if (member == rank) of.rank = static_cast<int>(in_.integer(0, kMostRanks - 1));
        if (member == steps) read_steps(of.steps);
      }
      members.require(count);
      if (out_.ranks.size() > 1 && of.rank <= out_.ranks[out_.ranks.size() - 2].rank) {
        in_.refuse(fmt::format("rank {} behind rank {}", of.rank, out_.ranks[out_.ranks.size() - 2].rank),
                   "ranks that rise");
      }
    }
  }

  void read_steps(std::vector<RecordedStep>& steps) {
    in_.open_array();
    while (in_.next_item()) {
      std::array<std::int64_t, 3> numbers{};
      std::size_t count = 0;
      in_.open_array();
      for (; in_.next_item(); ++count) {
        if (count == numbers.size()) in_.refuse("a step of more than three numbers", "step, begin and end");
        numbers[count] = in_.integer(0, kLatest);
      }
      RecordedStep step{.step = numbers[0], .begin = 0, .end = 0, .times = {}};
      const bool fits = !__builtin_add_overflow(origin_, numbers[1], &step.begin) &&
                        !__builtin_add_overflow(origin_, numbers[2], &step.end);
      if (count != 3 || !fits || step.end < step.begin) {
        in_.refuse("a step that has no numbers, or ends before it begins", "step, begin and end in nanoseconds");
      }
      if (!steps.empty() && step.step <= steps.back().step) {
        in_.refuse(fmt::format("step {} behind step {}", step.step, steps.back().step), "steps that rise");
      }
      steps.push_back(std::move(step));
    }
  }

  JsonPull& in_;
  Recording& out_;
  std::int64_t origin_ = 0, allocated_ = 0, freed_ = 0;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

/// Puts the events of tasks where they belong.
class EventsReader {
 public:
  EventsReader(JsonPull& in, const TableReader& table, Recording& out, std::uint64_t most_bytes)
      : in_(in), table_(table), out_(out), open_(most_bytes / kLeastEvent) {
    open_ = std::min(open_, kMostTimes);
    for (std::size_t i = 0; i < out.ranks.size(); ++i) {
      rank_index_.emplace(out.ranks[i].rank, i);
      missing_.emplace_back(out.ranks[i].steps.size(), out.tasks.size());
    }
  }

  void read() {
    in_.open_array();
    while (in_.next_item()) read_event();
    for (std::size_t rank = 0; rank < out_.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < out_.ranks[rank].steps.size(); ++i) {
        if (missing_[rank][i] > 0) refuse_missing(out_.ranks[rank], out_.ranks[rank].steps[i]);
      }
    }
  }

 private:
  static constexpr TaskTime kNone{INT64_MAX, INT64_MIN};

  struct Event {
    bool slice = false, known = false;  // known: its name is a task's
    bool annotation = false;
    std::uint32_t task = 0;
    std::int64_t pid = 0, begin = 0, length = 0, step = -1, waited = 0, grown = 0;
  };

  void read_event() {
    enum { ph, name, cat, pid, ts, dur, args, count };
    static constexpr std::array<std::string_view, count> kNames = {"ph", "name", "cat", "pid", "ts", "dur", "args"};
    Members members(in_, kNames);
    Event event;
    std::string unknown;
    for (std::size_t member = members.next(); member != count; member = members.next()) {
      // All kinds begin with "ph" as Weft writes them, and only slices matter.
      if (members.has(ph) && member != ph && !event.slice) {
        in_.skip();
        continue;
      }
      switch (member) {
        case ph:
          event.slice = in_.text() == "X";
          break;
        case name:
          find_task(in_.text(), event, unknown);
          break;
        case cat:
          event.annotation = in_.text() == "user_annotation";
          break;
        case pid:
          event.pid = in_.integer(1, kMostRanks);
          break;
        case ts:
          event.begin = in_.microseconds();
          break;
        case dur:
          event.length = in_.microseconds();
          break;
        case args:
          read_arguments(event);
          break;
        default:
          break;
      }
    }
    members.require(1);
    if (!event.slice || event.annotation) return;
    members.require(count);
    if (!event.known) in_.refuse(fmt::format("a slice called '{}'", unknown), "the name of one of the file's tasks");
    put(event);
  }

  void find_task(std::string_view name, Event& event, std::string& unknown) {
    // Mostly the one behind the last: no look-up in a large table.
    const auto is = [&](std::size_t task) { return task < out_.tasks.size() && out_.tasks[task].name == name; };
    event.known = is(next_);
    event.task = static_cast<std::uint32_t>(next_);
    for (const std::string_view candidate :
         {name, name.starts_with(kKinetoCollective) ? name.substr(kKinetoCollective.size()) : name}) {
      if (event.known) break;
      const auto found = table_.task_by_name().find(candidate);
      event.known = found != table_.task_by_name().end();
      if (event.known) event.task = found->second;
    }
    if (!event.known) unknown = name;
  }

  void read_arguments(Event& event) {
    enum { step, waited, grown, count };
    static constexpr std::array<std::string_view, count> kNames = {"step", "waited_ns", "grown_ns"};
    Members members(in_, kNames);
    for (std::size_t member = members.next(); member != count; member = members.next()) {
      const std::int64_t value = in_.integer(0, kLatest);
      (member == step ? event.step : member == waited ? event.waited : event.grown) = value;
    }
  }

  void put(const Event& event) {
    const auto rank_at = rank_index_.find(static_cast<int>(event.pid - 1));
    if (rank_at == rank_index_.end()) {
      in_.refuse(fmt::format("an event of rank {}", event.pid - 1), "a rank that the file names");
    }
    RecordedRank& rank = out_.ranks[rank_at->second];
    const auto step = std::ranges::lower_bound(rank.steps, event.step, {}, &RecordedStep::step);
    if (step == rank.steps.end() || step->step != event.step) {
      in_.refuse(fmt::format("an event of step {} on rank {}", event.step, rank.rank), "a step that the file names");
    }
    if (step->times.empty()) {
      if (open_ < out_.tasks.size()) {
        in_.refuse("more tasks and steps than the file has room for events", "an event a task and step");
      }
      open_ -= out_.tasks.size();
      step->times.assign(out_.tasks.size(), kNone);
    }
    TaskTime& time = step->times[event.task];
    const std::string& name = out_.tasks[event.task].name;
    if (time != kNone) {
      in_.refuse(fmt::format("task '{}' runs twice in step {} of rank {}", name, step->step, rank.rank), "once");
    }
    const bool fits = !__builtin_add_overflow(table_.origin(), event.begin, &time.begin) &&
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

  [[noreturn]] void refuse_missing(const RecordedRank& rank, const RecordedStep& step) const {
    const auto none = std::ranges::find(step.times, kNone);
    const auto first = step.times.empty() ? 0 : static_cast<std::size_t>(none - step.times.begin());
    in_.refuse(fmt::format("task '{}' doesn't run in step {} of rank {}", out_.tasks[first].name, step.step, rank.rank),
               "an event for each task, step and rank that the file names");
  }

  JsonPull& in_;
  const TableReader& table_;
  Recording& out_;
  std::uint64_t open_;  // times that the rest of the file may hold
  std::unordered_map<int, std::size_t> rank_index_;
  std::vector<std::vector<std::size_t>> missing_;  // by rank and step: tasks without an event
  std::size_t next_ = 0;                           // the task that the next event is likely of
};

Recording read_from(ByteSource source, std::uint64_t most_bytes, const std::string& name) {
  JsonPull in(std::move(source), name);
  Recording out;
  TableReader table(in, out);
  enum { weft, events, count };
  static constexpr std::array<std::string_view, count> kNames = {"weft", "traceEvents"};
  Members members(in, kNames);
  for (std::size_t member = members.next(); member != count; member = members.next()) {
    if (member == weft) {
      table.read();
    } else if (!members.has(weft)) {
      throw UserError(
          fmt::format("'{}' has events, but no \"weft\" before them: another program's trace, or an old one", name),
          "a trace that Weft wrote", kRemake);
    } else {
      EventsReader(in, table, out, most_bytes).read();
    }
  }
  in.finish();
  members.require(count);
  return out;
}

}  // namespace

Recording read_recording(const std::filesystem::path& path) {
  OpenedFile file = open_text_file(path, "the trace");
  return read_from(std::move(file.source), file.most_bytes, path.string());
}

Recording parse_recording(std::string_view text, const std::string& name) {
  return read_from(text_source(text), text.size(), name);
}

}  // namespace weft
