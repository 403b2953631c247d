#include "inspect/import/impossible_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "inspect/import/kernel_names.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kFarApart = 60'000'000'000;  // a time at 0 is no time if all others are later than this
constexpr std::int64_t kSkew = 1'000'000;           // by which clocks of host and device may differ
constexpr std::int64_t kLeastShare = 20;            // one of so many kernels is on a device of its own, at least
constexpr std::int64_t kMostDevice = 1 << 16;
constexpr std::int64_t kSoonAfter = 20'000;  // work that waited begins this soon after what it waited for

class RecordMending {
 public:
  explicit RecordMending(DeviceTrace& trace) : trace_(trace) {}

  void run() && {
    drop_copies();
    drop_times_at_zero();
    move_behind_launches();
    fill_in_lost_kernels();
    std::ranges::stable_sort(trace_.ops, {}, &DeviceOp::begin);
    tell_overlaps();
  }

 private:
  const std::string& text(std::uint32_t name) const { return trace_.names.text(name); }

  void drop_copies() {
    RecordFault twice;
    const auto drop = [&](auto& records, auto key) {
      std::set<decltype(key(records.front()))> same;  // of one begin
      std::int64_t begin = INT64_MIN;
      std::erase_if(records, [&](const auto& one) {
        if (one.begin != begin) same.clear();
        begin = one.begin;
        if (same.insert(key(one)).second) return false;
        twice.add(text(one.name));
        return true;
      });
    };
    drop(trace_.ops,
         [](const DeviceOp& one) { return std::tuple(one.end, one.device, one.stream, one.correlation, one.name); });
    drop(trace_.calls, [](const HostCall& one) { return std::tuple(one.end, one.thread, one.correlation, one.name); });
    twice.tell(trace_.notes, "records are in the file twice", ": each is taken once");
  }

  void drop_times_at_zero() {
    std::int64_t first = INT64_MAX;
    for (const DeviceOp& op : trace_.ops) first = op.begin > 0 ? std::min(first, op.begin) : first;
    for (const HostCall& call : trace_.calls) first = call.begin > 0 ? std::min(first, call.begin) : first;
    if (first == INT64_MAX || first < kFarApart) return;
    std::unordered_set<std::int64_t> launched;
    for (const HostCall& call : trace_.calls) {
      if (call.begin > 0) launched.insert(call.correlation);
    }
    RecordFault dropped;
    const auto drop = [&](const auto& one) {
      if (one.begin <= 0) dropped.add(text(one.name));
      return one.begin <= 0;
    };
    // Work with a launch gets its time from there.
    std::erase_if(trace_.ops, [&](const DeviceOp& op) {
      const bool known = op.correlation != kNoCorrelation && launched.contains(op.correlation);
      return !known && drop(op);
    });
    std::erase_if(trace_.calls, drop);
    dropped.tell(trace_.notes, "records have a time at 0 or before it, long before all others", ": left out");
  }

  /// Clocks may differ, which all work shows then.
  void move_behind_launches() {
    launch_of_.clear();
    for (const HostCall& call : trace_.calls) {
      if (call.correlation != kNoCorrelation) launch_of_.emplace(call.correlation, call.begin);
    }
    std::vector<std::int64_t> delays;
    for (const DeviceOp& op : trace_.ops) {
      const auto launch = launch_of_.find(op.correlation);
      if (launch != launch_of_.end()) delays.push_back(op.begin - launch->second);
    }
    if (delays.empty()) return;
    const auto middle = delays.begin() + static_cast<std::ptrdiff_t>(delays.size() / 2);
    std::ranges::nth_element(delays, middle);
    const std::int64_t least = std::min<std::int64_t>(0, *middle) - kSkew;
    RecordFault early;
    for (DeviceOp& op : trace_.ops) {
      const auto launch = launch_of_.find(op.correlation);
      if (launch == launch_of_.end() || op.begin - launch->second >= least) continue;
      early.add(text(op.name));
      op.end = launch->second + (op.end - op.begin);
      op.begin = launch->second;
    }
    early.tell(trace_.notes, "records of work begin before the call that launched them", ": moved to the call");
    std::ranges::stable_sort(trace_.ops, {}, &DeviceOp::begin);
  }

  bool is_kernel_launch(const HostCall& call) const {
    return call.kind == HostCallKind::launch && call.correlation != kNoCorrelation &&
           text(call.name).find("LaunchKernel") != std::string::npos;
  }

  /// A stream that stood still between two kernels, though the second one had been launched, ran what was launched
  /// between them.
  void fill_in_lost_kernels() {
    std::unordered_map<std::int64_t, std::uint32_t> op_of;  // the first of each correlation
    std::vector<std::int64_t> ends;
    for (std::uint32_t i = 0; i < trace_.ops.size(); ++i) {
      op_of.emplace(trace_.ops[i].correlation, i);
      ends.push_back(trace_.ops[i].end);
    }
    std::ranges::sort(ends);
    RecordFault lost;
    std::unordered_set<std::int64_t> counted;
    std::map<std::int64_t, std::uint32_t> before;  // by thread: the work that it launched last
    std::map<std::int64_t, const HostCall*> open;  // by thread: the first lost launch since then
    std::vector<DeviceOp> found;
    std::set<std::int64_t> capturing;  // threads whose launches become a graph
    for (const HostCall& call : trace_.calls) {
      if (text(call.name).find("BeginCapture") != std::string::npos) capturing.insert(call.thread);
      if (text(call.name).find("EndCapture") != std::string::npos) capturing.erase(call.thread);
      const auto op = call.correlation == kNoCorrelation ? op_of.end() : op_of.find(call.correlation);
      if (op == op_of.end()) {
        if (!is_kernel_launch(call) || capturing.contains(call.thread) || !counted.insert(call.correlation).second)
          continue;
        lost.add(text(call.name));
        open.emplace(call.thread, &call);
        continue;
      }
      if (const auto missing = open.find(call.thread); missing != open.end()) {
        const auto last = before.find(call.thread);
        const DeviceOp* const previous = last == before.end() ? nullptr : &trace_.ops[last->second];
        add_lost(*missing->second, previous, trace_.ops[op->second], call, ends, found);
        open.erase(missing);
      }
      before[call.thread] = op->second;
    }
    std::int64_t filled = 0;
    for (const DeviceOp& op : found) filled += op.end - op.begin;
    const std::string consequence =
        found.empty()
            ? std::string(". Nothing is known of their time")
            : fmt::format(". In {} gaps of a stream, {:.3f} ms together, a task 'lost_kernel' stands for them",
                          found.size(), static_cast<double>(filled) / 1e6);
    lost.tell(trace_.notes, "launches have no kernel in the trace", consequence);
    trace_.ops.insert(trace_.ops.end(), found.begin(), found.end());
  }

  void add_lost(const HostCall& launch, const DeviceOp* before, const DeviceOp& next, const HostCall& next_launch,
                const std::vector<std::int64_t>& ends, std::vector<DeviceOp>& found) {
    if (before != nullptr && (before->stream != next.stream || before->device != next.device)) return;
    const std::int64_t begin = before == nullptr ? launch.end : std::max(launch.end, before->end);
    // The next kernel's own launch, or a wait for other work, explains the gap.
    if (next.begin - begin <= kSoonAfter || next.begin - next_launch.begin <= kSoonAfter) return;
    const auto other = std::ranges::upper_bound(ends, next.begin + kRounding);
    if (other != ends.begin() && *std::prev(other) >= next.begin - kSoonAfter) return;
    DeviceOp op{.begin = begin, .end = next.begin, .correlation = launch.correlation};
    op.name = trace_.names.number(kLostKernel);
    op.device = next.device;
    op.stream = next.stream;
    found.push_back(op);
  }

  void tell_overlaps() {
    RecordFault overlapping;
    std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> busy;
    for (const DeviceOp& op : trace_.ops) {
      std::int64_t& until = busy.try_emplace({op.device, op.stream}, INT64_MIN).first->second;
      if (until != INT64_MIN && op.begin + kRounding < until) overlapping.add(text(op.name));
      until = std::max(until, op.end);
    }
    overlapping.tell(trace_.notes, "records of work begin before earlier work of their stream ends",
                     ": only their begins are ordered");
  }

  DeviceTrace& trace_;
  std::unordered_map<std::int64_t, std::int64_t> launch_of_;  // when, by correlation
};

}  // namespace

void RecordFault::tell(std::vector<std::string>& notes, std::string_view problem, std::string_view consequence) const {
  if (count > 0) notes.push_back(fmt::format("{} {}, first '{}'{}.", count, problem, first, consequence));
}

void mend_records(DeviceTrace& trace) {
  RecordMending(trace).run();
}

std::vector<std::int32_t> devices_of_ranks(const std::map<std::int64_t, std::int64_t>& kernels) {
  std::int64_t all = 0;
  for (const auto& [device, count] : kernels) all += count;
  std::vector<std::int32_t> devices;
  for (const auto& [device, count] : kernels) {
    if (count * kLeastShare >= all && device >= 0 && device <= kMostDevice) {
      devices.push_back(static_cast<std::int32_t>(device));
    }
  }
  return devices;
}

void keep_device(DeviceTrace& trace, std::int32_t device) {
  std::unordered_set<std::int64_t> elsewhere;  // correlations of other devices' work
  for (const DeviceOp& op : trace.ops) {
    if (op.device != device) elsewhere.insert(op.correlation);
  }
  std::erase_if(trace.ops, [&](const DeviceOp& op) { return op.device != device; });
  std::erase_if(trace.syncs, [&](const SyncRecord& sync) { return sync.device != device; });
  std::unordered_set<std::int64_t> ours;
  for (const DeviceOp& op : trace.ops) ours.insert(op.correlation);
  std::set<std::int64_t> threads, others;
  for (const HostCall& call : trace.calls) {
    if (call.correlation == kNoCorrelation) continue;
    if (ours.contains(call.correlation)) threads.insert(call.thread);
    if (elsewhere.contains(call.correlation)) others.insert(call.thread);
  }
  std::erase_if(trace.calls, [&](const HostCall& call) {
    if (call.correlation != kNoCorrelation && elsewhere.contains(call.correlation)) return true;
    return others.contains(call.thread) && !threads.contains(call.thread);
  });
}

}  // namespace weft::inspect
