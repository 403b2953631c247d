#include "inspect/import/device_edges.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "inspect/import/paired_waits.h"

namespace weft::inspect {
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
      calls ? add_paired_waits() : add_launch_order();
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
    if (!timeline_.allows(from, to)) return false;
    if (known_.emplace(from, to).second) out_.edges.push_back({from, to, source, confidence});
    return true;
  }

  void add_recorded_waits() {
    std::unordered_map<std::int64_t, std::int64_t> called;  // correlation → begin of the call
    for (const HostCall& call : trace_.calls) {
      if (call.correlation != kNoCorrelation) called.emplace(call.correlation, call.begin);
    }
    for (const SyncRecord& sync : trace_.syncs) {
      if (sync.kind != HostCallKind::wait) continue;
      out_.recorded_waits = true;
      const std::uint32_t source = timeline_.find_stream(sync.device, sync.wait_on_stream);
      const std::uint32_t target = timeline_.find_stream(sync.device, sync.stream);
      const auto record = called.find(sync.record_correlation), wait = called.find(sync.correlation);
      // An event of an earlier step orders nothing within this one.
      if (source == kNone || target == kNone || record == called.end() || wait == called.end()) continue;
      const std::uint32_t from = timeline_.last_launched(source, record->second);
      const std::uint32_t to = timeline_.first_launched(target, wait->second);
      if (from == kNone || to == kNone || source == target) continue;
      if (!add(from, to, EdgeSource::synchronisation, 1)) ++out_.contradicted;
    }
  }

  void add_paired_waits() {
    for (const PairedWait& wait : pair_waits(trace_, timeline_)) {
      add(wait.from, wait.to, EdgeSource::pairing, wait.confidence);
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
