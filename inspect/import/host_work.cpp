#include "inspect/import/host_work.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "inspect/import/device_trace.h"

namespace weft::inspect {
namespace {

using graph::EdgeSource;

constexpr std::size_t kLongSleep = 8;   // tasks of other threads, after which a thread was likely woken by one of them
constexpr std::int64_t kNap = 200'000;  // after which it was woken by a thread that had slept itself until then
constexpr double kWoken = 0.5;
constexpr double kBlockingCopy = 0.9;
constexpr double kSeenToWait = 0.6;
constexpr std::int64_t kLongWait = 5'000;
constexpr std::int64_t kSilence = 500'000;  // a gap that may be a wait, if it ends with work of the device
constexpr std::int64_t kSeenSoon = 50'000;  // a host that polls or sleeps sees the end of work this soon
constexpr std::int64_t kBlocked = 100'000;  // a launch that takes this long
constexpr std::uint32_t kFullQueue = 64;    // launches that aren't done when one is blocked
constexpr std::int64_t kFreedSoon = 20'000;

class HostSearch {
 public:
  HostSearch(const DeviceTrace& trace, const StepTimeline& timeline) : trace_(trace), timeline_(timeline) {
    for (const SyncRecord& sync : trace.syncs) {
      if (sync.kind != HostCallKind::wait) sync_of_.emplace(sync.correlation, &sync);
    }
  }

  HostWork run() && {
    std::map<std::int64_t, std::vector<std::uint32_t>> threads;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) threads[trace_.calls[i].thread].push_back(i);
    for (const auto& [thread, calls] : threads) add_thread(thread, calls);
    set_lengths();
    add_launches();
    cut_at_wakes(out_);
    return std::move(out_);
  }

 private:
  struct Awaited {
    std::uint32_t op;
    EdgeSource source;
    double confidence;
  };

  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }

  void add_thread(std::int64_t thread, const std::vector<std::uint32_t>& calls) {
    const std::size_t first = out_.tasks.size();
    std::int64_t quiet =
        thread == timeline_.main_thread ? timeline_.origin : INT64_MAX;  // since when it called nothing
    std::optional<std::uint32_t> polled;  // the last call since then that asked whether work is done
    for (const std::uint32_t call : calls) {
      const HostCall& c = trace_.calls[call];
      const std::vector<std::uint32_t>& launched = timeline_.launches[call];
      const std::vector<Awaited> awaited = launched.empty() ? awaited_by(c) : std::vector<Awaited>();
      if (launched.empty() && awaited.empty()) {
        if (asks(c)) polled = call;
        continue;
      }
      if (quiet < c.begin) add_gap(thread, quiet, c.begin, polled);
      polled.reset();
      quiet = c.end;
      launched.empty() ? add_wait(thread, call, awaited) : add_launch(thread, call, launched);
    }
    if (out_.tasks.size() == first) return;
    // The main thread's time before its first call is the step's, too.
    if (thread == timeline_.main_thread && out_.tasks[first].called > timeline_.origin) {
      const std::int64_t called = out_.tasks[first].called;
      out_.tasks.insert(out_.tasks.begin() + static_cast<std::ptrdiff_t>(first),
                        {HostTaskKind::lead, timeline_.origin, called, thread, kNone, timeline_.origin});
      for (FoundEdge& edge : out_.waits) edge.to += edge.to >= first ? 1 : 0;
    }
  }

  void add_launch(std::int64_t thread, std::uint32_t call, const std::vector<std::uint32_t>& launched) {
    const HostCall& c = trace_.calls[call];
    std::int64_t begin = c.begin;
    if (const std::uint32_t freed = freed_by(c, launched.front()); freed != kNone) {
      ++out_.guessed_waits;
      begin = op(freed).end;
      add_wait(thread, call, {{freed, EdgeSource::times, kSeenToWait}});
      out_.tasks.back().end = begin;
    }
    out_.tasks.push_back({HostTaskKind::launch, begin, c.end, thread, call, begin});
    const std::uint32_t last = launched.back();
    // A copy that was done before its call returned kept the host waiting.
    if (op(last).work != DeviceWork::copy || op(last).end > c.end + kRounding) return;
    add_wait(thread, call, {{last, EdgeSource::pairing, kBlockingCopy}});
    out_.tasks.back().called = out_.tasks.back().begin;
  }

  void add_wait(std::int64_t thread, std::uint32_t call, const std::vector<Awaited>& awaited) {
    const HostCall& c = trace_.calls[call];
    std::int64_t woken = c.begin;
    for (const Awaited& one : awaited) {
      woken = std::max(woken, std::min(op(one.op).end, c.end));
      out_.waits.push_back({one.op, static_cast<std::uint32_t>(out_.tasks.size()), one.source, one.confidence});
    }
    out_.tasks.push_back({HostTaskKind::wait, woken, c.end, thread, call, c.begin});
  }

  bool asks(const HostCall& call) const {
    const std::string& name = trace_.names.text(call.name);
    return name.find("EventQuery") != std::string::npos || name.find("StreamQuery") != std::string::npos;
  }

  /// A thread that launches nothing for long and goes on as soon as the device is done has waited for it: it slept, or
  /// asked again and again.
  void add_gap(std::int64_t thread, std::int64_t from, std::int64_t to, std::optional<std::uint32_t> polled) {
    const std::int64_t seen = polled ? trace_.calls[*polled].end : to;
    if (seen - from < (polled ? kLongWait : kSilence)) return;
    std::uint32_t awaited = kNone;
    for (std::uint32_t stream = 0; stream < timeline_.streams.size(); ++stream) {
      std::uint32_t last = timeline_.last_launched(stream, from);
      if (last == kNone) continue;
      const std::vector<std::uint32_t>& ops = timeline_.streams[stream].ops;
      // Who asks may ask for an earlier event. Who is silent waits for all that was launched.
      for (std::uint32_t place = timeline_.place[last]; polled && op(last).end > seen && place > 0;)
        last = ops[--place];
      const std::int64_t end = op(last).end;
      if (end <= from || end > seen || seen - end > kSeenSoon) continue;
      if (awaited == kNone || end > op(awaited).end) awaited = last;
    }
    if (awaited == kNone) return;
    ++out_.guessed_waits;
    out_.waits.push_back({awaited, static_cast<std::uint32_t>(out_.tasks.size()), EdgeSource::times, kSeenToWait});
    out_.tasks.push_back({HostTaskKind::wait, op(awaited).end, to, thread, polled.value_or(kNone), from});
  }

  /// Work whose end made room in the queue that a launch had found full; kNone if it found room.
  std::uint32_t freed_by(const HostCall& call, std::uint32_t launched) const {
    if (call.end - call.begin < kBlocked) return kNone;
    const std::vector<std::uint32_t>& ops = timeline_.streams[timeline_.stream_of[launched]].ops;
    const auto ended = [&](std::int64_t time) {
      return std::ranges::upper_bound(ops, time, {}, [&](std::uint32_t i) { return op(i).end; }) - ops.begin();
    };
    const std::ptrdiff_t before = ended(call.begin), after = ended(call.end);
    if (after <= before || timeline_.place[launched] < before + std::ptrdiff_t{kFullQueue}) return kNone;
    const std::uint32_t freed = ops[static_cast<std::size_t>(after) - 1];
    return call.end - op(freed).end <= kFreedSoon ? freed : kNone;
  }

  /// The work that a call of synchronisation waited for.
  std::vector<Awaited> awaited_by(const HostCall& call) const {
    std::vector<Awaited> out;
    const auto add = [&](std::uint32_t awaited, EdgeSource source, double confidence) {
      const bool done = awaited != kNone && op(awaited).end <= call.end + kRounding;
      if (done) out.push_back({awaited, source, confidence});
    };
    const auto found = sync_of_.find(call.correlation);
    const SyncRecord* const sync =
        found == sync_of_.end() || call.correlation == kNoCorrelation ? nullptr : found->second;
    if (call.kind == HostCallKind::device_sync) {
      for (std::uint32_t stream = 0; stream < timeline_.streams.size(); ++stream) {
        add(timeline_.last_launched(stream, call.begin), EdgeSource::synchronisation, 1);
      }
    } else if (sync != nullptr && call.kind == HostCallKind::stream_sync) {
      const std::uint32_t stream = timeline_.find_stream(sync->device, sync->stream);
      if (stream != kNone) add(timeline_.last_launched(stream, call.begin), EdgeSource::synchronisation, 1);
    } else if (sync != nullptr && call.kind == HostCallKind::event_sync) {
      const std::uint32_t stream = timeline_.find_stream(sync->device, sync->wait_on_stream);
      const std::uint32_t record = timeline_.find_call(sync->record_correlation);
      if (stream != kNone && record != kNone) {
        add(timeline_.last_launched(stream, trace_.calls[record].begin), EdgeSource::synchronisation, 1);
      }
    } else if (call.kind == HostCallKind::stream_sync || call.kind == HostCallKind::event_sync) {
      add(ended_during(call), EdgeSource::times, kSeenToWait);
    }
    return out;
  }

  /// The op that ended last while a call waited, of those that had been launched before; kNone if the call was short.
  std::uint32_t ended_during(const HostCall& call) const {
    std::uint32_t latest = kNone;
    if (call.end - call.begin < kLongWait) return latest;
    for (std::uint32_t stream = 0; stream < timeline_.streams.size(); ++stream) {
      const std::uint32_t last = timeline_.last_launched(stream, call.begin);
      if (last == kNone) continue;
      const std::vector<std::uint32_t>& ops = timeline_.streams[stream].ops;
      for (std::uint32_t place = timeline_.place[last] + 1; place-- > 0;) {
        const DeviceOp& candidate = op(ops[place]);
        if (candidate.end <= call.begin) break;
        if (candidate.end > call.end + kRounding) continue;
        if (latest == kNone || candidate.end > op(latest).end) latest = ops[place];
        break;
      }
    }
    return latest;
  }

  struct Thread {
    std::uint32_t task = kNone;       // its last
    std::size_t at = 0;               // the place of that among the tasks of all threads
    std::int64_t active = INT64_MIN;  // since when it hasn't slept
  };

  /// A task lasts until its thread's next one begins, unless the thread slept and others worked in between: then one of
  /// them woke it.
  void set_lengths() {
    std::vector<std::uint32_t> by_time(out_.tasks.size());
    for (std::uint32_t i = 0; i < by_time.size(); ++i) by_time[i] = i;
    std::ranges::stable_sort(by_time, {}, [&](std::uint32_t i) { return out_.tasks[i].called; });
    std::map<std::int64_t, Thread> threads;
    for (std::size_t at = 0; at < by_time.size(); ++at) {
      const std::uint32_t to = by_time[at];
      HostTask& task = out_.tasks[to];
      Thread& thread = threads[task.thread];
      const bool first = thread.task == kNone;
      const bool woken = first ? at > 0 && task.kind != HostTaskKind::lead
                               : was_woken(threads, thread, at, out_.tasks[by_time[at - 1]].thread, task);
      if (woken) add_wake(by_time[at - 1], to);
      if (!first) {
        HostTask& previous = out_.tasks[thread.task];
        const bool slept = task.called - resting(previous) >= kNap;
        if (!woken)
          previous.end = std::max(previous.begin,
                                  task.call != kNone && task.call == previous.call ? copy_begin(task) : task.called);
        out_.between.push_back({thread.task, to, EdgeSource::stream, 1});
        if (woken || slept) thread.active = task.called;
      } else {
        thread.active = task.called;
      }
      thread.task = to;
      thread.at = at;
    }
    extend_to_end(threads);
  }

  /// A thread that still waits when the other one goes on woke it before it began to wait.
  void add_wake(std::uint32_t from, std::uint32_t to) {
    const std::vector<HostTask>& tasks = out_.tasks;
    const std::int64_t woken = tasks[to].called;
    while (tasks[from].begin > woken && from > 0 && tasks[from - 1].thread == tasks[from].thread) --from;
    if (tasks[from].begin > woken) return;
    out_.between.push_back({from, to, EdgeSource::times, kWoken, woken - tasks[from].begin});
    ++out_.guessed_wakes;
  }

  /// When a thread had done what the trace shows of a task.
  std::int64_t resting(const HostTask& task) const {
    return task.kind == HostTaskKind::lead ? task.begin
           : task.call == kNone            ? task.begin
                                           : std::max(task.begin, trace_.calls[task.call].end);
  }

  bool was_woken(const std::map<std::int64_t, Thread>& threads, const Thread& thread, std::size_t at,
                 std::int64_t last_thread, const HostTask& task) const {
    if (at - thread.at > kLongSleep) return true;
    const HostTask& previous = out_.tasks[thread.task];
    const std::int64_t rest = resting(previous);
    if (last_thread == task.thread || task.called - rest < kNap || previous.kind == HostTaskKind::lead) return false;
    // Two threads that work in turns.
    const Thread& other = threads.at(last_thread);
    return other.active >= rest && out_.tasks[other.task].called >= rest;
  }

  /// The step lasts until its main thread is done with it. A step whose device is still busy after the mark's end isn't
  /// the host's.
  void extend_to_end(const std::map<std::int64_t, Thread>& threads) {
    const auto main = threads.find(timeline_.main_thread);
    if (main == threads.end()) return;
    HostTask& last = out_.tasks[main->second.task];
    std::int64_t done = INT64_MIN;
    for (const DeviceOp& one : timeline_.ops) done = std::max(done, one.end);
    if (timeline_.end > done) last.end = std::max(last.end, timeline_.end);
  }

  /// When the copy began whose call the host waited in, or of a launch into a full queue, when it could go on.
  std::int64_t copy_begin(const HostTask& wait) const {
    if (wait.kind == HostTaskKind::launch) return wait.begin;
    return std::min(wait.begin, op(timeline_.launches[wait.call].back()).begin);
  }

  void add_launches() {
    for (std::uint32_t i = 0; i < out_.tasks.size(); ++i) {
      const HostTask& task = out_.tasks[i];
      if (task.kind != HostTaskKind::launch) continue;
      for (const std::uint32_t launched : timeline_.launches[task.call]) {
        const std::int64_t delay = timeline_.launch_delay[static_cast<std::size_t>(op(launched).work)];
        const std::int64_t after =
            std::clamp<std::int64_t>(op(launched).begin - task.begin, 0, std::max<std::int64_t>(delay, 0));
        out_.launches.push_back({i, launched, EdgeSource::launch, 1, after});
      }
    }
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  std::unordered_map<std::int64_t, const SyncRecord*> sync_of_;
  HostWork out_;
};

}  // namespace

HostWork recover_host_work(const DeviceTrace& trace, const StepTimeline& timeline) {
  return HostSearch(trace, timeline).run();
}

}  // namespace weft::inspect
