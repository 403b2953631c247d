#include "inspect/import/device_edges.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "inspect/import/device_trace.h"
#include "inspect/import/waits/wait_search.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kLongestPause = 5'000;  // from work's end to the begin of what waited for it
constexpr std::int64_t kMicrosecond = 1'000;
constexpr double kMostSure = 0.95;  // less than where the profiler recorded the wait

/// Kernels of one name, but for numbers in it, do the same work: of several layers, say.
std::string without_digits(std::string_view name) {
  std::string out(name);
  std::erase_if(out, [](unsigned char c) { return std::isdigit(c) != 0; });
  return out;
}

/// The calls of a thread since its last launch. Indices of work.
struct ThreadState {
  std::uint32_t launched = kNone, computation = kNone;  // the last work, and the last that isn't a collective
  std::uint32_t recorded = kNone;                       // the event that no wait has followed
  int records = 0;
  std::vector<bool> waits;  // by wait: the event right before it is a collective's
  std::uint32_t just_before = kNoEvent;
};

class WaitProblemBuilder {
 public:
  WaitProblemBuilder(const DeviceTrace& trace, const StepTimeline& timeline)
      : trace_(trace), timeline_(timeline), places_(places_of_calls(trace)) {
    problem_.streams = static_cast<std::uint32_t>(timeline.streams.size());
    last_event_.assign(problem_.streams, kNoEvent);
    measure_pauses();
  }

  WaitProblem build() {
    std::map<std::int64_t, ThreadState> threads;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      const HostCall& call = trace_.calls[i];
      ThreadState& thread = threads[call.thread];
      if (!timeline_.launches[i].empty()) {
        launch(thread, i);
      } else if (call.kind == HostCallKind::record) {
        record(thread);
      } else if (call.kind == HostCallKind::wait) {
        // PyTorch may record and wait twice for the same work.
        const bool again = thread.recorded != kNone && thread.recorded == thread.just_before;
        if (thread.recorded != kNone) thread.just_before = thread.recorded;
        if (!again) thread.waits.push_back(thread.recorded != kNone && source(thread.recorded).communicates);
        thread.recorded = kNone;
      }
    }
    leave_out_other_streams();
    return std::move(problem_);
  }

  std::uint32_t op_of(std::uint32_t work) const { return ops_[work]; }

 private:
  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }
  const WaitWork& source(std::uint32_t event) const { return problem_.work[problem_.events[event]]; }

  /// The time in which a stream goes on with its next work when nothing holds it up; of coarse clocks, their step.
  void measure_pauses() {
    std::vector<std::int64_t> pauses;
    std::int64_t first = op(0).begin, last = op(0).end;
    bool coarse = true;
    for (const DeviceOp& each : timeline_.ops) {
      last = std::max(last, each.end);
      coarse &= each.begin % kMicrosecond == 0 && each.end % kMicrosecond == 0;
    }
    for (const TimelineStream& stream : timeline_.streams) {
      for (std::size_t i = 1; i < stream.ops.size(); ++i) {
        pauses.push_back(std::max<std::int64_t>(0, op(stream.ops[i]).begin - op(stream.ops[i - 1]).end));
      }
    }
    std::int64_t pause = coarse ? kMicrosecond : 1;
    if (!pauses.empty()) {
      const auto quarter = pauses.begin() + static_cast<std::ptrdiff_t>(pauses.size() / 4);
      std::ranges::nth_element(pauses, quarter);
      pause = std::max(pause, *quarter);
    }
    problem_.at_once = std::min(4 * pause, kLongestPause);
    problem_.slack = std::min(problem_.at_once, kRounding);
    const double expected = static_cast<double>(timeline_.ops.size()) * static_cast<double>(problem_.at_once) /
                            static_cast<double>(std::max<std::int64_t>(1, last - first));
    problem_.chance = std::min(0.5, expected);
  }

  /// Numbers the streams that record or wait from 0 on. Work of the others plays no part and shares a number.
  void leave_out_other_streams() {
    std::vector<std::uint32_t> number(problem_.streams, kNone);
    std::uint32_t next = 0;
    const auto take_part = [&](std::uint32_t work) {
      std::uint32_t& mine = number[problem_.work[work].stream];
      if (mine == kNone) mine = next++;
    };
    for (const std::uint32_t event : problem_.events) take_part(event);
    for (const WaitGroup& group : problem_.groups) take_part(group.to);
    for (WaitWork& work : problem_.work) {
      const std::uint32_t mine = number[work.stream];
      work.stream = mine == kNone ? next : mine;
    }
    problem_.streams = next + (std::ranges::count(number, kNone) > 0 ? 1 : 0);  // one for all others
  }

  std::uint32_t kind_of(std::uint32_t index) {
    const DeviceOp& of = op(index);
    std::string text = without_digits(trace_.names.text(of.name));
    if (of.collective != kNoCollective) {
      const CollectiveNote& note = trace_.collectives[of.collective];
      text = "collective " + (note.kind.empty() ? text : note.kind) + " of " + note.group;
    }
    return kinds_.emplace(std::move(text), static_cast<std::uint32_t>(kinds_.size())).first->second;
  }

  std::uint32_t add_work(std::uint32_t index, std::uint32_t call) {
    const DeviceOp& of = op(index);
    WaitWork work;
    work.stream = timeline_.stream_of[index];
    work.place = timeline_.place[index];
    work.begin = of.begin;
    work.end = of.end;
    work.held_up = held_up(index, call);
    work.communicates = of.collective != kNoCollective;
    work.kind = kind_of(index);
    const MarkedPlace& place = places_[call];
    work.phase = place.phase;
    work.layer = place.layer;
    work.micro_batch = place.micro_batch;
    problem_.work.push_back(work);
    ops_.push_back(index);
    return static_cast<std::uint32_t>(problem_.work.size()) - 1;
  }

  /// Launches take times of their own, so work that followed its launch closely wasn't held up for sure.
  bool held_up(std::uint32_t index, std::uint32_t call) const {
    const DeviceOp& of = op(index);
    const std::uint32_t place = timeline_.place[index];
    const std::int64_t launched =
        trace_.calls[call].begin + timeline_.launch_delay[static_cast<std::size_t>(of.work)] + kLongestPause;
    if (of.begin <= launched) return false;
    const std::vector<std::uint32_t>& stream = timeline_.streams[timeline_.stream_of[index]].ops;
    const std::int64_t free = place == 0 ? op(0).begin : op(stream[place - 1]).end;
    return of.begin > free + problem_.at_once;
  }

  void launch(ThreadState& thread, std::uint32_t call) {
    const std::vector<std::uint32_t>& launched = timeline_.launches[call];
    for (std::size_t i = 0; i < launched.size(); ++i) {
      const std::uint32_t work = add_work(launched[i], call);
      if (i == 0 && !thread.waits.empty()) {
        problem_.groups.push_back({work, static_cast<std::uint32_t>(thread.waits.size()),
                                   static_cast<std::uint32_t>(problem_.events.size()), thread.just_before});
      }
      thread.launched = work;
      if (!problem_.work[work].communicates) thread.computation = work;
    }
    thread.recorded = kNone;
    thread.just_before = kNoEvent;
    thread.records = 0;
    thread.waits.clear();
  }

  void record(ThreadState& thread) {
    // Work that is recorded at once on the stream that waited isn't that of the next launch: PyTorch's futures wait for
    // a collective on streams of their own.
    std::erase(thread.waits, true);
    const std::uint32_t work = thread.records == 0 ? thread.launched : thread.computation;
    ++thread.records;
    thread.recorded = kNone;
    if (work == kNone) return;
    std::uint32_t& last = last_event_[problem_.work[work].stream];
    if (last == kNoEvent || source(last).place < problem_.work[work].place) {
      last = static_cast<std::uint32_t>(problem_.events.size());
      problem_.events.push_back(work);
    }
    if (problem_.events[last] == work) thread.recorded = last;
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  const std::vector<MarkedPlace> places_;
  WaitProblem problem_;
  std::vector<std::uint32_t> ops_;         // by work
  std::vector<std::uint32_t> last_event_;  // by stream
  std::map<std::string, std::uint32_t> kinds_;
};

}  // namespace

std::vector<FoundEdge> pair_waits(const DeviceTrace& trace, const StepTimeline& timeline) {
  WaitProblemBuilder builder(trace, timeline);
  const WaitProblem problem = builder.build();
  std::vector<FoundEdge> out;
  for (const FoundWait& wait : find_waits(problem)) {
    if (wait.event == kNoEvent) continue;
    out.push_back({builder.op_of(problem.events[wait.event]), builder.op_of(problem.groups[wait.group].to),
                   graph::EdgeSource::pairing, std::min(wait.confidence, kMostSure)});
  }
  return out;
}

namespace {

using graph::EdgeSource;

constexpr double kLaunchOrder = 0.8;
constexpr double kGuessed = 0.5;
constexpr std::int64_t kPromptly = 20'000;  // an op that waited begins this soon after the other's end
constexpr std::int64_t kLate = 5'000;       // a begin that is explained by what came before is no later than this

class EdgeSearch {
 public:
  EdgeSearch(const DeviceTrace& trace, const StepTimeline& timeline) : trace_(trace), timeline_(timeline) {}

  DeviceEdges run() && {
    for (const TimelineStream& stream : timeline_.streams) add_stream(stream);
    add_recorded_waits();
    if (!out_.recorded_waits && timeline_.streams.size() > 1) {
      const bool calls =
          std::ranges::any_of(trace_.calls, [](const HostCall& call) { return call.kind == HostCallKind::wait; });
      if (!calls) add_launch_order();
      for (const FoundEdge& wait : calls ? pair_waits(trace_, timeline_) : std::vector<FoundEdge>()) {
        add(wait.from, wait.to, wait.source, wait.confidence);
      }
      add_guesses();
    }
    return std::move(out_);
  }

 private:
  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }

  /// Ops may overlap on a stream (programmatic launches, branches of a graph): then only begins are ordered.
  void add_stream(const TimelineStream& stream) {
    std::vector<std::uint32_t> running;  // that a later op may still have to wait for
    for (const std::uint32_t to : stream.ops) {
      const std::size_t before = running.size();
      std::erase_if(running, [&](std::uint32_t from) {
        const bool done = timeline_.allows(from, to);
        if (done) out_.edges.push_back({from, to, EdgeSource::stream});
        return done;
      });
      if (running.size() == before && !running.empty()) {
        out_.edges.push_back({running.back(), to, EdgeSource::stream, 1, op(to).begin - op(running.back()).begin});
      }
      running.push_back(to);
    }
  }

  bool add(std::uint32_t from, std::uint32_t to, EdgeSource source, double confidence) {
    if (from == kNone || to == kNone || timeline_.stream_of[from] == timeline_.stream_of[to]) return false;
    const bool recorded = source == EdgeSource::synchronisation;
    if (!(recorded ? timeline_.allows_known(from, to) : timeline_.allows(from, to))) return false;
    if (known_.emplace(from, to).second) out_.edges.push_back({from, to, source, confidence});
    return true;
  }

  void add_recorded_waits() {
    for (const SyncRecord& sync : trace_.syncs) {
      if (sync.kind != HostCallKind::wait) continue;
      out_.recorded_waits = true;
      const std::uint32_t source = timeline_.find_stream(sync.device, sync.wait_on_stream);
      const std::uint32_t target = timeline_.find_stream(sync.device, sync.stream);
      const std::uint32_t record = timeline_.find_call(sync.record_correlation);
      const std::uint32_t wait = timeline_.find_call(sync.correlation);
      // An event of an earlier step orders nothing within this one.
      if (source == kNone || target == kNone || record == kNone || wait == kNone) continue;
      const std::uint32_t from = timeline_.last_launched(source, trace_.calls[record].begin);
      const std::uint32_t to = timeline_.first_launched(target, trace_.calls[wait].begin);
      if (from == kNone || to == kNone || source == target) continue;
      if (!add(from, to, EdgeSource::synchronisation, 1)) ++out_.contradicted;
    }
  }

  /// Without any call about events: a collective waits for what its thread launched last on another stream.
  void add_launch_order() {
    std::map<std::int64_t, std::uint32_t> last;  // by thread: work that isn't communication
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      for (const std::uint32_t launched : timeline_.launches[i]) {
        const auto before = last.find(trace_.calls[i].thread);
        if (op(launched).collective == kNoCollective) {
          last[trace_.calls[i].thread] = launched;
        } else if (before != last.end()) {
          add(before->second, launched, EdgeSource::pairing, kLaunchOrder);
        }
      }
    }
  }

  void add_guesses() {
    std::vector<std::int64_t> explained(timeline_.ops.size(), INT64_MIN);
    for (std::uint32_t i = 0; i < explained.size(); ++i) {
      const std::uint32_t call = timeline_.call_of[i];
      if (call == kNone) continue;
      explained[i] = trace_.calls[call].begin + timeline_.launch_delay[static_cast<std::size_t>(op(i).work)];
    }
    for (const FoundEdge& edge : out_.edges) {
      const std::int64_t ready = edge.after_begin ? op(edge.from).begin + *edge.after_begin : op(edge.from).end;
      explained[edge.to] = std::max(explained[edge.to], ready);
    }
    std::vector<std::uint32_t> by_end(timeline_.ops.size());
    for (std::uint32_t i = 0; i < by_end.size(); ++i) by_end[i] = i;
    std::ranges::sort(by_end, {}, [&](std::uint32_t i) { return std::pair(op(i).end, i); });
    for (std::uint32_t to = 0; to < timeline_.ops.size(); ++to) {
      if (op(to).begin <= explained[to] + kLate) continue;
      auto at =
          std::ranges::upper_bound(by_end, op(to).begin + kRounding, {}, [&](std::uint32_t i) { return op(i).end; });
      while (at != by_end.begin()) {
        const std::uint32_t from = *--at;
        if (op(from).end < std::max(op(to).begin - kPromptly, explained[to])) break;
        if (op(from).begin < op(to).begin && add(from, to, EdgeSource::times, kGuessed)) break;
      }
    }
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> known_;
  DeviceEdges out_;
};

}  // namespace

DeviceEdges recover_device_edges(const DeviceTrace& trace, const StepTimeline& timeline) {
  return EdgeSearch(trace, timeline).run();
}

}  // namespace weft::inspect
