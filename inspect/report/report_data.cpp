// The data part of a report: a recording's columns as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "base/text/escape.h"
#include "base/text/json_object.h"
#include "base/text/name_table.h"
#include "inspect/drawing/colors.h"
#include "inspect/drawing/task_label.h"
#include "inspect/report/policy_difference.h"
#include "inspect/report/report_page.h"

namespace weft::inspect {
namespace {

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
  return fmt::format("{}", fmt::join(labels.begin() + 1, labels.end(), "\n"));
}

JsonValue tasks_json(const plan::Recording& recording, NameTable& strings) {
  std::map<std::string, JsonArray> columns;
  for (const char* name : {"bytes", "channel", "flops", "group", "kind", "labels", "layer", "micro", "name", "network",
                           "phase", "reason", "stream", "style"}) {
    columns[name] = {};
  }
  // Work is counted in whole operations and bytes, and a whole number is shorter than a double's text.
  const auto whole = [](double number) { return static_cast<std::int64_t>(number); };
  for (const plan::RecordedTask& task : recording.tasks) {
    columns["bytes"].add(whole(task.bytes));
    columns["channel"].add(strings.number(task.channel));
    columns["flops"].add(whole(task.flops));
    columns["group"].add(task.group_size);
    columns["kind"].add(strings.number(task.kind));
    columns["labels"].add(strings.number(shorter_labels(task.name)));
    columns["layer"].add(task.layer);
    columns["micro"].add(task.micro_batch);
    columns["name"].add(task.name);
    columns["network"].add(whole(task.network_bytes));
    columns["phase"].add(static_cast<int>(task.phase));
    columns["reason"].add(strings.number(task.reason));
    columns["stream"].add(task.stream);
    columns["style"].add(static_cast<int>(task.style));
  }
  return columns;
}

// One number an edge: how it binds, why, and from which step.
JsonObject edges_json(const plan::Recording& recording) {
  JsonArray from, to, kind;
  for (const plan::RecordedEdge& edge : recording.edges) {
    from.add(edge.from);
    to.add(edge.to);
    kind.add((edge.kind == graph::EdgeKind::issued_before ? 1 : 0) + 2 * static_cast<int>(edge.reason) +
             16 * edge.distance);
  }
  return JsonObject().add("from", from).add("kind", kind).add("to", to);
}

JsonObject step_json(const plan::Recording& recording, const plan::RecordedStep& step, std::int64_t zero) {
  if (step.times.size() != recording.tasks.size())
    throw std::logic_error("a recorded step without a time of each task");
  JsonArray start, length, exposed;
  std::int64_t last = step.begin;
  for (const plan::TaskTime& time : step.times) {
    start.add(time.begin - last);
    length.add(time.end - time.begin);
    last = time.begin;
  }
  const plan::BusyTimes busy = plan::busy_times(recording, step);
  for (std::size_t i = 0; i < recording.streams.size(); ++i) {
    JsonArray pairs;
    last = step.begin;
    if (recording.streams[i].communicates()) {
      for (const Interval& bar : intersection(busy.streams[i], busy.exposed)) {
        pairs.add(bar.begin - last);
        pairs.add(bar.end - bar.begin);
        last = bar.end;
      }
    }
    exposed.add(pairs);
  }
  const plan::OverlapSummary sums = plan::summarize(busy, {step.begin, step.end});
  const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  return JsonObject()
      .add("begin", step.begin - zero)
      .add("end", step.end - zero)
      .add("exposed", exposed)
      .add("facts", fmt::format("step {}: {:.2f} ms; computing {:.2f}, communicating {:.2f}, exposed {:.2f} ms",
                                step.step, ms(sums.step), ms(sums.compute), ms(sums.communication), ms(sums.exposed)))
      .add("length", length)
      .add("start", start)
      .add("step", step.step);
}

// Above so many points neighbours become one, of which the greatest counts.
constexpr std::size_t kMostMemoryPoints = 40000;

JsonObject memory_json(const plan::Recording& recording, std::int64_t zero) {
  const std::vector<plan::MemoryPoint> curve = plan::memory_curve(recording, recording.ranks.front().steps.back());
  const bool known =
      std::ranges::any_of(recording.tasks, [](const plan::RecordedTask& task) { return task.allocates != 0; });
  JsonArray time, bytes;
  const std::size_t together = curve.size() / kMostMemoryPoints + 1;
  std::int64_t last_time = zero, last_bytes = 0;
  for (std::size_t i = 0; known && i < curve.size(); i += together) {
    plan::MemoryPoint point = curve[i];
    for (std::size_t k = i; k < std::min(curve.size(), i + together); ++k)
      point.bytes = std::max(point.bytes, curve[k].bytes);
    time.add(point.time - last_time);
    bytes.add(point.bytes - last_bytes);
    last_time = point.time, last_bytes = point.bytes;
  }
  return JsonObject().add("bytes", bytes).add("state", recording.state_bytes).add("time", time);
}

/// Other policies are compared with `first`.
JsonObject view_json(const ReportView& view, const ReportView& first) {
  const plan::Recording& recording = view.recording;
  if (recording.ranks.empty() || recording.ranks.front().steps.empty()) {
    throw std::logic_error("a report of a recording without steps");
  }
  const std::int64_t zero = zero_of(recording);
  NameTable strings;
  JsonArray ranks, streams, bounds;
  for (const plan::RecordedRank& rank : recording.ranks) {
    JsonArray steps;
    for (const plan::RecordedStep& step : rank.steps) steps.add(step_json(recording, step, zero));
    ranks.add(JsonObject().add("rank", rank.rank).add("steps", steps));
  }
  for (const plan::RecordedStream& stream : recording.streams) {
    streams.add(JsonObject().add("compute", !stream.communicates()).add("name", stream.name));
  }
  for (const ReportBound& bound : view.bounds) {
    bounds.add(JsonObject().add("name", bound.name).add("ns", static_cast<std::int64_t>(bound.ns)));
  }
  const JsonValue tasks = tasks_json(recording, strings);
  return JsonObject()
      .add("bounds", bounds)
      .add("edges", edges_json(recording))
      .add("memory", memory_json(recording, zero))
      .add("moved", &view == &first ? std::vector<std::uint32_t>() : moved_in(first.recording, recording))
      .add("name", view.name)
      .add("phases", JsonArray{graph::to_string(graph::Phase::forward), graph::to_string(graph::Phase::backward),
                               graph::to_string(graph::Phase::update)})
      .add("ranks", ranks)
      .add("streams", streams)
      .add("strings", strings.texts())
      .add("tasks", tasks);
}

JsonObject curve_json(const std::string& name, const std::vector<StepPoint>& points) {
  JsonArray steps, values;
  for (const StepPoint& point : points) {
    steps.add(point.step);
    values.add(point.value);
  }
  return JsonObject().add("name", name).add("steps", steps).add("values", values);
}

JsonObject chart_json(const StepChart& chart) {
  JsonArray curves;
  for (const StepCurve& curve : chart.curves) {
    if (!curve.points.empty()) curves.add(curve_json(curve.name, curve.points));
  }
  return JsonObject().add("curves", curves).add("dots", curve_json(chart.dots_name, chart.dots));
}

}  // namespace

std::string report_data(const ReportPage& page) {
  JsonArray charts, kinds, views;
  for (const StepChart& chart : page.charts) charts.add(chart_json(chart));
  for (const KindStyle& style : kKindStyles) {
    kinds.add(JsonObject().add("fill", style.fill).add("name", style.name).add("text", style.text));
  }
  for (const ReportView& view : page.views) views.add(view_json(view, page.views.front()));
  return script_escaped(JsonObject().add("charts", charts).add("kinds", kinds).add("views", views).text());
}

}  // namespace weft::inspect
