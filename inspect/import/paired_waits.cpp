#include "inspect/import/paired_waits.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "inspect/import/mark_words.h"

namespace weft::inspect {
namespace {

constexpr double kRecordedNow = 0.9;  // an event that was recorded just before the wait
constexpr double kReleased = 0.8;     // work that ended just when the waiting work began
constexpr double kInTurn = 0.7;       // the oldest event that no work has waited for
constexpr std::int64_t kAtOnce = 5'000;
constexpr std::size_t kMostEvents = 1024;  // of a stream, that are looked at

/// A call of cudaStreamWaitEvent.
struct PendingWait {
  std::uint32_t source;   // the work whose end an event had just been recorded for; kNone: none
  bool after_collective;  // that was a collective
};

/// The calls of a thread since its last launch.
struct ThreadState {
  std::uint32_t launched = kNone, computation = kNone;  // the last op, and the last that isn't a collective
  std::uint32_t recorded = kNone;                       // the work of an event that no wait has followed
  int records = 0;
  std::vector<PendingWait> waits;
};

class WaitPairing {
 public:
  WaitPairing(const DeviceTrace& trace, const StepTimeline& timeline)
      : trace_(trace),
        timeline_(timeline),
        places_(places_of_calls(trace)),
        events_(timeline.streams.size()),
        awaited_(timeline.ops.size()),
        next_(timeline.streams.size(), std::vector<std::size_t>(timeline.streams.size())) {
    find_events();
  }

  std::vector<PairedWait> run() && {
    std::map<std::int64_t, ThreadState> threads;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      const HostCall& call = trace_.calls[i];
      ThreadState& thread = threads[call.thread];
      if (!timeline_.launches[i].empty()) {
        const std::uint32_t first = timeline_.launches[i].front();
        for (const PendingWait& wait : thread.waits) pair(wait, first);
        launch(thread, timeline_.launches[i].back());
      } else if (call.kind == HostCallKind::record) {
        // Work that is recorded at once on the stream that waited isn't that of the next launch: PyTorch's futures wait
        // for a collective on streams of their own.
        std::erase_if(thread.waits, [](const PendingWait& wait) { return wait.after_collective; });
        record(thread);
      } else if (call.kind == HostCallKind::wait) {
        const std::uint32_t source = thread.recorded;
        thread.waits.push_back({source, source != kNone && communicates(source)});
        thread.recorded = kNone;
      }
    }
    return std::move(out_);
  }

 private:
  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }
  bool communicates(std::uint32_t index) const { return op(index).collective != kNoCollective; }
  std::uint32_t stream_of(std::uint32_t index) const { return timeline_.stream_of[index]; }

  void launch(ThreadState& thread, std::uint32_t last) const {
    thread.launched = last;
    if (!communicates(last)) thread.computation = last;
    thread.recorded = kNone;
    thread.records = 0;
    thread.waits.clear();
  }

  /// The work whose end the next event marks.
  static std::uint32_t source_of_event(const ThreadState& thread) {
    return thread.records == 0 ? thread.launched : thread.computation;
  }

  void record(ThreadState& thread) {
    const std::uint32_t source = source_of_event(thread);
    ++thread.records;
    thread.recorded = source;
    if (source != kNone) add_event(source);
  }

  void add_event(std::uint32_t source) {
    std::vector<std::uint32_t>& events = events_[stream_of(source)];
    if (events.empty() || timeline_.place[events.back()] < timeline_.place[source]) events.push_back(source);
  }

  /// Finds the work that has an event of its own, and whether events of computations are awaited in turn: programs that
  /// record more of them than collectives wait for use them for something else.
  void find_events() {
    std::map<std::int64_t, ThreadState> threads;
    std::size_t events_of_computations = 0, waits_of_collectives = 0;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      ThreadState& thread = threads[trace_.calls[i].thread];
      if (!timeline_.launches[i].empty()) {
        if (communicates(timeline_.launches[i].front())) waits_of_collectives += thread.waits.size();
        launch(thread, timeline_.launches[i].back());
      } else if (trace_.calls[i].kind == HostCallKind::record) {
        const std::uint32_t source = source_of_event(thread);
        ++thread.records;
        if (source != kNone && has_event_.insert(source).second && !communicates(source)) ++events_of_computations;
      } else if (trace_.calls[i].kind == HostCallKind::wait) {
        thread.waits.push_back({kNone, false});
      }
    }
    in_turn_ = 10 * events_of_computations <= 11 * waits_of_collectives;
  }

  void pair(const PendingWait& wait, std::uint32_t to) {
    const bool other = wait.source != kNone && stream_of(wait.source) != stream_of(to);
    if (other && !wait.after_collective && !(in_turn_ && communicates(to)) && timeline_.allows(wait.source, to)) {
      return tell(wait.source, to, kRecordedNow);
    }
    const std::uint32_t preferred = wait.after_collective && !communicates(to) ? stream_of(wait.source) : kNone;
    std::uint32_t found = kNone;
    if (communicates(to)) found = find(to, [&](std::uint32_t from) { return sums_on(from, to); });
    if (found != kNone) {
      sums_.emplace(stream_of(found), stream_of(to));
      return tell(found, to, kReleased);
    }
    found = released(to);
    if (found != kNone) {
      if (!updates(to)) held_up_.emplace(stream_of(found), stream_of(to));
      return tell(found, to, found == wait.source ? kRecordedNow : kReleased);
    }
    if (other && wait.after_collective && communicates(to) && timeline_.allows(wait.source, to)) {
      return tell(wait.source, to, kRecordedNow);
    }
    found = find(to, [&](std::uint32_t from) { return same_place(from, to); });
    if (found == kNone && preferred != kNone) {
      found = find(to, [&](std::uint32_t from) { return stream_of(from) == preferred; });
    }
    if (found == kNone) found = find(to, [&](std::uint32_t from) { return communicates(from) != communicates(to); });
    if (found == kNone && communicates(to)) found = last_computation_before(to);
    if (found == kNone) found = find(to, [](std::uint32_t) { return true; });
    if (found != kNone) tell(found, to, found == wait.source ? kRecordedNow : kInTurn);
  }

  /// A wait for an event is one for all earlier events of its stream.
  void tell(std::uint32_t from, std::uint32_t to, double confidence) {
    out_.push_back({from, to, confidence});
    awaited_[from] = true;
    std::vector<std::uint32_t>& events = events_[stream_of(from)];
    const auto after = std::ranges::upper_bound(events, timeline_.place[from], {},
                                                [&](std::uint32_t event) { return timeline_.place[event]; });
    next_[stream_of(to)][stream_of(from)] = static_cast<std::size_t>(after - events.begin());
  }

  /// The first event of a stream that fits and that `to`'s stream hasn't waited for.
  template <class Fits>
  std::uint32_t find_on(std::uint32_t stream, std::uint32_t to, const Fits& fits) const {
    if (stream == stream_of(to)) return kNone;
    const std::vector<std::uint32_t>& events = events_[stream];
    std::size_t at = next_[stream_of(to)][stream];
    if (events.size() > kMostEvents) at = std::max(at, events.size() - kMostEvents);
    for (; at < events.size(); ++at) {
      const std::uint32_t from = events[at];
      if (!awaited_[from] && timeline_.allows(from, to) && !of_later_pass(from, to) && fits(from)) return from;
    }
    return kNone;
  }

  /// The same of all streams: of collectives for a computation and the other way round, if there are any, the one that
  /// was launched last. An event that has waited for long isn't needed soon.
  template <class Fits>
  std::uint32_t find(std::uint32_t to, const Fits& fits) const {
    std::uint32_t best = kNone;
    for (std::uint32_t stream = 0; stream < events_.size(); ++stream) {
      const std::uint32_t from = find_on(stream, to, fits);
      if (from != kNone && (best == kNone || better(from, best, to))) best = from;
    }
    return best;
  }

  /// The event whose end let `to` begin; of several, the nearest.
  std::uint32_t released(std::uint32_t to) const {
    const auto apart = [&](std::uint32_t from) { return std::abs(op(to).begin - op(from).end); };
    std::uint32_t nearest = kNone;
    for (std::uint32_t stream = 0; stream < events_.size(); ++stream) {
      const auto nearer = [&](std::uint32_t from) {
        return releases(from, to) && (nearest == kNone || apart(from) < apart(nearest));
      };
      for (std::uint32_t found = kNone; (found = find_on(stream, to, nearer)) != kNone;) nearest = found;
    }
    return nearest;
  }

  /// The last computation with an event, whether other streams have waited for it or not.
  std::uint32_t last_computation_before(std::uint32_t to) const {
    std::uint32_t last = kNone;
    for (std::uint32_t stream = 0; stream < events_.size(); ++stream) {
      if (stream == stream_of(to) || events_[stream].size() <= next_[stream_of(to)][stream]) continue;
      const std::uint32_t from = events_[stream].back();
      if (communicates(from) || !timeline_.allows(from, to)) continue;
      if (last == kNone || timeline_.call_of[from] > timeline_.call_of[last]) last = from;
    }
    return last;
  }

  /// Is `to` a further sum, over other ranks, of what `from` left of a sum?
  bool sums_on(std::uint32_t from, std::uint32_t to) const {
    if (!communicates(from) || sums_.contains({stream_of(to), stream_of(from)})) return false;
    const CollectiveNote &before = trace_.collectives[op(from).collective],
                         &after = trace_.collectives[op(to).collective];
    const bool scattered = before.kind == "reduce_scatter";
    if (after.kind != "all_reduce" || (!scattered && before.kind != "all_reduce") || after.bytes <= 0) return false;
    const double left =
        scattered && before.group_size > 0 ? before.bytes / static_cast<double>(before.group_size) : before.bytes;
    return left == after.bytes && same_place(from, to);
  }

  bool better(std::uint32_t a, std::uint32_t b, std::uint32_t to) const {
    const bool fits_a = communicates(a) != communicates(to), fits_b = communicates(b) != communicates(to);
    if (fits_a != fits_b) return fits_a;
    const bool holds_a = held_up_.contains({stream_of(a), stream_of(to)});
    const bool holds_b = held_up_.contains({stream_of(b), stream_of(to)});
    if (holds_a != holds_b && !updates(to)) return holds_a;
    return timeline_.call_of[a] > timeline_.call_of[b];
  }

  /// Did `to`, which its own stream let begin earlier, begin right when `from` ended?
  bool releases(std::uint32_t from, std::uint32_t to) const {
    const std::uint32_t place = timeline_.place[to];
    const std::vector<std::uint32_t>& stream = timeline_.streams[stream_of(to)].ops;
    const bool idle = place == 0 || op(stream[place - 1]).end + kRounding < op(from).end;
    return idle && op(to).begin >= op(from).end - kRounding && op(to).begin <= op(from).end + kAtOnce;
  }

  /// A forward pass waits for nothing of the backward pass, and neither for an update: such a wait is for an event that
  /// isn't in the step.
  bool of_later_pass(std::uint32_t from, std::uint32_t to) const {
    const MarkedPlace &of_from = places_[timeline_.call_of[from]], &of_to = places_[timeline_.call_of[to]];
    const bool one_batch = of_to.micro_batch >= 0 && of_from.micro_batch == of_to.micro_batch;
    return one_batch && of_from.phase && of_to.phase && *of_from.phase > *of_to.phase;
  }

  bool updates(std::uint32_t index) const { return places_[timeline_.call_of[index]].phase == graph::Phase::update; }

  bool same_place(std::uint32_t a, std::uint32_t b) const {
    const MarkedPlace &of_a = places_[timeline_.call_of[a]], &of_b = places_[timeline_.call_of[b]];
    if (of_b.phase == graph::Phase::update && of_b.layer < 0) return of_a.phase == graph::Phase::backward;
    if (of_b.phase == graph::Phase::update) return of_a.phase == graph::Phase::backward && of_a.layer == of_b.layer;
    return of_a.layer >= 0 && of_a.layer == of_b.layer && of_a.micro_batch == of_b.micro_batch &&
           of_a.phase == of_b.phase;
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  const std::vector<MarkedPlace> places_;
  std::set<std::uint32_t> has_event_;
  bool in_turn_ = false;
  std::vector<std::vector<std::uint32_t>> events_;  // by stream: work for whose end an event was recorded, by launch
  std::vector<bool> awaited_;                       // by op
  std::vector<std::vector<std::size_t>> next_;      // by waiting stream, by stream: the first event not waited for
  std::set<std::pair<std::uint32_t, std::uint32_t>> held_up_;  // a stream, and another that visibly waited for it
  std::set<std::pair<std::uint32_t, std::uint32_t>> sums_;     // streams on which sums of the other stream went on
  std::vector<PairedWait> out_;
};

}  // namespace

std::vector<PairedWait> pair_waits(const DeviceTrace& trace, const StepTimeline& timeline) {
  return WaitPairing(trace, timeline).run();
}

}  // namespace weft::inspect
