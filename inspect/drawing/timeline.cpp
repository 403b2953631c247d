#include "inspect/drawing/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "base/utf8.h"
#include "inspect/drawing/colors.h"
#include "inspect/drawing/task_label.h"

namespace weft::inspect {
namespace {

double milliseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

double percent_of(std::int64_t part, std::int64_t whole) {
  return whole <= 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string summary_line(const plan::OverlapSummary& s) {
  return fmt::format("step {:.2f} ms: computing {:.2f} ms, communicating {:.2f} ms, of which exposed {:.2f} ms",
                     milliseconds(s.step), milliseconds(s.compute), milliseconds(s.communication),
                     milliseconds(s.exposed));
}

// From the first begin to the last end that is to be shown.
Interval span_of(const plan::RecordedStep& step) {
  Interval span{step.begin, step.end};
  for (const plan::TaskTime& time : step.times) {
    span.begin = std::min(span.begin, time.begin);
    span.end = std::max(span.end, time.end);
  }
  return span;
}

plan::MemoryPoint peak_of(const std::vector<plan::MemoryPoint>& curve) {
  return *std::ranges::max_element(curve, {}, &plan::MemoryPoint::bytes);
}

// The most bytes that are alive within each of `windows` equal parts of the span.
std::vector<std::int64_t> most_alive(const std::vector<plan::MemoryPoint>& curve, Interval span, std::size_t windows) {
  std::vector<std::int64_t> most(windows, 0);
  const auto window = [&](std::int64_t time) {
    const double share = static_cast<double>(time - span.begin) / static_cast<double>(span.end - span.begin);
    return std::min(windows - 1, static_cast<std::size_t>(std::max(0.0, share) * static_cast<double>(windows)));
  };
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const std::size_t last = i + 1 < curve.size() ? window(curve[i + 1].time) : windows - 1;
    for (std::size_t at = window(curve[i].time); at <= last; ++at) most[at] = std::max(most[at], curve[i].bytes);
  }
  return most;
}

/// By stream, in the order in which they began.
std::vector<std::vector<std::uint32_t>> tasks_by_begin(const plan::Recording& recording,
                                                       const plan::RecordedStep& step) {
  std::vector<std::vector<std::uint32_t>> streams(recording.streams.size());
  for (std::uint32_t i = 0; i < recording.tasks.size(); ++i) streams[recording.tasks[i].stream].push_back(i);
  for (std::vector<std::uint32_t>& tasks : streams) {
    std::ranges::stable_sort(tasks, {}, [&](std::uint32_t task) { return step.times[task].begin; });
  }
  return streams;
}

}  // namespace

std::vector<std::uint32_t> critical_path(const plan::Recording& recording, const plan::RecordedStep& step) {
  const std::size_t tasks = recording.tasks.size();
  if (tasks == 0) return {};
  constexpr std::uint32_t kNone = UINT32_MAX;
  // By task: of the tasks that it may have waited for, the one that ended last. A dependency ends before the task
  // begins, but clocks that are a microsecond apart may show the opposite: it counts as long as it began before the
  // task.
  std::vector<std::uint32_t> before(tasks, kNone);
  const auto offer = [&](std::uint32_t from, std::uint32_t to) {
    if (std::pair(step.times[from].begin, from) >= std::pair(step.times[to].begin, to)) return;
    std::uint32_t& best = before[to];
    if (best == kNone || std::pair(step.times[from].end, from) > std::pair(step.times[best].end, best)) best = from;
  };
  for (const plan::RecordedEdge& edge : recording.edges) {
    if (edge.distance == 0) offer(edge.from, edge.to);
  }
  for (const std::vector<std::uint32_t>& on_stream : tasks_by_begin(recording, step)) {
    for (std::size_t i = 1; i < on_stream.size(); ++i) offer(on_stream[i - 1], on_stream[i]);
  }
  const auto latest = std::ranges::max_element(step.times, {}, &plan::TaskTime::end);
  const auto last = static_cast<std::uint32_t>(latest - step.times.begin());
  std::vector<std::uint32_t> chain;
  for (std::uint32_t task = last; task != kNone; task = before[task]) chain.push_back(task);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::string timeline_text(const plan::Recording& recording, const plan::RecordedStep& step, int columns) {
  const plan::BusyTimes busy = plan::busy_times(recording, step);
  const Interval span = span_of(step);
  std::size_t name = 6;  // "memory"
  for (const plan::RecordedStream& stream : recording.streams) name = std::max(name, stream.name.size());
  const std::size_t frame = name + 9;  // "name |cells|  93 %"
  const std::size_t cells = std::max<std::size_t>(static_cast<std::size_t>(std::max(columns, 40)), frame + 10) - frame;
  const auto edge = [&](std::size_t cell) {
    return span.begin + (span.end - span.begin) * static_cast<std::int64_t>(cell) / static_cast<std::int64_t>(cells);
  };

  std::string out;
  for (std::size_t i = 0; i < recording.streams.size(); ++i) {
    const bool computes = !recording.streams[i].communicates();
    out += fmt::format("{:<{}} |", recording.streams[i].name, name);
    for (std::size_t cell = 0; cell < cells; ++cell) {
      const Intervals window = {{edge(cell), edge(cell + 1)}};
      const Intervals active = intersection(busy.streams[i], window);
      const std::int64_t length = total_length(active);
      if (length == 0) {
        out += '.';
      } else if (2 * length < window[0].end - window[0].begin) {
        out += '+';
      } else if (computes) {
        out += '#';
      } else {
        out += 2 * total_length(intersection(active, busy.exposed)) >= length ? '!' : '=';
      }
    }
    out += fmt::format("| {:3.0f} %\n", percent_of(total_length(busy.streams[i]), span.end - span.begin));
  }
  const std::vector<plan::MemoryPoint> curve = plan::memory_curve(recording, step);
  if (const std::int64_t peak = peak_of(curve).bytes; peak > 0 && span.end > span.begin) {
    out += fmt::format("{:<{}} |", "memory", name);
    for (const std::int64_t bytes : most_alive(curve, span, cells)) {
      out += bytes == 0 ? '.' : static_cast<char>('0' + std::min<std::int64_t>(9, bytes * 10 / peak));
    }
    out += fmt::format("| {}\n", format_bytes(static_cast<double>(peak)));
  }
  return out + summary_line(plan::summarize(recording, step)) +
         "\n(# computing, = communicating, ! exposed, + busy for less than half of the time, . idle)\n";
}

namespace {

// Letters of 11 pixels can still be read where a page of 880 pixels shows the picture.
constexpr double kLanesWidth = 800, kRight = 80, kLegendRow = 16;
// Room for names of streams, which a trace may give: at least, and at most.
constexpr double kLeastNames = 100, kMostNames = 420, kNameLetter = 6.2;
constexpr double kRow = 24, kBar = 17, kExposed = 4, kScaleHeight = 30, kCurve = 60, kPartTitle = 22, kRankTitle = 16;
// Bars that are narrower and nearer than this become one.
constexpr double kPixel = 1;
// The width of a letter on a bar, and the space that stays free beside the text.
constexpr double kTaskLetter = 5.8, kInset = 8;
// Lines of the critical path between rows are at least so far apart: nearer ones would be a block.
constexpr double kTurns = 8, kPathAbove = 1.5;

/// Writes the picture from top to bottom.
class Timeline {
 public:
  explicit Timeline(std::span<const TimelinePart> parts)
      : parts_(parts), names_(names_width(parts)), picture_(names_ + kLanesWidth + kRight, 0) {
    double height = kScaleHeight;
    for (const TimelinePart& part : parts) {
      height += kPartTitle;
      const plan::Recording& recording = *part.recording;
      for (const plan::RecordedRank& rank : recording.ranks) {
        if (rank.steps.empty()) continue;
        const Interval span = span_of(rank.steps.back());
        length_ = std::max(length_, span.end - begin_of(recording));
        height += kRankTitle + kRow * static_cast<double>(recording.streams.size()) + kCurve + 14;
      }
      length_ = std::max(length_, static_cast<std::int64_t>(part.bound_ns));
    }
    bottom_ = height;
    picture_ = Picture(names_ + kLanesWidth + kRight, height + 60 + kLegendRow);
  }

  Picture picture() {
    append_axis();
    double y = kScaleHeight;
    for (const TimelinePart& part : parts_) {
      picture_.text(10, y + 12, part.title, {.size = 14, .bold = true});
      const double top = y;
      y += kPartTitle;
      for (const plan::RecordedRank& rank : part.recording->ranks) {
        if (!rank.steps.empty()) y = append_rank(*part.recording, rank, y);
      }
      if (part.bound_ns > 0) append_bound(part, top + 4, y - 8);
    }
    append_legend(bottom_ + 34);
    return picture_;
  }

 private:
  static double names_width(std::span<const TimelinePart> parts) {
    std::size_t longest = 0;
    for (const TimelinePart& part : parts) {
      for (const plan::RecordedStream& stream : part.recording->streams)
        longest = std::max(longest, text_width(stream.name));
    }
    return std::clamp(kNameLetter * static_cast<double>(longest) + 20, kLeastNames, kMostNames);
  }

  // Of all ranks' last steps: their clocks agree.
  static std::int64_t begin_of(const plan::Recording& recording) {
    std::int64_t begin = INT64_MAX;
    for (const plan::RecordedRank& rank : recording.ranks) {
      if (!rank.steps.empty()) begin = std::min(begin, span_of(rank.steps.back()).begin);
    }
    return begin;
  }

  double x(std::int64_t time) const {
    return names_ + kLanesWidth * static_cast<double>(time - begin_) / static_cast<double>(length_);
  }

  // A tick at every 1, 2 or 5 times a power of ten, six to fifteen in all.
  void append_axis() {
    const double length = milliseconds(length_);
    const double power = std::pow(10.0, std::floor(std::log10(length / 6)));
    const double tick = length / 6 >= 5 * power ? 5 * power : length / 6 >= 2 * power ? 2 * power : power;
    const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(tick) + 1e-9)));
    for (int i = 0; i * tick <= length * (1 + 1e-9); ++i) {
      const double at = names_ + kLanesWidth * i * tick / length;
      picture_.line({at, kScaleHeight - 6}, {at, bottom_}, {.stroke = "#e0e0e0"});
      picture_.text(at, bottom_ + 14, fmt::format("{:.{}f}", i * tick, digits),
                    {.color = "#555555", .anchor = TextPaint::Anchor::middle});
    }
    picture_.text(names_ + kLanesWidth + 30, bottom_ + 14, "ms", {.color = "#555555"});
  }

  void append_bound(const TimelinePart& part, double top, double bottom) {
    begin_ = 0;
    const double at = x(static_cast<std::int64_t>(part.bound_ns));
    picture_.begin_group(fmt::format("no policy is faster on this graph: {}", format_time(part.bound_ns)));
    picture_.line({at, top}, {at, bottom}, {.stroke = kMarkColor, .width = 2, .dashed = true});
    picture_.text(at - 4, top + 8, fmt::format("lower bound {}", format_time(part.bound_ns)),
                  {.color = kMarkColor, .anchor = TextPaint::Anchor::end});
    picture_.end_group();
  }

  double append_rank(const plan::Recording& recording, const plan::RecordedRank& rank, double y) {
    begin_ = begin_of(recording);
    const plan::RecordedStep& step = rank.steps.back();
    const plan::BusyTimes busy = plan::busy_times(recording, step);
    const Interval span = span_of(step);
    picture_.text(10, y + 8, fmt::format("rank {}", rank.rank), {.bold = true});
    picture_.text(names_, y + 8, summary_line(plan::summarize(recording, step)), {.color = "#555555"});
    y += kRankTitle;
    const double first_row = y;
    const std::vector<std::vector<std::uint32_t>> of_stream = tasks_by_begin(recording, step);
    for (std::size_t stream = 0; stream < recording.streams.size(); ++stream, y += kRow) {
      picture_.text(names_ - 8, y + 12, recording.streams[stream].name, {.anchor = TextPaint::Anchor::end});
      picture_.rect(names_, y, kLanesWidth, kBar, {.fill = "#f4f4f4"});
      append_tasks(recording, step, of_stream[stream], y);
      picture_.text(names_ + kLanesWidth + 8, y + 12,
                    fmt::format("{:.0f} %", percent_of(total_length(busy.streams[stream]), span.end - span.begin)),
                    {.color = "#555555"});
      if (recording.streams[stream].communicates()) {
        append_exposed(intersection(busy.streams[stream], busy.exposed), y + kBar);
      }
    }
    append_chain(recording, step, first_row);
    append_memory(recording, step, y);
    return y + kCurve + 14;
  }

  void append_tasks(const plan::Recording& recording, const plan::RecordedStep& step,
                    const std::vector<std::uint32_t>& tasks, double y) {
    for (std::size_t i = 0; i < tasks.size();) {
      const plan::TaskTime time = step.times[tasks[i]];
      std::size_t end = i + 1;
      if (x(time.end) - x(time.begin) < kPixel) {
        // The neighbours that are as narrow and as near, up to a few pixels.
        std::int64_t last = time.end;
        while (end < tasks.size()) {
          const plan::TaskTime next = step.times[tasks[end]];
          if (x(next.end) - x(next.begin) >= kPixel || x(next.begin) - x(last) >= kPixel / 2 ||
              x(next.end) - x(time.begin) > 3 * kPixel) {
            break;
          }
          last = std::max(last, next.end);
          ++end;
        }
      }
      const std::span<const std::uint32_t> bar(tasks.data() + i, end - i);
      bar.size() == 1 ? append_task(recording.tasks[bar.front()], time, y) : append_merged(recording, step, bar, y);
      i = end;
    }
  }

  void append_task(const plan::RecordedTask& task, plan::TaskTime time, double y) {
    const KindStyle& style = style_of(task.style);
    kinds_.insert(task.style);
    const double width = std::max(0.5, x(time.end) - x(time.begin));
    picture_.begin_group(fmt::format("{}\n{:.3f} to {:.3f} ms, {:.3f} ms", task.name, milliseconds(time.begin - begin_),
                                     milliseconds(time.end - begin_), milliseconds(time.end - time.begin)));
    // A border would hide a bar that is narrower than the border.
    picture_.rect(x(time.begin), y, width, kBar,
                  {.fill = style.fill, .stroke = width > 4 ? "#ffffff" : "", .width = 0.5});
    if (width > kTaskLetter + kInset) {
      const std::vector<std::string> labels = task_labels(task.name);
      const auto letters = static_cast<std::size_t>((width - kInset) / kTaskLetter);
      const auto label = std::ranges::find_if(labels, [&](const std::string& each) { return each.size() <= letters; });
      if (label != labels.end() && !label->empty())
        picture_.text(x(time.begin) + 3, y + 12, *label, {.size = 10, .color = style.text});
    }
    picture_.end_group();
  }

  void append_merged(const plan::Recording& recording, const plan::RecordedStep& step,
                     std::span<const std::uint32_t> tasks, double y) {
    std::map<graph::KindClass, std::int64_t> time_of;
    std::int64_t sum = 0, end = 0;
    for (const std::uint32_t task : tasks) {
      const std::int64_t ns = step.times[task].end - step.times[task].begin;
      time_of[recording.tasks[task].style] += ns;
      sum += ns;
      end = std::max(end, step.times[task].end);
    }
    const auto most = std::max_element(time_of.begin(), time_of.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    kinds_.insert(most->first);
    const std::int64_t begin = step.times[tasks.front()].begin;
    picture_.begin_group(fmt::format("{} tasks, {} to {}\n{:.3f} to {:.3f} ms, busy {:.3f} ms", tasks.size(),
                                     recording.tasks[tasks.front()].name, recording.tasks[tasks.back()].name,
                                     milliseconds(begin - begin_), milliseconds(end - begin_), milliseconds(sum)));
    picture_.rect(x(begin), y, std::max(0.5, x(end) - x(begin)), kBar, {.fill = style_of(most->first).fill});
    picture_.end_group();
  }

  void append_exposed(const Intervals& exposed, double y) {
    for (std::size_t i = 0; i < exposed.size();) {
      std::size_t end = i + 1;
      std::int64_t sum = exposed[i].end - exposed[i].begin;
      while (end < exposed.size() && x(exposed[end].begin) - x(exposed[end - 1].end) < kPixel / 2 &&
             x(exposed[end].end) - x(exposed[i].begin) < 3 * kPixel) {
        sum += exposed[end].end - exposed[end].begin;
        ++end;
      }
      picture_.begin_group(fmt::format("exposed {:.3f} ms", milliseconds(sum)));
      picture_.rect(x(exposed[i].begin), y, std::max(0.5, x(exposed[end - 1].end) - x(exposed[i].begin)), kExposed,
                    {.fill = kAlarmColor});
      picture_.end_group();
      any_exposed_ = true;
      i = end;
    }
  }

  // A thin line above the bars of the path, and the ways between rows as far as they can be told apart.
  void append_chain(const plan::Recording& recording, const plan::RecordedStep& step, double first_row) {
    const std::vector<std::uint32_t> chain = critical_path(recording, step);
    if (chain.empty()) return;
    std::map<double, std::vector<std::pair<double, double>>> rows;  // by height: stretches from left to right
    std::vector<std::array<Point, 2>> turns;
    std::int64_t waited = 0, last_end = step.begin;
    std::map<std::string, std::int64_t> time_on;
    double last_turn = -kTurns, last_row = 0;
    for (const std::uint32_t task : chain) {
      const double row = first_row + kRow * recording.tasks[task].stream - kPathAbove;
      const plan::TaskTime time = step.times[task];
      const double from = x(time.begin), to = std::max(x(time.end), from + kPixel / 2);
      auto& stretches = rows[row];
      if (!stretches.empty() && from - stretches.back().second < kPixel) {
        stretches.back().second = std::max(stretches.back().second, to);
      } else {
        stretches.emplace_back(from, to);
      }
      if (task != chain.front() && row != last_row && from - last_turn >= kTurns) {
        turns.push_back({{{from, last_row}, {from, row}}});
        last_turn = from;
      }
      last_row = row;
      waited += std::max<std::int64_t>(0, time.begin - last_end);
      time_on[recording.streams[recording.tasks[task].stream].name] += time.end - time.begin;
      last_end = time.end;
    }
    std::string told = fmt::format("critical path: {} tasks, waiting {:.3f} ms", chain.size(), milliseconds(waited));
    for (const auto& [stream, ns] : time_on) told += fmt::format("\n{:.3f} ms on {}", milliseconds(ns), stream);
    picture_.begin_group(told, "critical-path");
    for (const auto& turn : turns) picture_.line(turn, {.stroke = kPathColor, .width = 0.5});
    for (const auto& [row, stretches] : rows) {
      for (const auto& [from, to] : stretches) {
        picture_.line({from, row}, {to, row}, {.stroke = kPathColor, .width = 2});
      }
    }
    picture_.end_group();
    any_chain_ = true;
  }

  void append_memory(const plan::Recording& recording, const plan::RecordedStep& step, double y) {
    const std::vector<plan::MemoryPoint> curve = plan::memory_curve(recording, step);
    const plan::MemoryPoint peak = peak_of(curve);
    if (peak.bytes == 0 || x(span_of(step).end) <= x(step.begin)) return;
    const Interval span = span_of(step);
    const double left = x(span.begin), right = x(span.end), height = kCurve - 16, base = y + kCurve - 4;
    const auto windows = static_cast<std::size_t>(std::max(1.0, (right - left) / 2));
    const std::vector<std::int64_t> most = most_alive(curve, span, windows);
    std::vector<Point> points = {{left, base}};
    const double step_width = (right - left) / static_cast<double>(windows);
    for (std::size_t i = 0; i < windows; ++i) {
      const double top = base - height * static_cast<double>(most[i]) / static_cast<double>(peak.bytes);
      if (i > 0 && most[i] == most[i - 1]) {
        points.back().x = left + step_width * static_cast<double>(i + 1);
        continue;
      }
      points.push_back({left + step_width * static_cast<double>(i), top});
      points.push_back({left + step_width * static_cast<double>(i + 1), top});
    }
    points.push_back({right, base});
    picture_.text(names_ - 8, base - 6, "memory", {.anchor = TextPaint::Anchor::end});
    picture_.begin_group("live scratch bytes");
    picture_.line(points, {.fill = "#d9ccE3", .stroke = kMarkColor, .width = 0.7});
    picture_.end_group();
    const double at = x(peak.time);
    const std::array<Point, 3> pointer = {
        {{at, base - height}, {at - 4, base - height - 6}, {at + 4, base - height - 6}}};
    picture_.line(pointer, {.fill = kMarkColor});
    const bool on_the_left = at > names_ + kLanesWidth * 0.7;
    picture_.text(
        at + (on_the_left ? -8 : 8), base - height - 1,
        fmt::format("peak {} of scratch at {:.2f} ms{}{}", format_bytes(static_cast<double>(peak.bytes)),
                    milliseconds(peak.time - begin_), recording.state_bytes > 0 ? ", beside state of " : "",
                    recording.state_bytes > 0 ? format_bytes(static_cast<double>(recording.state_bytes)) : ""),
        {.color = kMarkColor, .anchor = on_the_left ? TextPaint::Anchor::end : TextPaint::Anchor::start});
  }

  void append_legend(double y) {
    double at = names_;
    const auto entry = [&](std::string_view name, std::string_view fill, double height) {
      const double width = 34 + kNameLetter * static_cast<double>(name.size());
      if (at + width > picture_.width()) at = names_, y += kLegendRow;
      picture_.rect(at, y - height + 1, 14, height, {.fill = fill});
      picture_.text(at + 18, y, name);
      at += width;
    };
    for (const graph::KindClass kind : kinds_) entry(style_of(kind).name, style_of(kind).fill, 10);
    if (any_exposed_) entry("exposed communication", kAlarmColor, kExposed);
    if (any_chain_) entry("critical path (above the bars)", kPathColor, 2);
  }

  std::span<const TimelinePart> parts_;
  double names_;
  Picture picture_;
  std::int64_t begin_ = 0;   // of the part that is being drawn
  std::int64_t length_ = 1;  // nothing to show still has an axis
  double bottom_ = 0;
  std::set<graph::KindClass> kinds_;
  bool any_exposed_ = false, any_chain_ = false;
};

}  // namespace

Picture timeline_picture(std::span<const TimelinePart> parts) {
  return Timeline(parts).picture();
}

}  // namespace weft::inspect
