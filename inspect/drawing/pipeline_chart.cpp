#include "inspect/drawing/pipeline_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/intervals.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/drawing/chart.h"
#include "inspect/drawing/colors.h"
#include "runtime/policy/pipeline/class_units.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kWorks = 5;
constexpr std::array<std::string_view, kWorks> kWorkNames = {"forward", "backward", "backward (input)",
                                                             "backward (weights)", "other"};
constexpr std::array<std::string_view, kWorks> kWorkFills = {"#56B4E9", "#009E73", "#CC79A7", "#E69F00", "#999999"};
constexpr std::array<char, kWorks> kWorkLetters = {'F', 'B', 'B', 'W', 'U'};

/// By task of a stage, without times.
std::vector<PipelineBox> kinds_of(const graph::Graph& graph, std::int32_t stages, std::int32_t micro_batches) {
  std::vector<PipelineBox> kinds(graph.tasks().size());
  if (stages == 0 || micro_batches == 0) return kinds;
  const policy::ClassUnits units(graph, {.ranks = stages, .chunks = {}, .micro_batches = micro_batches});
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    for (std::int32_t m = 0; m < micro_batches; ++m) {
      const bool divided = !units.tasks_of({policy::Work::weight, m, stage}).empty();
      const auto mark = [&](policy::Work of, PipelineWork work) {
        for (const graph::TaskId task : units.tasks_of({of, m, stage})) kinds[task.index()] = {work, m, stage};
      };
      mark(policy::Work::forward, PipelineWork::forward);
      mark(policy::Work::input, divided ? PipelineWork::input : PipelineWork::backward);
      mark(policy::Work::weight, PipelineWork::weight);
    }
  }
  return kinds;
}

std::vector<PipelineBox> boxes_of(const plan::Plan& plan, const plan::StepTrace& step,
                                  const std::vector<PipelineBox>& kinds) {
  std::vector<std::pair<plan::TaskTime, graph::TaskId>> computed;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    for (std::size_t e = 0; e < plan.streams[s].entries.size(); ++e) {
      if (step.times[s][e].end > step.times[s][e].begin)
        computed.emplace_back(step.times[s][e], plan.streams[s].entries[e].task);
    }
  }
  std::ranges::stable_sort(computed, {}, [](const auto& each) { return each.first.begin; });
  // Where the parts of a backward pass take turns, as in 1F1B, they are one box.
  std::set<std::pair<std::int32_t, std::int32_t>> begun_weights, mixed;  // by micro-batch and stage
  for (const auto& [time, task] : computed) {
    const PipelineBox& kind = kinds[task.index()];
    const std::pair pass(kind.micro_batch, kind.stage);
    if (kind.work == PipelineWork::weight) begun_weights.insert(pass);
    if (kind.work == PipelineWork::input && begun_weights.contains(pass)) mixed.insert(pass);
  }
  std::vector<PipelineBox> boxes;
  PipelineBox last;
  for (const auto& [time, task] : computed) {
    PipelineBox kind = kinds[task.index()];
    const bool part = kind.work == PipelineWork::input || kind.work == PipelineWork::weight;
    if (part && mixed.contains({kind.micro_batch, kind.stage})) kind.work = PipelineWork::backward;
    const std::int64_t begin = time.begin - step.begin, end = time.end - step.begin;
    if (!boxes.empty() && kind == last && begin <= boxes.back().end) {
      boxes.back().end = std::max(boxes.back().end, end);
    } else {
      boxes.push_back({kind.work, kind.micro_batch, kind.stage, begin, end});
    }
    last = kind;
  }
  return boxes;
}

/// Numbers of virtual stages and of micro-batches.
std::pair<std::int32_t, std::int32_t> sizes_of(const PipelineChart& chart) {
  std::int32_t stages = 0, micro_batches = 0;
  for (const plan::Plan* plan : chart.played.plans) {
    for (const graph::Task& task : plan->graph->tasks()) {
      stages = std::max(stages, task.stage + 1);
      micro_batches = std::max(micro_batches, task.micro_batch + 1);
    }
  }
  return {stages, micro_batches};
}

std::int64_t step_length(const PipelineChart& chart) {
  std::int64_t length = 0;
  for (const plan::StepTrace* step : chart.played.steps) length = std::max(length, step->end - step->begin);
  return length;
}

/// The share of the step in which no box lies.
double bubble_of(const std::vector<PipelineBox>& boxes, std::int64_t length) {
  Intervals busy;
  for (const PipelineBox& box : boxes) busy.push_back({box.begin, box.end});
  if (length <= 0) return 0;
  return 1 - static_cast<double>(total_length(merged(std::move(busy)))) / static_cast<double>(length);
}

std::string row_end(const PipelineChart& chart, std::size_t row, double bubble) {
  std::string text = fmt::format("{:3.0f} %", 100 * bubble);
  if (row < chart.memory_bytes.size()) text += "  " + format_bytes(static_cast<double>(chart.memory_bytes[row]));
  return text;
}

/// The colour, mixed with black by `share`.
std::string darker(std::string_view color, double share) {
  std::string mixed = "#";
  for (std::size_t i = 1; i < 7; i += 2) {
    const int part = std::stoi(std::string(color.substr(i, 2)), nullptr, 16);
    mixed += fmt::format("{:02X}", static_cast<int>(std::lround(part * (1 - share))));
  }
  return mixed;
}

// Letters of 11 pixels can still be read where a page of 880 pixels shows the picture.
constexpr double kStageNames = 70, kStageLanes = 800, kStageEnds = 110, kStageLegend = 16;
constexpr double kStageRow = 26, kStageBox = 22, kChartTitle = 26, kChartTop = 10, kDigitWidth = 6.2;

/// Writes the picture from top to bottom.
class PipelineDrawing {
 public:
  explicit PipelineDrawing(std::span<const PipelineChart> charts)
      : charts_(charts), names_(names_width(charts)), picture_(names_ + kStageLanes + kStageEnds, height_of(charts)) {
    for (const PipelineChart& chart : charts) {
      length_ = std::max({length_, static_cast<double>(step_length(chart)), chart.bound_ns});
    }
  }

  Picture picture() {
    append_axis();
    double y = kChartTop;
    for (const PipelineChart& chart : charts_) {
      if (!chart.title.empty()) picture_.text(10, y + 12, chart.title, {.size = 14, .bold = true});
      y += kChartTitle;
      const double top = y;
      const std::vector<std::vector<PipelineBox>> rows = pipeline_boxes(chart);
      for (std::size_t row = 0; row < rows.size(); ++row, y += kStageRow) append_row(chart, row, rows[row], y);
      if (chart.bound_ns > 0) append_bound(chart, top - 4, y);
    }
    append_legend(picture_.height() - 12 - kStageLegend);
    return picture_;
  }

 private:
  static std::string name_of(const PipelineChart& chart, std::size_t row) {
    return fmt::format("stage {}{}", row, row < chart.ranks.size() ? ", " + chart.ranks[row] : "");
  }
  static double names_width(std::span<const PipelineChart> charts) {
    double width = kStageNames;
    for (const PipelineChart& chart : charts) {
      for (std::size_t row = 0; row < chart.played.plans.size(); ++row)
        width = std::max(width, kDigitWidth * static_cast<double>(text_width(name_of(chart, row))) + 16);
    }
    return width;
  }
  static double height_of(std::span<const PipelineChart> charts) {
    double height = kChartTop + 56 + kStageLegend;  // of the axis and the legend
    for (const PipelineChart& chart : charts)
      height += kChartTitle + kStageRow * static_cast<double>(chart.played.plans.size());
    return height;
  }

  double x(double ns) const { return names_ + kStageLanes * ns / length_; }

  void append_axis() {
    const ChartAxis axis{.unit = ChartUnit::seconds, .from_zero = true};
    const double bottom = picture_.height() - 44 - kStageLegend;
    for (const double tick : chart_ticks(axis, 0, length_ / 1e9)) {
      picture_.line({x(tick * 1e9), kChartTop}, {x(tick * 1e9), bottom}, {.stroke = "#e0e0e0"});
      picture_.text(x(tick * 1e9), bottom + 14, chart_tick_text(axis, tick, length_ / 1e9),
                    {.color = "#555555", .anchor = TextPaint::Anchor::middle});
    }
  }

  void append_row(const PipelineChart& chart, std::size_t row, const std::vector<PipelineBox>& boxes, double y) {
    const std::int64_t length = step_length(chart);
    picture_.text(names_ - 8, y + 15, name_of(chart, row), {.anchor = TextPaint::Anchor::end});
    picture_.rect(names_, y, x(static_cast<double>(length)) - names_, kStageBox, {.fill = "#f4f4f4"});
    for (const PipelineBox& box : boxes) append_box(box, static_cast<std::int32_t>(chart.played.plans.size()), y);
    const double bubble = bubble_of(boxes, length);
    picture_.begin_group(fmt::format("no computation runs on stage {} in {:.1f} % of the step", row, 100 * bubble));
    picture_.text(names_ + kStageLanes + 8, y + 15, row_end(chart, row, bubble), {.color = "#555555"});
    picture_.end_group();
  }

  void append_box(const PipelineBox& box, std::int32_t ranks, double y) {
    const auto work = static_cast<std::size_t>(box.work);
    const std::int32_t chunk = box.stage < 0 ? 0 : box.stage / ranks;
    const std::string fill = darker(kWorkFills[work], 1 - std::pow(0.72, chunk));
    used_.insert({box.work, chunk});
    const double begin = x(static_cast<double>(box.begin)),
                 width = std::max(0.5, x(static_cast<double>(box.end)) - begin);
    const std::string number = box.micro_batch < 0 ? "" : fmt::format("{}", box.micro_batch);
    picture_.begin_group(fmt::format(
        "{}{}{}\n{} to {}, {}", kWorkNames[work], number.empty() ? "" : " of micro-batch " + number,
        box.stage < 0 ? "" : fmt::format(", virtual stage {}", box.stage), format_time(static_cast<double>(box.begin)),
        format_time(static_cast<double>(box.end)), format_time(static_cast<double>(box.end - box.begin))));
    picture_.rect(begin, y, width, kStageBox, {.fill = fill, .stroke = width > 3 ? "#ffffff" : "", .width = 0.5});
    if (width > kDigitWidth * static_cast<double>(number.size()) + 2) {
      picture_.text(begin + width / 2, y + 15, number,
                    {.size = 10, .color = chunk == 0 ? "#000000" : "#FFFFFF", .anchor = TextPaint::Anchor::middle});
    }
    picture_.end_group();
  }

  void append_bound(const PipelineChart& chart, double top, double bottom) {
    picture_.begin_group(fmt::format("no policy is faster on these graphs: {}", format_time(chart.bound_ns)));
    const double at = x(chart.bound_ns);
    picture_.line({at, top}, {at, bottom}, {.stroke = kMarkColor, .width = 2, .dashed = true});
    picture_.text(at - 4, top - 2, fmt::format("lower bound {}", format_time(chart.bound_ns)),
                  {.color = kMarkColor, .anchor = TextPaint::Anchor::end});
    picture_.end_group();
  }

  void append_legend(double y) {
    double at = names_;
    for (const auto& [work, chunk] : used_) {
      const auto i = static_cast<std::size_t>(work);
      const std::string name =
          chunk == 0 ? std::string(kWorkNames[i]) : fmt::format("{}, chunk {}", kWorkNames[i], chunk);
      const double width = 34 + kDigitWidth * static_cast<double>(name.size());
      if (at + width > picture_.width()) at = names_, y += kStageLegend;
      picture_.rect(at, y - 9, 14, 10, {.fill = darker(kWorkFills[i], 1 - std::pow(0.72, chunk))});
      picture_.text(at + 18, y, name);
      at += width;
    }
  }

  std::span<const PipelineChart> charts_;
  double names_;
  Picture picture_;
  double length_ = 1;  // nothing to show still has an axis
  std::set<std::pair<PipelineWork, std::int32_t>> used_;
};

}  // namespace

PipelineChart pipeline_chart(const simulate::Report& report, const graph::Grid& grid) {
  PipelineChart chart;
  chart.title = fmt::format("{}: step {}, {:.1f} % bubble", report.policy.name, format_time(report.step_ns()),
                            100 * simulate::bubble_share(report.times()));
  chart.played = report.played();
  for (const simulate::ClassReport& each : report.classes) chart.memory_bytes.push_back(each.memory.total());
  chart.bound_ns = report.bounds.best();
  if (grid.pipe != static_cast<std::int64_t>(report.classes.size())) return chart;
  std::vector<std::vector<std::int64_t>> ranks(report.classes.size());
  for (std::int64_t rank = 0; rank < grid.ranks(); ++rank)
    ranks[static_cast<std::size_t>(graph::coordinates_of(grid, rank).pipe)].push_back(rank);
  for (const std::vector<std::int64_t>& of_stage : ranks) chart.ranks.push_back(graph::ranks_text(of_stage, 3));
  return chart;
}

std::vector<std::vector<PipelineBox>> pipeline_boxes(const PipelineChart& chart) {
  const auto [stages, micro_batches] = sizes_of(chart);
  std::vector<std::vector<PipelineBox>> rows;
  for (std::size_t k = 0; k < chart.played.plans.size(); ++k) {
    const plan::Plan& plan = *chart.played.plans[k];
    rows.push_back(boxes_of(plan, *chart.played.steps[k], kinds_of(*plan.graph, stages, micro_batches)));
  }
  return rows;
}

Picture pipeline_picture(std::span<const PipelineChart> charts) {
  return PipelineDrawing(charts).picture();
}

std::string pipeline_text(const PipelineChart& chart, int columns) {
  const std::vector<std::vector<PipelineBox>> rows = pipeline_boxes(chart);
  const std::int64_t length = std::max<std::int64_t>(1, step_length(chart));
  std::vector<std::string> names, ends;
  std::size_t name_width = 0, end_width = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    names.push_back(fmt::format("stage {}", row));
    ends.push_back(row_end(chart, row, bubble_of(rows[row], length)));
    name_width = std::max(name_width, names.back().size());
    end_width = std::max(end_width, ends.back().size());
  }
  const std::size_t frame = name_width + end_width + 4;  // "name |cells| end"
  const auto cells = static_cast<std::int64_t>(
      std::max<std::size_t>(static_cast<std::size_t>(std::max(columns, 60)), frame + 20) - frame);
  std::string out = chart.title.empty() ? "" : chart.title + "\n";
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::string line(static_cast<std::size_t>(cells), '.');
    std::vector<std::int64_t> most(static_cast<std::size_t>(cells), 0), busy = most;
    for (const PipelineBox& box : rows[row]) {
      const std::int64_t last = std::min(cells - 1, (box.end * cells - 1) / length);
      for (std::int64_t cell = box.begin * cells / length; cell <= last; ++cell) {
        const std::int64_t begin = std::max(box.begin, cell * length / cells),
                           end = std::min(box.end, (cell + 1) * length / cells);
        const auto i = static_cast<std::size_t>(cell);
        busy[i] += std::max<std::int64_t>(0, end - begin);
        if (end - begin <= most[i]) continue;
        most[i] = end - begin;
        const char letter = kWorkLetters[static_cast<std::size_t>(box.work)];
        line[i] = box.micro_batch % 2 == 1 ? static_cast<char>(letter - 'A' + 'a') : letter;
      }
    }
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (2 * busy[i] * cells < length) line[i] = '.';
    }
    out += fmt::format("{:<{}} |{}| {}\n", names[row], name_width, line, ends[row]);
  }
  return out + "(F forward, B backward, W its weights, U other; small letters: every other micro-batch; . bubble)\n";
}

}  // namespace weft::inspect
