// The data part of a report: a recording's columns as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/text/escape.h"
#include "inspect/drawing/colors.h"
#include "inspect/drawing/task_label.h"
#include "inspect/report/policy_difference.h"
#include "inspect/report/report_page.h"

namespace weft::inspect {
namespace {

using nlohmann::json;

/// Strings that many tasks share, by number.
class Strings {
 public:
  std::size_t operator()(const std::string& text) {
    const auto [at, added] = numbers_.emplace(text, list_.size());
    if (added) list_.push_back(text);
    return at->second;
  }
  json list() const { return list_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> list_;
};

std::int64_t zero_of(const plan::Recording& recording) {
  std::int64_t zero = recording.ranks.front().steps.front().begin;
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) {
      zero = std::min(zero, step.begin);
      for (const plan::TaskTime& time : step.times) zero = std::min(zero, time.begin);
    }
  }
  return zero;
}

/// Labels for a bar that is too narrow for the name, a line each.
std::string shorter_labels(const std::string& name) {
  const std::vector<std::string> labels = task_labels(name);
  std::string text;
  for (std::size_t i = 1; i < labels.size(); ++i) text += (i > 1 ? "\n" : "") + labels[i];
  return text;
}

json tasks_json(const plan::Recording& recording, Strings& strings) {
  std::map<std::string, json> columns;
  for (const char* name : {"bytes", "channel", "flops", "group", "kind", "labels", "layer", "micro", "name", "network",
                           "phase", "reason", "stream", "style"}) {
    columns[name] = json::array();
  }
  // Work is counted in whole operations and bytes, and a whole number is shorter than a double's text.
  const auto whole = [](double number) { return static_cast<std::int64_t>(number); };
  for (const plan::RecordedTask& task : recording.tasks) {
    columns["bytes"].push_back(whole(task.bytes));
    columns["channel"].push_back(strings(task.channel));
    columns["flops"].push_back(whole(task.flops));
    columns["group"].push_back(task.group_size);
    columns["kind"].push_back(strings(task.kind));
    columns["labels"].push_back(strings(shorter_labels(task.name)));
    columns["layer"].push_back(task.layer);
    columns["micro"].push_back(task.micro_batch);
    columns["name"].push_back(task.name);
    columns["network"].push_back(whole(task.network_bytes));
    columns["phase"].push_back(static_cast<int>(task.phase));
    columns["reason"].push_back(strings(task.reason));
    columns["stream"].push_back(task.stream);
    columns["style"].push_back(static_cast<int>(task.style));
  }
  return columns;
}

// One number an edge: how it binds, why, and from which step.
json edges_json(const plan::Recording& recording) {
  json from = json::array(), to = json::array(), kind = json::array();
  for (const plan::RecordedEdge& edge : recording.edges) {
    from.push_back(edge.from);
    to.push_back(edge.to);
    kind.push_back((edge.kind == graph::EdgeKind::issued_before ? 1 : 0) + 2 * static_cast<int>(edge.reason) +
                   16 * edge.distance);
  }
  return {{"from", std::move(from)}, {"kind", std::move(kind)}, {"to", std::move(to)}};
}

json step_json(const plan::Recording& recording, const plan::RecordedStep& step, std::int64_t zero) {
  if (step.times.size() != recording.tasks.size())
    throw std::logic_error("a recorded step without a time of each task");
  json start = json::array(), length = json::array(), exposed = json::array();
  std::int64_t last = step.begin;
  for (const plan::TaskTime& time : step.times) {
    start.push_back(time.begin - last);
    length.push_back(time.end - time.begin);
    last = time.begin;
  }
  const plan::BusyTimes busy = plan::busy_times(recording, step);
  for (std::size_t i = 0; i < recording.streams.size(); ++i) {
    json pairs = json::array();
    last = step.begin;
    if (!recording.streams[i].compute) {
      for (const Interval& bar : intersection(busy.streams[i], busy.exposed)) {
        pairs.push_back(bar.begin - last);
        pairs.push_back(bar.end - bar.begin);
        last = bar.end;
      }
    }
    exposed.push_back(std::move(pairs));
  }
  const plan::OverlapSummary sums = plan::summarize(busy, {step.begin, step.end});
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  return {{"begin", step.begin - zero},
          {"end", step.end - zero},
          {"exposed", std::move(exposed)},
          {"facts", fmt::format("step {}: {:.2f} ms; computing {:.2f}, communicating {:.2f}, exposed {:.2f} ms",
                                step.step, ms(sums.step), ms(sums.compute), ms(sums.communication), ms(sums.exposed))},
          {"length", std::move(length)},
          {"start", std::move(start)},
          {"step", step.step}};
}

// Above so many points neighbours become one, of which the greatest counts.
constexpr std::size_t kMostMemoryPoints = 40000;

json memory_json(const plan::Recording& recording, std::int64_t zero) {
  const std::vector<plan::MemoryPoint> curve = plan::memory_curve(recording, recording.ranks.front().steps.back());
  const bool known =
      std::ranges::any_of(recording.tasks, [](const plan::RecordedTask& task) { return task.allocates != 0; });
  json time = json::array(), bytes = json::array();
  const std::size_t together = curve.size() / kMostMemoryPoints + 1;
  std::int64_t last_time = zero, last_bytes = 0;
  for (std::size_t i = 0; known && i < curve.size(); i += together) {
    plan::MemoryPoint point = curve[i];
    for (std::size_t k = i; k < std::min(curve.size(), i + together); ++k)
      point.bytes = std::max(point.bytes, curve[k].bytes);
    time.push_back(point.time - last_time);
    bytes.push_back(point.bytes - last_bytes);
    last_time = point.time, last_bytes = point.bytes;
  }
  return {{"bytes", std::move(bytes)}, {"state", recording.state_bytes}, {"time", std::move(time)}};
}

/// Other policies are compared with `first`.
json view_json(const ReportView& view, const ReportView& first) {
  const plan::Recording& recording = view.recording;
  if (recording.ranks.empty() || recording.ranks.front().steps.empty()) {
    throw std::logic_error("a report of a recording without steps");
  }
  const std::int64_t zero = zero_of(recording);
  Strings strings;
  json ranks = json::array(), streams = json::array(), bounds = json::array();
  for (const plan::RecordedRank& rank : recording.ranks) {
    json steps = json::array();
    for (const plan::RecordedStep& step : rank.steps) steps.push_back(step_json(recording, step, zero));
    ranks.push_back({{"rank", rank.rank}, {"steps", std::move(steps)}});
  }
  for (const plan::RecordedStream& stream : recording.streams) {
    streams.push_back({{"compute", stream.compute}, {"name", stream.name}});
  }
  for (const ReportBound& bound : view.bounds) {
    bounds.push_back({{"name", bound.name}, {"ns", static_cast<std::int64_t>(bound.ns)}});
  }
  json tasks = tasks_json(recording, strings);
  return {{"bounds", std::move(bounds)},
          {"edges", edges_json(recording)},
          {"memory", memory_json(recording, zero)},
          {"moved", &view == &first ? std::vector<std::uint32_t>() : moved_in(first.recording, recording)},
          {"name", view.name},
          {"phases",
           {graph::to_string(graph::Phase::forward), graph::to_string(graph::Phase::backward),
            graph::to_string(graph::Phase::update)}},
          {"ranks", std::move(ranks)},
          {"streams", std::move(streams)},
          {"strings", strings.list()},
          {"tasks", std::move(tasks)}};
}

json curve_json(const std::string& name, const std::vector<StepPoint>& points) {
  json steps = json::array(), values = json::array();
  for (const StepPoint& point : points) {
    steps.push_back(point.step);
    values.push_back(point.value);
  }
  return {{"name", name}, {"steps", std::move(steps)}, {"values", std::move(values)}};
}

json chart_json(const StepChart& chart) {
  json curves = json::array();
  for (const StepCurve& curve : chart.curves) {
    if (!curve.points.empty()) curves.push_back(curve_json(curve.name, curve.points));
  }
  return {{"curves", std::move(curves)}, {"dots", curve_json(chart.dots_name, chart.dots)}};
}

}  // namespace

std::string report_data(const ReportPage& page) {
  json charts = json::array(), kinds = json::array(), views = json::array();
  for (const StepChart& chart : page.charts) charts.push_back(chart_json(chart));
  for (const KindStyle& style : kKindStyles) {
    kinds.push_back({{"fill", style.fill}, {"name", style.name}, {"text", style.text}});
  }
  for (const ReportView& view : page.views) views.push_back(view_json(view, page.views.front()));
  const json data = {{"charts", std::move(charts)}, {"kinds", std::move(kinds)}, {"views", std::move(views)}};
  return script_escaped(data.dump(-1, ' ', false, json::error_handler_t::replace));
}

}  // namespace weft::inspect
