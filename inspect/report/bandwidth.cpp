#include "inspect/report/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/intervals.h"
#include "base/median.h"
#include "base/units.h"
#include "runtime/cost/cost_model.h"

namespace weft::inspect {
namespace {

struct Samples {
  AxisBandwidth of;
  double most = 0;                                // bytes of the largest collective
  std::vector<std::pair<double, double>> single;  // bytes and nanoseconds of each
};

}  // namespace

std::vector<AxisBandwidth> bandwidths(const plan::Recording& recording) {
  std::map<std::string, Samples> axes;
  double steps = 0;
  for (const plan::RecordedTask& task : recording.tasks) {
    if (task.channel.empty()) continue;
    Samples& samples = axes[task.channel];
    samples.of.axis = task.channel;
    samples.of.ranks = std::max(samples.of.ranks, task.group_size);
    ++samples.of.collectives;
    samples.of.bytes += task.network_bytes;
    samples.most = std::max(samples.most, task.network_bytes);
  }
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) {
      ++steps;
      std::map<std::string_view, Intervals> busy;
      for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
        const plan::RecordedTask& task = recording.tasks[i];
        const plan::TaskTime& time = step.times[i];
        if (task.channel.empty() || time.end <= time.begin) continue;
        busy[task.channel].push_back({time.begin, time.end});
        axes[task.channel].single.emplace_back(task.network_bytes, static_cast<double>(time.end - time.begin));
      }
      for (auto& [axis, intervals] : busy) {
        axes[std::string(axis)].of.busy_ns += static_cast<double>(total_length(merged(std::move(intervals))));
      }
    }
  }
  std::vector<AxisBandwidth> out;
  for (auto& [axis, samples] : axes) {
    AxisBandwidth of = samples.of;
    of.busy_ns = steps > 0 ? of.busy_ns / steps : 0;
    if (of.busy_ns > 0) of.achieved = of.bytes / (of.busy_ns * 1e-9);
    std::vector<double> rates;
    for (const auto& [bytes, ns] : samples.single) {
      if (2 * bytes >= samples.most) rates.push_back(bytes / (ns * 1e-9));
    }
    if (!rates.empty()) of.largest = median(std::move(rates));
    out.push_back(std::move(of));
  }
  return out;
}

ReportLinks links_of(const graph::Graph& graph, const cost::Machine& machine, const graph::Grid& grid) {
  ReportLinks links{.machine = machine.name};
  for (const graph::Task& task : graph.tasks()) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    if (channel == nullptr) continue;
    if (graph.channel_info(*channel) != nullptr) continue;
    const std::string axis(graph::to_string(*channel));
    if (links.bandwidth.contains(axis)) continue;
    const cost::GroupSpan span = cost::group_span(machine, grid, *channel);
    if (span.ranks > 1) links.bandwidth[axis] = cost::group_bandwidth(machine, span);
  }
  return links;
}

ReportTable bandwidth_table(const plan::Recording& recording, const ReportLinks& links) {
  ReportTable table{
      .title = "Bandwidth by axis",
      .note =
          "Bytes that a rank sends, by the time from its begin of a collective to the end: waiting for "
          "the other ranks counts. The largest messages are those of at least half the greatest size.",
      .heads = {"axis", "ranks", "collectives", "sent a step", "busy ms", "achieved GB/s", "largest messages GB/s"}};
  const bool known = !links.bandwidth.empty();
  if (known) {
    table.heads.push_back(fmt::format("link GB/s, model of {}", links.machine));
    table.heads.emplace_back("achieved, of the link %");
  }
  const auto gigabytes = [](double bytes) { return fmt::format("{:.3g}", bytes * 1e-9); };
  for (const AxisBandwidth& of : bandwidths(recording)) {
    std::vector<ReportCell> row = {{of.axis},
                                   {of.ranks > 0 ? fmt::format("{}", of.ranks) : "-"},
                                   {fmt::format("{}", of.collectives)},
                                   {human_bytes(static_cast<std::uint64_t>(of.bytes))},
                                   {fmt::format("{:.3f}", of.busy_ns * 1e-6)},
                                   {gigabytes(of.achieved)},
                                   {gigabytes(of.largest)}};
    if (known) {
      const auto link = links.bandwidth.find(of.axis);
      const bool has = link != links.bandwidth.end() && link->second > 0;
      row.emplace_back(has ? gigabytes(link->second) : "-");
      row.emplace_back(has ? fmt::format("{:.0f}", 100 * of.achieved / link->second) : "-");
    }
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) table.note = "This step doesn't communicate.";
  return table;
}

}  // namespace weft::inspect
