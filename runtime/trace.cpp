#include "runtime/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "graph/analysis.h"
#include "graph/groups.h"

namespace weft {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Nanoseconds as microseconds, without a detour through floating point.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

/// Writes the events of one rank, line by line. Rows of the viewer are thread ids, which must differ between processes,
/// be above 0 and fit 32 bits.
class ChromeWriter {
 public:
  ChromeWriter(const Plan& plan, int rank, const std::optional<Grid>& grid, std::int64_t origin, std::string& out,
               bool& any)
      : plan_(plan),
        rank_(rank),
        grid_(grid),
        origin_(origin),
        out_(out),
        any_(any),
        free_from_(plan.streams.size(), 0) {
    metadata("process_name", tid(kStepsRow), fmt::format("\"name\": \"rank {}\"", rank));
    metadata("process_sort_index", tid(kStepsRow), fmt::format("\"sort_index\": {}", rank));
    row(kStepsRow, 0, "steps");
    for (std::size_t i = 0; i < plan.streams.size(); ++i) row(static_cast<int>(i), i + 1, plan.streams[i].stream.name);
    describe_tasks();
  }

  void step(const StepTrace& trace, bool arrows) {
    check_shape(plan_, trace);
    const TaskTime whole = placed(trace.begin, trace.end, steps_free_from_);
    slice(kStepsRow, fmt::format("\"ProfilerStep#{}\"", trace.step), "user_annotation", whole,
          fmt::format("\"step\": {}", trace.step));
    std::vector<std::vector<TaskTime>> shown = trace.times;
    for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      for (std::size_t i = 0; i < shown[stream].size(); ++i) {
        const TaskTime& measured = trace.times[stream][i];
        shown[stream][i] = placed(measured.begin, measured.end, free_from_[stream]);
        const TaskId task = plan_.streams[stream].entries[i].task;
        std::string arguments = fmt::format("\"step\": {}, {}", trace.step, described_[task.index()]);
        if (const std::int64_t cut = shown[stream][i].begin - (measured.begin - origin_); cut > 0) {
          arguments += fmt::format(", \"waited_ns\": {}", cut);
        }
        slice(static_cast<int>(stream), names_[task.index()], kind_name(plan_.graph->task(task).operation),
              shown[stream][i], arguments);
      }
    }
    if (arrows) arrows_into(trace.step, shown);
    last_step_ = trace.step;
    last_shown_ = std::move(shown);
  }

 private:
  static constexpr int kStepsRow = 998;                          // behind any stream
  static constexpr std::int64_t kArrowsOfARank = 1'000'000'000;  // ids differ between ranks

  int tid(int row) const { return rank_ * 1000 + row + 1; }

  void begin_event() {
    out_ += any_ ? ",\n" : "\n";
    any_ = true;
  }

  void metadata(std::string_view what, int tid, std::string_view arguments) {
    begin_event();
    out_ += fmt::format("{{\"ph\": \"M\", \"name\": \"{}\", \"pid\": {}, \"tid\": {}, \"args\": {{{}}}}}", what,
                        rank_ + 1, tid, arguments);
  }

  void row(int row, std::size_t sort_index, std::string_view name) {
    metadata("thread_name", tid(row), fmt::format("\"name\": {}", json_string(name)));
    metadata("thread_sort_index", tid(row), fmt::format("\"sort_index\": {}", sort_index));
  }

  // What is said of a task is the same in every step.
  void describe_tasks() {
    const Graph& graph = *plan_.graph;
    described_.resize(graph.tasks().size());
    for (const Task& task : graph.tasks()) names_.push_back(json_string(task.name));
    for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      for (const Entry& entry : plan_.streams[stream].entries) {
        const Task& task = graph.task(entry.task);
        const Work work = work_of(graph, task);
        std::string& text = described_[entry.task.index()];
        text = fmt::format(
            "\"phase\": \"{}\", \"layer\": {}, \"micro_batch\": {}, \"stream\": {}, \"flops\": {:.0f}, \"bytes\": "
            "{:.0f}",
            to_string(task.phase), task.layer, task.micro_batch, stream + 1, work.flops, work.bytes);
        if (const Channel* channel = channel_of(task.operation)) {
          text +=
              fmt::format(", \"network_bytes\": {:.0f}, \"Collective name\": \"{}\", \"Process Group Name\": \"{}\"",
                          work.network_bytes, kind_name(task.operation), to_string(*channel));
          text += group_of(*channel);
        }
        if (entry.reason < plan_.reasons.size() && !plan_.reasons[entry.reason].empty()) {
          text += fmt::format(", \"reason\": {}", json_string(plan_.reasons[entry.reason]));
        }
      }
    }
  }

  std::string group_of(Channel channel) const {
    if (!grid_) return "";
    // As many as PyTorch writes: the world of a large simulated cluster stands in every event.
    constexpr std::size_t kMostRanks = 30;
    const std::vector<std::int64_t> ranks = group_ranks(*grid_, channel, rank_);
    std::vector<std::string> shown;
    for (const std::int64_t rank : ranks) shown.push_back(std::to_string(rank));
    if (shown.size() > kMostRanks) {
      shown.resize(kMostRanks);
      shown.back() = "...";
    }
    return fmt::format(", \"Group size\": {}, \"Process Group Ranks\": \"[{}]\"", ranks.size(), fmt::join(shown, ", "));
  }

  /// Relative to the origin, behind what the row already shows, and not empty.
  TaskTime placed(std::int64_t begin, std::int64_t end, std::int64_t& free_from) const {
    if (begin < origin_) throw std::logic_error("a traced time lies before the trace's origin");
    const std::int64_t from = std::max(begin - origin_, free_from);
    free_from = std::max(end - origin_, from + 1);
    return {from, free_from};
  }

  void slice(int row, std::string_view quoted_name, std::string_view category, const TaskTime& time,
             std::string_view arguments) {
    begin_event();
    out_ += fmt::format(
        "{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, "
        "\"args\": {{{}}}}}",
        quoted_name, category, rank_ + 1, tid(row), microseconds(time.begin), microseconds(time.end - time.begin),
        arguments);
  }

  // A viewer binds an arrow's ends to the slices around them, and drops arrows that go back in time.
  void arrows_into(std::int64_t step, const std::vector<std::vector<TaskTime>>& shown) {
    for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      for (std::size_t i = 0; i < plan_.streams[stream].entries.size(); ++i) {
        for (const Wait& wait : plan_.streams[stream].entries[i].waits) {
          if (wait.distance > 0 && (last_shown_.empty() || last_step_ + wait.distance != step)) continue;
          const auto& from = (wait.distance > 0 ? last_shown_ : shown)[wait.stream.index()][wait.entry];
          const std::int64_t to = shown[stream][i].begin;
          const std::int64_t at = std::min(from.end - 1, to);
          if (at >= from.begin) arrow(static_cast<int>(wait.stream.value), at, static_cast<int>(stream), to);
        }
      }
    }
  }

  void arrow(int from_row, std::int64_t from, int to_row, std::int64_t to) {
    const std::int64_t id = rank_ * kArrowsOfARank + ++last_arrow_;
    const auto end = [&](std::string_view kind, int row, std::int64_t time) {
      begin_event();
      out_ += fmt::format(
          "{{\"ph\": \"{}\", \"name\": \"wait\", \"cat\": \"wait\", \"id\": {}, \"pid\": {}, \"tid\": {}, \"ts\": "
          "{}{}}}",
          kind, id, rank_ + 1, tid(row), microseconds(time), kind == "f" ? ", \"bp\": \"e\"" : "");
    };
    end("s", from_row, from);
    end("f", to_row, to);
  }

  const Plan& plan_;
  const int rank_;
  const std::optional<Grid>& grid_;
  const std::int64_t origin_;
  std::string& out_;
  bool& any_;                                   // whether an event stands in out_ already
  std::vector<std::string> names_, described_;  // by task, as JSON
  std::vector<std::int64_t> free_from_;         // by stream: where its last slice ends
  std::int64_t steps_free_from_ = 0;
  std::int64_t last_arrow_ = 0;
  std::int64_t last_step_ = 0;
  std::vector<std::vector<TaskTime>> last_shown_;
};

}  // namespace

void check_shape(const Plan& plan, const StepTrace& trace) {
  bool same = trace.times.size() == plan.streams.size();
  for (std::size_t i = 0; same && i < plan.streams.size(); ++i) {
    same = trace.times[i].size() == plan.streams[i].entries.size();
  }
  if (!same) throw std::logic_error(fmt::format("the trace of step {} doesn't belong to this plan", trace.step));
}

BusyTimes busy_times(std::vector<Intervals> streams, const std::vector<bool>& compute) {
  BusyTimes busy;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    busy.streams.push_back(merged(std::move(streams[i])));
    Intervals& kind = compute[i] ? busy.compute : busy.communication;
    kind.insert(kind.end(), busy.streams.back().begin(), busy.streams.back().end());
  }
  busy.compute = merged(std::move(busy.compute));
  busy.communication = merged(std::move(busy.communication));
  busy.exposed = difference(busy.communication, busy.compute);
  return busy;
}

BusyTimes busy_times(const Plan& plan, const StepTrace& trace) {
  check_shape(plan, trace);
  std::vector<Intervals> streams(plan.streams.size());
  std::vector<bool> compute;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    for (const TaskTime& time : trace.times[i]) streams[i].push_back({time.begin, time.end});
    compute.push_back(plan.streams[i].stream.compute);
  }
  return busy_times(std::move(streams), compute);
}

OverlapSummary summarize(const BusyTimes& busy, Interval step) {
  OverlapSummary summary;
  summary.step = step.end - step.begin;
  summary.compute = total_length(busy.compute);
  summary.communication = total_length(busy.communication);
  summary.exposed = total_length(busy.exposed);
  summary.overlapped = summary.communication - summary.exposed;
  return summary;
}

OverlapSummary summarize(const Plan& plan, const StepTrace& trace) {
  return summarize(busy_times(plan, trace), {trace.begin, trace.end});
}

std::string chrome_trace_json(const Plan& plan, std::span<const RankTrace> traced, int ranks, bool arrows,
                              const std::optional<Grid>& grid) {
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const RankTrace& trace : traced) {
    for (const StepTrace& step : trace.steps) origin = std::min(origin, step.begin);
  }
  std::string out = fmt::format(
      "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{\"backend\": \"weft\", \"rank\": {}, \"world_size\": {}}},\n"
      "\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [",
      traced.empty() ? 0 : traced.front().rank, ranks);
  bool any = false;
  for (const RankTrace& trace : traced) {
    ChromeWriter writer(plan, trace.rank, grid, origin, out, any);
    for (const StepTrace& step : trace.steps) writer.step(step, arrows);
  }
  return out + "\n]}\n";
}

}  // namespace weft
