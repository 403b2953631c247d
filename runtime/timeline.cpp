#include "runtime/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "graph/colors.h"
#include "graph/text.h"

namespace weft {
namespace {

double milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string summary_line(const OverlapSummary& s) {
  return fmt::format("step {:.2f} ms: computing {:.2f} ms, communicating {:.2f} ms, of which exposed {:.2f} ms",
                     milliseconds(s.step), milliseconds(s.compute), milliseconds(s.communication),
                     milliseconds(s.exposed));
}

// From the first begin to the last end that is to be shown.
Interval span_of(const StepTrace& trace) {
  Interval span{trace.begin, trace.end};
  for (const auto& stream : trace.times) {
    for (const TaskTime& time : stream) {
      span.begin = std::min(span.begin, time.begin);
      span.end = std::max(span.end, time.end);
    }
  }
  return span;
}

}  // namespace

std::string timeline_text(const Plan& plan, const StepTrace& trace, int columns) {
  const BusyTimes busy = busy_times(plan, trace);
  const Interval span = span_of(trace);
  std::size_t name_width = 0;
  for (const StreamPlan& stream : plan.streams) name_width = std::max(name_width, stream.stream.name.size());
  const std::size_t frame = name_width + 9;  // "name |cells|  93 %"
  const std::size_t cells = std::max<std::size_t>(static_cast<std::size_t>(std::max(columns, 40)), frame + 10) - frame;
  const auto edge = [&](std::size_t cell) {
    return span.begin + (span.end - span.begin) * static_cast<std::int64_t>(cell) / static_cast<std::int64_t>(cells);
  };

  std::string out;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    const bool compute = plan.streams[i].stream.compute;
    out += fmt::format("{:<{}} |", plan.streams[i].stream.name, name_width);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const Intervals window = {{edge(cell), edge(cell + 1)}};
      const Intervals active = intersection(busy.streams[i], window);
      const std::int64_t length = total_length(active);
      if (length == 0) {
        out += '.';
      } else if (2 * length < window[0].end - window[0].begin) {
        out += '+';
      } else if (compute) {
        out += '#';
      } else {
        out += 2 * total_length(intersection(active, busy.exposed)) >= length ? '!' : '=';
      }
    }
    out += fmt::format("| {:3.0f} %\n", percent(total_length(busy.streams[i]), span.end - span.begin));
  }
  return out + summary_line(summarize(plan, trace)) +
         "\n(# computing, = communicating, ! exposed, + busy for less than half of the time, . idle)\n";
}

namespace {

constexpr double kLeft = 130, kWidth = 1200, kRight = 60;
constexpr double kRow = 24, kBar = 17, kExposed = 4, kHead = 46, kRankGap = 22;

/// Writes the picture from top to bottom.
class SvgTimeline {
 public:
  SvgTimeline(const Plan& plan, std::span<const StepTrace> ranks) : plan_(plan), ranks_(ranks) {
    if (!ranks.empty()) span_ = span_of(ranks[0]);
    for (const StepTrace& trace : ranks) {
      const Interval one = span_of(trace);
      span_ = {std::min(span_.begin, one.begin), std::max(span_.end, one.end)};
    }
    // Nothing to show still has an axis.
    span_.end = std::max(span_.end, span_.begin + 1);
  }

  std::string text() {
    const double rows = static_cast<double>(ranks_.size() * plan_.streams.size()) * kRow;
    const double bottom = kHead + rows + static_cast<double>(ranks_.size()) * kRankGap;
    const double height = bottom + 60;
    append(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\"",
        kLeft + kWidth + kRight, height);
    append(" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n");
    append("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
    append("<text x=\"10\" y=\"18\" font-size=\"14\">Step {}, policy {}</text>\n", ranks_.empty() ? 0 : ranks_[0].step,
           xml_escaped(plan_.policy));
    append_axis(bottom);
    double y = kHead;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) y = append_rank(rank, y);
    append_legend(bottom + 34);
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <class... T>
  void append(fmt::format_string<T...> format, T&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(arguments)...);
  }

  double x(std::int64_t time) const {
    return kLeft + kWidth * static_cast<double>(time - span_.begin) / static_cast<double>(span_.end - span_.begin);
  }

  // A tick at every 1, 2 or 5 times a power of ten, six to fifteen in all.
  void append_axis(double bottom) {
    const double length = milliseconds(span_.end - span_.begin);
    const double power = std::pow(10.0, std::floor(std::log10(length / 6)));
    const double tick = length / 6 >= 5 * power ? 5 * power : length / 6 >= 2 * power ? 2 * power : power;
    const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(tick) + 1e-9)));
    for (int i = 0; i * tick <= length * (1 + 1e-9); ++i) {
      const double at = kLeft + kWidth * i * tick / length;
      append("<line x1=\"{0:.2f}\" y1=\"{1:.0f}\" x2=\"{0:.2f}\" y2=\"{2:.0f}\" stroke=\"#e0e0e0\"/>\n", at, kHead - 6,
             bottom);
      append("<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"#555555\">{:.{}f}</text>\n", at,
             bottom + 14, i * tick, digits);
    }
    append("<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555555\">ms</text>\n", kLeft + kWidth + 30, bottom + 14);
  }

  double append_rank(std::size_t rank, double y) {
    const BusyTimes busy = busy_times(plan_, ranks_[rank]);
    append("<text x=\"10\" y=\"{:.0f}\" font-weight=\"bold\">rank {}</text>\n", y + 10, rank);
    append("<text x=\"{:.0f}\" y=\"{:.0f}\" fill=\"#555555\">{}</text>\n", kLeft, y + 10,
           summary_line(summarize(plan_, ranks_[rank])));
    y += kRankGap - 6;
    for (std::size_t stream = 0; stream < plan_.streams.size(); ++stream, y += kRow) {
      append("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 12,
             xml_escaped(plan_.streams[stream].stream.name));
      append("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#f4f4f4\"/>\n", kLeft, y,
             kWidth, kBar);
      append_tasks(rank, stream, y);
      append("<text x=\"{:.0f}\" y=\"{:.1f}\" fill=\"#555555\">{:.0f} %</text>\n", kLeft + kWidth + 8, y + 12,
             percent(total_length(busy.streams[stream]), span_.end - span_.begin));
      if (plan_.streams[stream].stream.compute) continue;
      for (const Interval& bar : intersection(busy.streams[stream], busy.exposed)) {
        append(
            "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"><title>exposed {:.3f} ms"
            "</title></rect>\n",
            x(bar.begin), y + kBar, std::max(0.5, x(bar.end) - x(bar.begin)), kExposed, kAlarmColor,
            milliseconds(bar.end - bar.begin));
      }
    }
    return y + 6;
  }

  void append_tasks(std::size_t rank, std::size_t stream, double y) {
    for (std::size_t i = 0; i < plan_.streams[stream].entries.size(); ++i) {
      const Task& task = plan_.graph->task(plan_.streams[stream].entries[i].task);
      const TaskTime& time = ranks_[rank].times[stream][i];
      const KindStyle& style = style_of(task.operation);
      kinds_.insert(style.kind);
      const double width = std::max(0.5, x(time.end) - x(time.begin));
      const std::string name = xml_escaped(task.name);
      append("<g><title>{}\n{:.3f} to {:.3f} ms, {:.3f} ms</title>", name, milliseconds(time.begin - span_.begin),
             milliseconds(time.end - span_.begin), milliseconds(time.end - time.begin));
      append("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"", x(time.begin), y, width,
             kBar, style.fill);
      // A border would hide what is narrower than itself.
      append("{}/>", width > 4 ? " stroke=\"#ffffff\" stroke-width=\"0.5\"" : "");
      if (width > 5.4 * static_cast<double>(task.name.size()) + 6) {
        append("<text x=\"{:.2f}\" y=\"{:.1f}\" font-size=\"10\" fill=\"{}\">{}</text>", x(time.begin) + 3, y + 12,
               style.text, name);
      }
      append("</g>\n");
    }
  }

  void append_legend(double y) {
    double at = kLeft;
    const auto entry = [&](std::string_view name, std::string_view fill, double height) {
      append("<rect x=\"{:.0f}\" y=\"{:.1f}\" width=\"14\" height=\"{:.0f}\" fill=\"{}\"/>", at, y - height + 1, height,
             fill);
      append("<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", at + 18, y, xml_escaped(name));
      at += 34 + 6.2 * static_cast<double>(name.size());
    };
    for (const KindClass kind : kinds_) entry(style_of(kind).name, style_of(kind).fill, 10);
    if (!kinds_.empty()) entry("exposed communication", kAlarmColor, kExposed);
  }

  const Plan& plan_;
  std::span<const StepTrace> ranks_;
  Interval span_;
  std::set<KindClass> kinds_;
  std::string out_;
};

}  // namespace

std::string timeline_svg(const Plan& plan, std::span<const StepTrace> ranks_of_one_step) {
  return SvgTimeline(plan, ranks_of_one_step).text();
}

}  // namespace weft
