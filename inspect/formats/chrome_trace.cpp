#include "inspect/formats/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"
#include "inspect/drawing/colors.h"
#include "inspect/formats/viewer_rows.h"

namespace weft::inspect {
namespace {

std::string groups_json(const plan::Recording& recording, int rank) {
  std::vector<std::string> groups;
  for (const auto& [name, task] : tasks_by_channel(recording)) {
    const auto ranks = group_of(recording, name, rank);
    if (!ranks) continue;
    groups.push_back(
        fmt::format(R"({{"pg_name": "{}", "pg_desc": "{}", "backend_config": "weft", "pg_size": {}, "ranks": "[{}]"}})",
                    name, name, ranks->size(), fmt::join(*ranks, ", ")));
  }
  return fmt::format(R"(, "pg_count": {}, "pg_config": [{}])", groups.size(), fmt::join(groups, ", "));
}

/// The plan, which the events don't hold or would repeat too often.
class TableWriter {
 public:
  TableWriter(const plan::Recording& recording, std::int64_t origin, TextWriter& out)
      : recording_(recording), origin_(origin), out_(out) {}

  void write() {
    out_.put("\"weft\": {{\n\"version\": {},\n\"policy\": {},\n\"world\": {},\n", kTraceVersion,
             json_string(recording_.policy), recording_.world);
    if (recording_.grid) put_grid(*recording_.grid);
    out_.put("\"state_bytes\": {},\n\"plan_fingerprint\": \"{:#018x}\",\n\"origin_ns\": {}", recording_.state_bytes,
             recording_.plan_fingerprint, origin_);
    list("streams", recording_.streams, [&](const plan::RecordedStream& stream) {
      out_.put("{{\"name\": {}, \"compute\": {}{}}}", json_string(stream.name), stream.compute,
               stream.local ? ", \"local\": true" : "");
    });
    list("tasks", recording_.tasks, [&](const plan::RecordedTask& task) { put_task(task); });
    list("edges", recording_.edges, [&](const plan::RecordedEdge& edge) { put_edge(edge); });
    list("ranks", recording_.ranks, [&](const plan::RecordedRank& rank) {
      out_.put("{{\"rank\": {}, \"steps\": [", rank.rank);
      for (std::size_t i = 0; i < rank.steps.size(); ++i) {
        const plan::RecordedStep& step = rank.steps[i];
        out_.put("{}[{}, {}, {}]", i == 0 ? "" : ", ", step.step, step.begin - origin_, step.end - origin_);
      }
      out_.put("]}}");
    });
    out_.put("\n}},\n");
  }

 private:
  template <class Values, class Put>
  void list(std::string_view name, const Values& values, const Put& put) {
    out_.put(",\n\"{}\": [", name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out_.put("{}\n", i == 0 ? "" : ",");
      put(values[i]);
    }
    out_.put("\n]");
  }

  void put_grid(const graph::Grid& grid) {
    std::string sizes;  // of the axes that the grid has: "x": 2, "y": 1, …
    for (const char c : graph::to_string(grid)) sizes += c == '=' ? "\": " : c == ',' ? ", \"" : std::string(1, c);
    out_.put("\"grid\": {{\"{}, \"order\": [", sizes);
    for (std::size_t i = 0; i < grid.order.size(); ++i) {
      out_.put("{}\"{}\"", i == 0 ? "" : ", ", graph::to_string(grid.order[i]));
    }
    out_.put("]}},\n");
  }

  void put_task(const plan::RecordedTask& task) {
    out_.put(
        "{{\"name\": {}, \"kind\": {}, \"style\": \"{}\", \"stream\": {}, \"phase\": \"{}\", \"layer\": {}, "
        "\"micro_batch\": {}, \"flops\": {}, \"bytes\": {}, \"network_bytes\": {}, \"allocates\": {}, \"frees\": {}",
        json_string(task.name), json_string(task.kind), style_of(task.style).name, task.stream,
        graph::to_string(task.phase), task.layer, task.micro_batch, task.flops, task.bytes, task.network_bytes,
        task.allocates, task.frees);
    if (!task.channel.empty()) out_.put(", \"channel\": {}", json_string(task.channel));
    if (task.group_size != 0) out_.put(", \"group_size\": {}", task.group_size);
    if (!task.reason.empty()) out_.put(", \"reason\": {}", json_string(task.reason));
    out_.put("}}");
  }

  void put_edge(const plan::RecordedEdge& edge) {
    const std::array<unsigned, 3> more = {static_cast<unsigned>(edge.reason), edge.distance,
                                          static_cast<unsigned>(edge.kind)};
    std::size_t count = more.size();
    while (count > 0 && more[count - 1] == 0) --count;
    out_.put("[{}, {}{}{}]", edge.from, edge.to, count > 0 ? ", " : "",
             fmt::join(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(count), ", "));
  }

  const plan::Recording& recording_;
  const std::int64_t origin_;
  TextWriter& out_;
};

/// Writes the events of one rank, line by line. Rows of the viewer are thread ids, which must differ between processes,
/// be above 0 and fit 32 bits.
class RankWriter {
 public:
  RankWriter(const plan::Recording& recording, const std::vector<plan::RecordedWait>& waits,
             const plan::RecordedRank& rank, const ChromeTraceOptions& options, std::int64_t origin, TextWriter& out,
             bool& any)
      : recording_(recording),
        waits_(waits),
        rank_(rank),
        options_(options),
        origin_(origin),
        out_(out),
        any_(any),
        rows_(recording) {}

  void write() {
    metadata("process_name", kStepsRow, fmt::format("\"name\": \"rank {}\"", rank_.rank));
    metadata("process_sort_index", kStepsRow, fmt::format("\"sort_index\": {}", rank_.rank));
    row(kStepsRow, 0, "steps");
    for (std::size_t i = 0; i < recording_.streams.size(); ++i) row(i, i + 1, recording_.streams[i].name);
    describe_tasks();
    const plan::RecordedStep* last = nullptr;
    for (const plan::RecordedStep& step : rank_.steps) {
      write_step(step, last);
      last = &step;
    }
  }

 private:
  static constexpr std::size_t kStepsRow = 998;                  // after any stream
  static constexpr std::int64_t kArrowsOfARank = 1'000'000'000;  // ids differ between ranks

  std::int64_t tid(std::size_t row) const {
    return std::int64_t{rank_.rank} * 1000 + static_cast<std::int64_t>(row) + 1;
  }

  void begin_event() {
    out_.add(any_ ? ",\n" : "\n");
    any_ = true;
  }

  void metadata(std::string_view what, std::size_t row, std::string_view arguments) {
    begin_event();
    out_.put("{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"args\": {{{}}}}}", what, rank_.rank + 1,
             tid(row), arguments);
  }

  void row(std::size_t row, std::size_t sort_index, std::string_view name) {
    metadata("thread_name", row, fmt::format("\"name\": {}", json_string(name)));
    metadata("thread_sort_index", row, fmt::format("\"sort_index\": {}", sort_index));
  }

  // The notes on a task are the same in every step.
  void describe_tasks() {
    for (const plan::RecordedTask& task : recording_.tasks) {
      const bool renamed = options_.kineto_names && !task.channel.empty();
      names_.push_back(json_string(renamed ? std::string(kKinetoCollective) + task.name : task.name));
      kinds_.push_back(json_string(task.kind));
      std::string& text = described_.emplace_back(fmt::format(
          "\"phase\": \"{}\", \"layer\": {}, \"micro_batch\": {}, \"stream\": {}, \"flops\": {:.0f}, \"bytes\": {:.0f}",
          graph::to_string(task.phase), task.layer, task.micro_batch, task.stream + 1, task.flops, task.bytes));
      if (!task.channel.empty()) {
        text += fmt::format(", \"network_bytes\": {:.0f}, \"Collective name\": {}, \"Process Group Name\": {}",
                            task.network_bytes, kinds_.back(), json_string(task.channel));
        text += group_json(task.channel);
      }
      if (!task.reason.empty()) text += fmt::format(", \"reason\": {}", json_string(task.reason));
    }
  }

  std::string group_json(const std::string& name) {
    const auto [at, added] = groups_.try_emplace(name);
    const auto ranks = added ? group_of(recording_, name, rank_.rank) : std::nullopt;
    if (!ranks) return at->second;
    // As many as PyTorch writes: the world of a large simulated cluster stands in every event.
    constexpr std::size_t kMostRanks = 30;
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < std::min(ranks->size(), kMostRanks); ++i) shown.push_back(std::to_string((*ranks)[i]));
    if (ranks->size() > kMostRanks) shown.back() = "...";
    return at->second = fmt::format(", \"Group size\": {}, \"Process Group Ranks\": \"[{}]\"", ranks->size(),
                                    fmt::join(shown, ", "));
  }

  void write_step(const plan::RecordedStep& step, const plan::RecordedStep* last) {
    if (step.begin < origin_) throw std::logic_error("a traced step begins before the trace's origin");
    slice(kStepsRow, fmt::format("\"ProfilerStep#{}\"", step.step), "\"user_annotation\"",
          steps_.place({step.begin - origin_, step.end - origin_}), fmt::format("\"step\": {}", step.step));
    std::vector<plan::TaskTime> shown = rows_.place(step, origin_);
    for (std::size_t i = 0; i < recording_.tasks.size(); ++i) {
      const plan::RecordedTask& task = recording_.tasks[i];
      const std::int64_t waited = shown[i].begin + origin_ - step.times[i].begin,
                         grown = shown[i].end + origin_ - step.times[i].end;
      std::string arguments = fmt::format("\"step\": {}, {}", step.step, described_[i]);
      if (waited > 0) arguments += fmt::format(", \"waited_ns\": {}", waited);
      if (grown > 0) arguments += fmt::format(", \"grown_ns\": {}", grown);
      slice(task.stream, names_[i], kinds_[i], shown[i], arguments);
    }
    for (const plan::RecordedWait& wait : waits_) {
      if (wait.distance > 0 && (last == nullptr || last->step + wait.distance != step.step)) continue;
      const plan::TaskTime& from = (wait.distance > 0 ? last_shown_ : shown)[wait.from];
      if (const auto tail = arrow_tail(from, shown[wait.to])) {
        arrow(recording_.tasks[wait.from].stream, *tail, recording_.tasks[wait.to].stream, shown[wait.to].begin);
      }
    }
    counter("scratch memory", "bytes", plan::memory_curve(recording_, step));
    counter("in flight", "bytes", plan::in_flight_curve(recording_, step));
    last_shown_ = std::move(shown);
  }

  // From whole nanoseconds, without a detour through floating point.
  void put_microseconds(std::string_view key, std::int64_t ns) {
    out_.put(", \"{}\": {}.{:03}", key, ns / 1000, ns % 1000);
  }

  void slice(std::size_t row, std::string_view quoted_name, std::string_view quoted_category,
             const plan::TaskTime& time, std::string_view arguments) {
    begin_event();
    out_.put("{{\"ph\": \"X\", \"name\": {}, \"cat\": {}, \"pid\": {}, \"tid\": {}", quoted_name, quoted_category,
             rank_.rank + 1, tid(row));
    put_microseconds("ts", time.begin);
    put_microseconds("dur", time.end - time.begin);
    out_.put(", \"args\": {{{}}}}}", arguments);
  }

  void arrow(std::size_t from_row, std::int64_t from, std::size_t to_row, std::int64_t to) {
    const std::int64_t id = rank_.rank * kArrowsOfARank + ++last_arrow_;
    const auto end = [&](std::string_view kind, std::size_t row, std::int64_t time) {
      begin_event();
      out_.put("{{\"ph\": \"{}\", \"name\": \"wait\", \"cat\": \"wait\", \"id\": {}, \"pid\": {}, \"tid\": {}", kind,
               id, rank_.rank + 1, tid(row));
      put_microseconds("ts", time);
      out_.put("{}}}", kind == "f" ? ", \"bp\": \"e\"" : "");
    };
    end("s", from_row, from);
    end("f", to_row, to);
  }

  void counter(std::string_view name, std::string_view unit, const std::vector<plan::MemoryPoint>& curve) {
    for (const plan::MemoryPoint& point : changes_of(curve)) {
      begin_event();
      out_.put("{{\"ph\": \"C\", \"name\": \"{}\", \"pid\": {}", name, rank_.rank + 1);
      put_microseconds("ts", point.time - origin_);
      out_.put(", \"args\": {{\"{}\": {}}}}}", unit, point.bytes);
    }
  }

  const plan::Recording& recording_;
  const std::vector<plan::RecordedWait>& waits_;
  const plan::RecordedRank& rank_;
  const ChromeTraceOptions& options_;
  const std::int64_t origin_;
  TextWriter& out_;
  bool& any_;                                           // whether an event stands in the text already
  std::vector<std::string> names_, kinds_, described_;  // by task, as JSON
  std::map<std::string, std::string> groups_;           // by channel, as JSON
  ViewerRows rows_;
  ViewerRow steps_;
  std::int64_t last_arrow_ = 0;
  std::vector<plan::TaskTime> last_shown_;
};

}  // namespace

std::int64_t first_begin(const plan::Recording& recording) {
  std::optional<std::int64_t> first;
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) first = std::min(first.value_or(step.begin), step.begin);
  }
  return first.value_or(0);
}

void write_chrome_trace(const plan::Recording& recording, const ChromeTraceOptions& options, const TextSink& sink) {
  const std::int64_t origin = options.origin.value_or(first_begin(recording));
  const int rank = recording.ranks.empty() ? 0 : recording.ranks.front().rank;
  TextWriter out(sink);
  out.put(
      "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"backend\": \"weft\", \"rank\": {}, \"world_size\": {}{}}},\n"
      "\"displayTimeUnit\": \"ms\",\n",
      rank, recording.world,
      options.kineto_names && recording.grid && rank < recording.grid->ranks() ? groups_json(recording, rank) : "");
  TableWriter(recording, origin, out).write();
  out.put("\"traceEvents\": [");
  const std::vector<plan::RecordedWait> waits = plan::waits_between_streams(recording);
  bool any = false;
  for (const plan::RecordedRank& traced : recording.ranks) {
    RankWriter(recording, waits, traced, options, origin, out, any).write();
  }
  out.put("\n]}}\n");
  out.flush();
}

std::string chrome_trace_json(const plan::Recording& recording, const ChromeTraceOptions& options) {
  std::string text;
  write_chrome_trace(recording, options, [&](std::string_view piece) { text += piece; });
  return text;
}

void write_chrome_file(const std::filesystem::path& path, const plan::Recording& recording,
                       const ChromeTraceOptions& options, Named named) {
  write_text_file(path, named, [&](const TextSink& sink) { write_chrome_trace(recording, options, sink); });
}

std::filesystem::path find_trace(const std::filesystem::path& trace_or_run) {
  std::error_code none;
  if (!is_directory(trace_or_run, none)) return trace_or_run;
  for (const char* name : {"trace.json", "trace.json.gz"}) {
    if (exists(trace_or_run / name, none)) return trace_or_run / name;
  }
  throw UserError(fmt::format("{} has no trace.json", in_quotes(trace_or_run)), "a trace, or the folder of a run",
                  "`weft train --trace-steps 3` leaves one; `weft simulate -o trace.json` too");
}

}  // namespace weft::inspect
