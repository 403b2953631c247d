#include "inspect/report/step_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "inspect/drawing/colors.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kKinds = kKindStyles.size();
constexpr std::string_view kIdleColor = "#dddddd";

struct TaskEdge {
  std::int64_t time = 0;
  std::size_t kind = 0;
  bool compute = true;
  int by = 0;  // 1 where a task begins, -1 where it ends
};

/// A row of boxes as wide as their shares. Narrow ones are told by the colours in the rows below.
std::string bar_html(const StepShares& shares) {
  constexpr double kRoom = 15;
  std::string out = "<div class=\"shares\" role=\"img\" aria-label=\"shares of the step\">";
  const auto piece = [&](std::string_view name, std::string_view fill, std::string_view text, double ns) {
    const double percent = shares.step_ns > 0 ? 100 * ns / shares.step_ns : 0;
    if (percent < 0.05) return;
    fmt::format_to(std::back_inserter(out),
                   "<span style=\"flex-grow:{1:.1f};background:{2};color:{3}\" title=\"{0} {1:.1f} %\">", name, percent,
                   fill, text);
    if (percent >= kRoom) fmt::format_to(std::back_inserter(out), "{} {:.0f} %", name, percent);
    out += "</span>";
  };
  for (const KindShare& kind : shares.kinds) {
    const KindStyle& style = style_of(kind.kind);
    piece(style.name, style.fill, style.text, kind.share_ns);
  }
  piece("idle", kIdleColor, "#000000", shares.idle_ns);
  return out + "</div>\n";
}

}  // namespace

StepShares step_shares(const plan::Recording& recording, const plan::RecordedStep& step) {
  StepShares out{.step_ns = static_cast<double>(step.end - step.begin)};
  std::array<KindShare, kKinds> kinds;
  std::vector<TaskEdge> changes;
  for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
    const plan::RecordedTask& task = recording.tasks[i];
    const auto kind = static_cast<std::size_t>(task.style);
    ++kinds[kind].tasks;
    kinds[kind].busy += std::max<std::int64_t>(0, step.times[i].end - step.times[i].begin);
    const std::int64_t begin = std::max(step.times[i].begin, step.begin), end = std::min(step.times[i].end, step.end);
    if (begin >= end) continue;
    if (recording.streams[task.stream].local) continue;
    const bool compute = recording.streams[task.stream].compute;
    changes.push_back({begin, kind, compute, 1});
    changes.push_back({end, kind, compute, -1});
  }
  std::ranges::sort(changes, {}, &TaskEdge::time);
  std::array<std::array<int, kKinds>, 2> running{};  // communicating, computing
  std::array<int, 2> count{};
  std::int64_t time = step.begin;
  const auto pass = [&](std::int64_t until) {
    const auto length = static_cast<double>(until - time);
    const std::size_t what = count[1] > 0 ? 1 : 0;
    if (count[what] == 0) out.idle_ns += length;
    for (std::size_t kind = 0; count[what] > 0 && kind < kKinds; ++kind) {
      kinds[kind].share_ns += length * running[what][kind] / count[what];
    }
    time = until;
  };
  for (const TaskEdge& change : changes) {
    pass(change.time);
    running[change.compute ? 1 : 0][change.kind] += change.by;
    count[change.compute ? 1 : 0] += change.by;
  }
  pass(step.end);
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    kinds[kind].kind = kKindStyles[kind].kind;
    if (kinds[kind].tasks > 0) out.kinds.push_back(kinds[kind]);
  }
  return out;
}

ReportTable shares_table(const plan::Recording& recording) {
  const plan::RecordedRank& rank = recording.ranks.front();
  const plan::RecordedStep& step = rank.steps.back();
  const StepShares shares = step_shares(recording, step);
  ReportTable table{.title = "Shares of the step",
                    .note = fmt::format("Of rank {}, step {}. A moment counts for what computes in it; where nothing "
                                        "computes, for the communication, which is then exposed.",
                                        rank.rank, step.step),
                    .heads = {"kind", "tasks", "busy ms", "of the step ms", "of the step %"}};
  table.picture = bar_html(shares);
  const auto row = [&](std::string_view name, std::string_view fill, std::string tasks, std::string busy, double ns) {
    ReportCell head{std::string(name)};
    head.swatch = fill;
    table.rows.push_back({std::move(head),
                          {std::move(tasks)},
                          {std::move(busy)},
                          {fmt::format("{:.3f}", ns * 1e-6)},
                          {fmt::format("{:.1f}", shares.step_ns > 0 ? 100 * ns / shares.step_ns : 0)}});
  };
  for (const KindShare& kind : shares.kinds) {
    row(style_of(kind.kind).name, style_of(kind.kind).fill, fmt::format("{}", kind.tasks),
        fmt::format("{:.3f}", static_cast<double>(kind.busy) * 1e-6), kind.share_ns);
  }
  row("idle", kIdleColor, "", "", shares.idle_ns);
  return table;
}

}  // namespace weft::inspect
