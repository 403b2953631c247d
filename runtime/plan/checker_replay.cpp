#include "runtime/plan/checker_replay.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::plan {

Replay::Replay(const Plan& plan, Issue issue)
    : plan_(plan),
      tasks_(plan.graph->tasks().size()),
      streams_(plan.streams.size()),
      done_(streams_),
      clocks_(2 * tasks_ * streams_) {
  run(issue);
  for (std::size_t s = 0; s < streams_; ++s) {
    if (done_[s] < first(s, 2)) stuck_.push_back({StreamId(s), done_[s]});
  }
}

const Entry& Replay::entry(std::size_t stream, std::uint32_t number) const {
  const std::vector<Entry>& entries = plan_.streams[stream].entries;
  return entries[number % entries.size()];
}

std::uint32_t Replay::target(const Wait& wait, std::uint32_t step) const {
  if (wait.distance > step) return 0;
  return first(wait.stream.index(), step - wait.distance) + wait.entry + 1;
}

const Wait* Replay::pending(std::size_t stream, std::uint32_t number) const {
  const std::uint32_t step = number < first(stream, 1) ? 0 : 1;
  for (const Wait& wait : entry(stream, number).waits) {
    if (done_[wait.stream.index()] < target(wait, step)) return &wait;
  }
  return nullptr;
}

void Replay::run(Issue issue) {
  std::vector<std::uint32_t> clock(streams_ * streams_);  // by stream: its clock after its latest entry
  std::size_t started = 0;  // number of collectives started in both steps, in the total order
  const auto may_start = [&](graph::TaskId task) {
    if (issue == Issue::by_stream || !graph::is_collective(plan_.graph->task(task).operation)) return true;
    return plan_.collectives[started % plan_.collectives.size()] == task;
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < streams_; ++s) {
      std::uint32_t* const now = clock.data() + s * streams_;
      while (done_[s] < first(s, 2)) {
        const Entry& next = entry(s, done_[s]);
        if (!may_start(next.task) || pending(s, done_[s]) != nullptr) break;
        const std::uint32_t step = done_[s] < first(s, 1) ? 0 : 1;
        for (const Wait& wait : next.waits) {
          const std::uint32_t count = target(wait, step);
          if (count == 0) continue;
          const std::size_t other = wait.stream.index();
          const graph::TaskId source = plan_.streams[other].entries[wait.entry].task;
          const std::uint32_t* known = clocks_.data() + ((step - wait.distance) * tasks_ + source.index()) * streams_;
          for (std::size_t i = 0; i < streams_; ++i) now[i] = std::max(now[i], known[i]);
          now[other] = std::max(now[other], count);
        }
        std::copy_n(now, streams_, clocks_.data() + (step * tasks_ + next.task.index()) * streams_);
        now[s] = ++done_[s];
        if (graph::is_collective(plan_.graph->task(next.task).operation)) ++started;
        progress = true;
      }
    }
  }
}

std::string Replay::deadlock() const {
  if (complete()) return "";
  std::string text;
  std::vector<bool> seen(streams_);
  for (std::size_t s = stuck_.front().stream.index(); !seen[s];) {
    seen[s] = true;
    const Entry& next = entry(s, done_[s]);
    const Wait* wait = pending(s, done_[s]);
    if (!text.empty()) text += "; ";
    text += fmt::format("{} is stuck at {}", plan_.streams[s].stream.name, plan_.graph->task(next.task).name);
    if (wait == nullptr) {  // blocked only by the total order
      text += ", which may not start before the collectives ahead of it in the total order";
      break;
    }
    const StreamPlan& other = plan_.streams[wait->stream.index()];
    text += fmt::format(", which waits for {} on {}", plan_.graph->task(other.entries[wait->entry].task).name,
                        other.stream.name);
    s = wait->stream.index();
  }
  return text;
}

}  // namespace weft::plan
