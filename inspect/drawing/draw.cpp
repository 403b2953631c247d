#include "inspect/drawing/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/intervals.h"
#include "base/units.h"
#include "graph/analysis.h"
#include "inspect/drawing/colors.h"
#include "inspect/drawing/dump_dot.h"
#include "runtime/plan/plan.h"

namespace weft::inspect {
namespace {

/// The computations that hide a collective, each with the time of its overlap, and the time that nothing hides.
struct Hidden {
  double exposed_ns = 0, ns = 0;
  std::vector<std::pair<graph::TaskId, double>> beside;  // overlap
};

/// Times of a simulated step by task.
class StepTimes {
 public:
  StepTimes(const simulate::Report& report, std::size_t of_class)
      : plan_(*report.classes[of_class].plan),
        step_(report.step(of_class)),
        path_(graph::critical_path(*plan_.graph, report.costs[of_class].ns)),
        costs_(report.costs[of_class].ns) {
    for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream) {
      if (!plan_.streams[stream].stream.compute) continue;
      for (std::size_t i = 0; i < plan_.streams[stream].entries.size(); ++i) {
        computations_.emplace_back(step_.times[stream][i], plan_.streams[stream].entries[i].task);
        busy_.push_back({step_.times[stream][i].begin, step_.times[stream][i].end});
        longest_ = std::max(longest_, busy_.back().end - busy_.back().begin);
      }
    }
    std::sort(computations_.begin(), computations_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first.begin, a.second) < std::pair(b.first.begin, b.second);
    });
    busy_ = merged(std::move(busy_));
  }

  plan::TaskTime time(graph::TaskId task) const {
    const plan::Position& at = plan_.position[task.index()];
    return step_.times[at.stream.index()][at.entry];
  }
  double ns(graph::TaskId task) const { return static_cast<double>(time(task).end - time(task).begin); }
  const graph::CriticalPath& path() const { return path_; }
  std::string stream(graph::TaskId task) const {
    return plan_.streams[plan_.position[task.index()].stream.index()].stream.name;
  }

  Hidden hidden(graph::TaskId task) const {
    const plan::TaskTime mine = time(task);
    Hidden out;
    out.ns = ns(task);
    const Interval one{mine.begin, mine.end};
    const auto after = [](const Interval& interval, std::int64_t at) { return interval.end <= at; };
    std::int64_t covered = 0;
    for (auto it = std::lower_bound(busy_.begin(), busy_.end(), mine.begin, after);
         it != busy_.end() && it->begin < one.end; ++it) {
      covered += std::min(it->end, one.end) - std::max(it->begin, one.begin);
    }
    out.exposed_ns = out.ns - static_cast<double>(covered);
    // None that overlaps begins earlier than the longest one lasts.
    const auto earlier = [](const auto& entry, std::int64_t at) { return entry.first.begin < at; };
    for (auto it = std::lower_bound(computations_.begin(), computations_.end(), mine.begin - longest_, earlier);
         it != computations_.end() && it->first.begin < mine.end; ++it) {
      const std::int64_t overlap = std::min(it->first.end, mine.end) - std::max(it->first.begin, mine.begin);
      if (overlap > 0) out.beside.emplace_back(it->second, static_cast<double>(overlap));
    }
    return out;
  }

  std::string tooltip(graph::TaskId task) const {
    const plan::TaskTime at = time(task);
    std::string text =
        fmt::format("starts at {}, takes {}, alone {}, slack {}",
                    format_time(static_cast<double>(at.begin - step_.begin)), format_time(ns(task)),
                    format_time(costs_[task.index()]), format_time(std::max(0.0, path_.slack(task, costs_))));
    if (graph::is_collective(plan_.graph->task(task).operation))
      text += "\n" + hiding(std::vector<graph::TaskId>{task});
    return text;
  }

  std::string box_note(std::span<const graph::TaskId> tasks) const {
    double sum = 0;
    for (const graph::TaskId task : tasks) sum += ns(task);
    const std::string each = format_time(sum / static_cast<double>(tasks.size()));
    std::string text = tasks.size() == 1 ? each : fmt::format("{} × {}", tasks.size(), each);
    const bool communicates = std::all_of(tasks.begin(), tasks.end(), [&](graph::TaskId task) {
      return graph::is_collective(plan_.graph->task(task).operation);
    });
    if (communicates) text = fmt::format("on stream {}, {}\n{}", stream(tasks.front()), text, hiding(tasks));
    return text;
  }

 private:
  // "beside mlp.up.gemm_dw", "exposed", "40 % exposed, else beside …".
  std::string hiding(std::span<const graph::TaskId> tasks) const {
    double exposed = 0, sum = 0;
    std::map<std::string, double> partners;
    for (const graph::TaskId task : tasks) {
      const Hidden one = hidden(task);
      exposed += one.exposed_ns;
      sum += one.ns;
      for (const auto& [partner, overlap] : one.beside) partners[short_name(plan_.graph->task(partner))] += overlap;
    }
    const double share = sum > 0 ? exposed / sum : 0;
    if (partners.empty() || share > 0.95) return "exposed";
    const auto most = std::max_element(partners.begin(), partners.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const std::string others = partners.size() > 1 ? fmt::format(" and {} more", partners.size() - 1) : "";
    const std::string beside = fmt::format("beside {}{}", most->first, others);
    return share < 0.05 ? beside : fmt::format("{:.0f} % exposed, else\n{}", 100 * share, beside);
  }

  const plan::Plan& plan_;
  const plan::StepTrace& step_;
  graph::CriticalPath path_;
  std::span<const double> costs_;
  std::vector<std::pair<plan::TaskTime, graph::TaskId>> computations_;  // by begin
  Intervals busy_;
  std::int64_t longest_ = 0;
};

}  // namespace

DrawingOptions planned(const plan::Plan& plan, DrawingOptions options) {
  if (options.title.empty()) options.title = "one step of one rank, policy " + plan.policy;
  options.added_edges = plan.added_edges;
  options.stream_of = [&plan](graph::TaskId task) {
    const plan::StreamId stream = plan.position[task.index()].stream;
    return StreamStyle{plan.streams[stream.index()].stream.name, std::string(stream_color(stream.index()))};
  };
  options.note = [&plan](graph::TaskId task) {
    const plan::Position& at = plan.position[task.index()];
    const plan::Entry& entry = plan.streams[at.stream.index()].entries[at.entry];
    return plan.reasons.empty() ? std::string() : plan.policy + ": " + plan::to_string(plan.reasons[entry.reason]);
  };
  const graph::Liveness live = graph::liveness(*plan.graph, plan.sequence);
  if (live.peak_bytes > 0) {
    const graph::TaskId peak = plan.sequence[live.peak_position];
    const std::string bytes = format_bytes(static_cast<double>(live.peak_bytes));
    options.marks.push_back({peak, fmt::format("memory peaks here:\n{} of scratch", bytes)});
    options.remarks.push_back(fmt::format("memory peaks in {}: {} of scratch beside {} of state",
                                          plan.graph->task(peak).name, bytes,
                                          format_bytes(static_cast<double>(plan::memory_report(plan).state))));
  }
  return options;
}

DrawingOptions simulated(const simulate::Report& report, DrawingOptions options, std::size_t of_class) {
  const simulate::ClassReport& own = report.classes[of_class];
  options = planned(*own.plan, std::move(options));
  const auto times = std::make_shared<const StepTimes>(report, of_class);
  options.note = [times, reason = options.note](graph::TaskId task) {
    const std::string why = reason(task);
    return times->tooltip(task) + (why.empty() ? "" : "\n" + why);
  };
  options.box_note = [times](std::span<const graph::TaskId> tasks) { return times->box_note(tasks); };
  options.remarks.push_back(fmt::format(
      "simulated step {}, of it {} of communication exposed; critical path {}", format_time(report.step_ns()),
      format_time(static_cast<double>(own.overlap.exposed)), format_time(times->path().length)));
  return options;
}

std::string plan_dot(const plan::Plan& plan, const std::string& file_name, DrawingOptions options) {
  options = planned(plan, std::move(options));
  return dump_dot(Drawing(*plan.graph, options), file_name);
}

}  // namespace weft::inspect
