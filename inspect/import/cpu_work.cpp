#include "inspect/import/cpu_work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::inspect {
namespace {

using graph::EdgeSource;

constexpr double kSeenToEnd = 0.6;                   // that a thread waited for a collective that ended in its pause
constexpr std::int64_t kLongPause = 200'000;         // between operators: a shorter one is the interpreter's own
constexpr std::int64_t kLongestAfterWait = 500'000;  // of a thread, from the end of its wait to its next operator
constexpr std::int64_t kThreadSleeps = 50'000;       // a pause of another thread than the main one

bool is_of_gloo(std::string_view name) {
  return name.starts_with(kGloo);
}

/// Whether an operator's children are the work, or nobody's.
bool is_wrapper(std::string_view name) {
  return name.starts_with("autograd::engine::evaluate_function") || name.find("wait_tensor") != std::string_view::npos;
}

/// The operators that asked for collectives, each of which is found once.
class Requests {
 public:
  explicit Requests(const DeviceTrace& trace) : trace_(trace) {
    for (const HostOperator& one : trace.operators) {
      const std::string& name = trace.names.text(one.name);
      if (name.starts_with("c10d::") && !collective_kind(name).empty()) requests_.push_back(&one);
      if (one.collective != kNoCollective) notes_.push_back(&one);
    }
    taken_.resize(requests_.size());
  }

  struct Found {
    const HostOperator* request;
    std::int64_t number;  // in the order of requests
  };

  /// PyTorch numbers what it records in the order of begins, and a collective's record begins within its request: the
  /// last request before it. Without numbers, the first request that was made before the collective began and is of
  /// its size; else the first of any size.
  std::optional<Found> take(const HostOperator& collective) {
    std::optional<std::size_t> found;
    if (collective.record_function >= 0) {
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        const std::int64_t number = requests_[i]->record_function;
        if (number >= collective.record_function || number < 0) continue;
        if (!found || number > requests_[*found]->record_function) found = i;
      }
      if (found) return Found{requests_[*found], static_cast<std::int64_t>(*found)};
    }
    for (std::size_t i = 0; i < requests_.size() && requests_[i]->begin <= collective.begin; ++i) {
      if (taken_[i]) continue;
      const bool fits = collective.most_elements == requests_[i]->most_elements ||
                        collective.most_elements == requests_[i]->least_elements;
      if (!fits && found) continue;
      found = i;
      if (fits) break;
    }
    if (!found) return std::nullopt;
    taken_[*found] = true;
    return Found{requests_[*found], static_cast<std::int64_t>(*found)};
  }

  /// What a record within a request, or around it, says about its collective.
  const CollectiveNote* note_of(const HostOperator& request) const {
    for (const HostOperator* const note : notes_) {
      if (note->begin > request.end) break;
      const bool nested = note->begin >= request.begin || note->end >= request.end;
      if (note->thread == request.thread && nested) return &trace_.collectives[note->collective];
    }
    return nullptr;
  }

 private:
  const DeviceTrace& trace_;
  std::vector<const HostOperator*> requests_, notes_;
  std::vector<bool> taken_;
};

std::int32_t stream_of_thread(std::int64_t thread) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(thread, INT32_MIN, INT32_MAX));
}

CollectiveNote note_of_collective(const DeviceTrace& trace, const Requests& requests, const HostOperator& one,
                                  const std::optional<Requests::Found>& asked) {
  CollectiveNote note;
  if (asked) {
    if (const CollectiveNote* const said = requests.note_of(*asked->request)) note = *said;
    // gloo carries out some collectives by others: a reduce-scatter by an all-reduce.
    if (note.kind.empty()) note.kind = std::string(collective_kind(trace.names.text(asked->request->name)));
    if (note.bytes == 0) note.bytes = asked->request->most_elements * one.element_bytes;
  } else {
    note.kind = std::string(collective_kind(trace.names.text(one.name)));
    note.bytes = one.most_elements * one.element_bytes;
  }
  if (!note.group.empty() || !note.description.empty()) return note;
  if (trace.groups.size() != 1) {
    note.description = "gloo";
    return note;
  }
  note.group = trace.groups.front().name;
  note.group_size = trace.groups.front().size;
  if (asked) note.sequence = asked->number;  // threads of gloo may begin two of them in any order
  return note;
}

}  // namespace

namespace {

/// When a collective's exchange was done: it is the longest time in which its thread ran no operator. What comes after
/// it are copies, for which the thread needs no other rank.
std::int64_t end_of_exchange(const DeviceTrace& trace, std::size_t collective) {
  const HostOperator& one = trace.operators[collective];
  std::int64_t done = one.begin, longest = 0, end = one.end;
  const auto pause_until = [&](std::int64_t begin) {
    if (begin - done <= longest) return;
    longest = begin - done;
    end = begin;
  };
  for (std::size_t i = collective + 1; i < trace.operators.size() && trace.operators[i].begin < one.end; ++i) {
    if (trace.operators[i].thread != one.thread) continue;
    pause_until(trace.operators[i].begin);
    done = std::max(done, trace.operators[i].end);
  }
  pause_until(one.end);
  return end;
}

}  // namespace

void take_operators_as_work(DeviceTrace& trace) {
  Requests requests(trace);
  std::map<std::int64_t, std::int64_t> busy_until;  // by thread
  for (std::size_t i = 0; i < trace.operators.size(); ++i) {
    const HostOperator& one = trace.operators[i];
    const std::string& name = trace.names.text(one.name);
    const auto last = busy_until.find(one.thread);
    if (is_wrapper(name) || (last != busy_until.end() && one.begin < last->second)) continue;
    busy_until[one.thread] = one.end;
    DeviceOp op{.begin = one.begin, .end = one.end, .name = one.name, .stream = stream_of_thread(one.thread)};
    if (is_of_gloo(name)) {
      const std::optional<Requests::Found> asked = requests.take(one);
      op.collective = static_cast<std::uint32_t>(trace.collectives.size());
      trace.collectives.push_back(note_of_collective(trace, requests, one, asked));
      if (asked) op.asked_by = static_cast<std::uint32_t>(asked->request - trace.operators.data());
      op.end = end_of_exchange(trace, i);
    }
    trace.ops.push_back(op);
    if (op.end == one.end) continue;
    DeviceOp copies = op;
    copies.begin = op.end;
    copies.end = one.end;
    copies.collective = kNoCollective;
    copies.work = DeviceWork::copy;
    copies.name = trace.names.number(name + " copies");
    trace.ops.push_back(copies);
    std::ranges::stable_sort(trace.ops, {}, &DeviceOp::begin);
  }
}

namespace {

/// Tasks and edges of all threads, from the operators and the pauses between them.
class CpuSearch {
 public:
  CpuSearch(const DeviceTrace& trace, const StepTimeline& timeline) : trace_(trace), timeline_(timeline) {
    for (std::uint32_t i = 0; i < timeline.ops.size(); ++i) {
      if (!is_exchange(i)) continue;
      const std::uint32_t request = find_request(i);
      by_end_.push_back({i, request == kNone ? op(i).begin : op(request).begin});
      if (request != kNone && op(i).collective != kNoCollective) add_request(request, i);
    }
    std::ranges::sort(by_end_, {}, [&](const Collective& one) { return op(one.op).end; });
  }

  CpuWork run() && {
    const std::uint32_t main = main_stream();
    for (std::uint32_t stream = 0; stream < timeline_.streams.size(); ++stream) {
      const std::vector<std::uint32_t>& ops = timeline_.streams[stream].ops;
      for (std::size_t i = 1; i < ops.size(); ++i) out_.edges.edges.push_back({ops[i - 1], ops[i], EdgeSource::stream});
      if (stream == main) {
        add_pauses(stream);
      } else if (!std::ranges::all_of(ops, [&](std::uint32_t i) { return is_exchange(i); })) {
        add_woken(stream, main);
      }
    }
    return std::move(out_);
  }

 private:
  struct Collective {
    std::uint32_t op;
    std::int64_t asked;  // when
  };

  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }
  /// A collective, or its copies.
  bool is_exchange(std::uint32_t index) const {
    return op(index).collective != kNoCollective || op(index).work == DeviceWork::copy;
  }

  /// The thread with the step's mark, or the one that works most.
  std::uint32_t main_stream() const {
    const std::uint32_t marked = timeline_.find_stream(0, stream_of_thread(timeline_.main_thread));
    if (marked != kNone) return marked;
    std::vector<std::int64_t> busy(timeline_.streams.size());
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) {
      if (!is_exchange(i)) busy[timeline_.stream_of[i]] += op(i).end - op(i).begin;
    }
    return static_cast<std::uint32_t>(std::ranges::max_element(busy) - busy.begin());
  }

  /// The work that contains the operator that asked for a collective.
  std::uint32_t find_request(std::uint32_t collective) const {
    if (op(collective).asked_by == kNone) return kNone;
    const HostOperator& request = trace_.operators[op(collective).asked_by];
    const std::uint32_t stream = timeline_.find_stream(0, stream_of_thread(request.thread));
    return stream == kNone ? kNone : timeline_.last_launched(stream, request.begin + 1);
  }

  /// A thread of gloo that was busy when it was asked begins as soon as it can.
  void add_request(std::uint32_t request, std::uint32_t collective) {
    const std::uint32_t place = timeline_.place[collective];
    const std::vector<std::uint32_t>& thread = timeline_.streams[timeline_.stream_of[collective]].ops;
    std::int64_t after = op(collective).begin - op(request).begin;
    if (place > 0 && op(thread[place - 1]).end > op(request).begin) {
      after = std::min(after, op(request).end - op(request).begin);
    }
    out_.edges.edges.push_back({request, collective, EdgeSource::launch, 1, after});
  }

  void add_pauses(std::uint32_t stream) {
    std::uint32_t before = kNone;
    std::int64_t begin = timeline_.origin;
    for (const std::uint32_t next : timeline_.streams[stream].ops) {
      add_pause(stream, before, next, begin, op(next).begin);
      before = next;
      begin = std::max(op(next).end, op(next).begin + 1);
    }
    add_pause(stream, before, kNone, begin, timeline_.end);
  }

  /// `before` and `next`: the thread's operators; kNone: the step's begin and end.
  void add_pause(std::uint32_t stream, std::uint32_t before, std::uint32_t next, std::int64_t begin, std::int64_t end) {
    if (end <= begin) return;
    const auto pause = static_cast<std::uint32_t>(out_.host.tasks.size());
    const std::uint32_t awaited = awaited_in(begin, end);
    const std::int64_t woken = awaited == kNone ? begin : op(awaited).end;
    out_.host.tasks.push_back({HostTaskKind::pause, woken, end, timeline_.streams[stream].stream, kNone});
    if (before != kNone) out_.host.waits.push_back({before, pause, EdgeSource::stream});
    if (next != kNone) out_.host.launches.push_back({pause, next, EdgeSource::stream});
    if (awaited == kNone) return;
    out_.host.waits.push_back({awaited, pause, EdgeSource::times, kSeenToEnd});
    ++out_.host.guessed_waits;
  }

  /// The last collective that ended in a long pause, shortly before the thread went on.
  std::uint32_t awaited_in(std::int64_t begin, std::int64_t end) const {
    if (end - begin < kLongPause) return kNone;
    auto at = std::ranges::upper_bound(by_end_, end, {}, [&](const Collective& one) { return op(one.op).end; });
    while (at != by_end_.begin()) {
      const Collective& one = *--at;
      const std::int64_t ended = op(one.op).end;
      if (ended <= begin || end - ended > std::max(kLongestAfterWait, (end - begin) / 2)) break;
      if (one.asked < begin) return one.op;
    }
    return kNone;
  }

  /// A thread beside the main one sleeps in its long pauses. What the main thread had begun before woke it.
  void add_woken(std::uint32_t stream, std::uint32_t main) {
    std::int64_t free = INT64_MIN;
    for (const std::uint32_t to : timeline_.streams[stream].ops) {
      const std::uint32_t from = timeline_.last_launched(main, op(to).begin);
      const bool slept = free == INT64_MIN || op(to).begin - free > kThreadSleeps;
      free = op(to).end;
      if (!slept || from == kNone || is_exchange(to)) continue;
      out_.edges.edges.push_back({from, to, EdgeSource::times, kSeenToEnd, op(to).begin - op(from).begin});
    }
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  std::vector<Collective> by_end_;
  CpuWork out_;
};

}  // namespace

CpuWork recover_cpu_work(const DeviceTrace& trace, const StepTimeline& timeline) {
  return CpuSearch(trace, timeline).run();
}

}  // namespace weft::inspect
