#include "inspect/import/coalesced_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::inspect {
namespace {

constexpr std::string_view kC10dOperator = "c10d::";

/// What a thread did since its last launch.
struct CoalescingThread {
  std::vector<std::uint32_t> open;   // operators, the innermost last
  std::vector<std::uint32_t> asked;  // outermost operators of c10d
  std::vector<std::uint32_t> group;  // of the last launch, if that was of a coalesced group
};

class CoalescedSearch {
 public:
  explicit CoalescedSearch(DeviceTrace& trace) : trace_(trace) {
    for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
      if (trace.ops[i].correlation != kNoCorrelation) launched_[trace.ops[i].correlation].push_back(i);
    }
  }

  void run() {
    std::uint32_t next = 0;
    for (const HostCall& call : trace_.calls) {
      for (; next < trace_.operators.size() && trace_.operators[next].begin <= call.begin; ++next) begin(next);
      const auto found = launched_.find(call.correlation);
      if (call.correlation != kNoCorrelation && found != launched_.end()) launch(call, found->second);
    }
    if (joined_ == 0) return;
    trace_.notes.push_back(fmt::format(
        "{} kernels of communication were launched by the end of a group: the operators before it tell what "
        "they exchange.",
        joined_));
  }

 private:
  bool is_c10d(std::uint32_t one) const { return name_of(one).starts_with(kC10dOperator); }
  const std::string& name_of(std::uint32_t one) const { return trace_.names.text(trace_.operators[one].name); }

  void close(CoalescingThread& thread, std::int64_t time) const {
    while (!thread.open.empty() && trace_.operators[thread.open.back()].end <= time) thread.open.pop_back();
  }

  void begin(std::uint32_t one) {
    CoalescingThread& thread = threads_[trace_.operators[one].thread];
    close(thread, trace_.operators[one].begin);
    const bool outermost = std::ranges::none_of(thread.open, [&](std::uint32_t around) { return is_c10d(around); });
    if (is_c10d(one) && outermost) thread.asked.push_back(one);
    thread.open.push_back(one);
  }

  void launch(const HostCall& call, const std::vector<std::uint32_t>& ops) {
    CoalescingThread& thread = threads_[call.thread];
    close(thread, call.begin);
    // Nodes of the backward pass and functions of a user may be around a group.
    const bool within =
        std::ranges::any_of(thread.open, [&](std::uint32_t around) { return is_dispatched(name_of(around)); });
    std::vector<std::uint32_t> group = std::exchange(thread.asked, {});
    if (group.empty()) group = std::exchange(thread.group, {});
    thread.group.clear();
    const bool unknown = std::ranges::all_of(ops, [&](std::uint32_t i) { return lacks_arguments(trace_.ops[i]); });
    if (within || !unknown || group.empty()) return;
    for (const std::uint32_t i : ops) join(trace_.ops[i], group);
    thread.group = std::move(group);
  }

  bool lacks_arguments(const DeviceOp& op) const {
    if (op.collective == kNoCollective) return false;
    const CollectiveNote& note = trace_.collectives[op.collective];
    return note.group.empty() && note.description.empty() && note.group_size == 0;
  }

  void join(DeviceOp& op, const std::vector<std::uint32_t>& group) {
    op.asked_by = group.front();
    ++joined_;
    CollectiveNote joint = trace_.collectives[op.collective];
    std::int64_t count = 0;
    for (const std::uint32_t one : group) {
      if (one != group.front()) trace_.coalesced.emplace_back(one, group.front());
      const CollectiveNote* const note = note_within(one);
      if (note == nullptr) continue;
      if (++count == 1) {
        joint = *note;
        continue;
      }
      joint.bytes += note->bytes;
      joint.peer = -1;
      const bool transfers = note->kind == "send" || note->kind == "receive";
      if (transfers || note->kind != joint.kind) joint.kind = "send_receive";
    }
    trace_.collectives[op.collective] = std::move(joint);
  }

  /// What an operator, or the record in it, says about what it asks for.
  const CollectiveNote* note_within(std::uint32_t one) const {
    const HostOperator& around = trace_.operators[one];
    for (std::uint32_t i = one; i < trace_.operators.size() && trace_.operators[i].begin <= around.end; ++i) {
      const HostOperator& inner = trace_.operators[i];
      const bool tells = inner.thread == around.thread && inner.collective != kNoCollective;
      if (tells) return &trace_.collectives[inner.collective];
    }
    return nullptr;
  }

  DeviceTrace& trace_;
  std::unordered_map<std::int64_t, std::vector<std::uint32_t>> launched_;  // by correlation
  std::map<std::int64_t, CoalescingThread> threads_;
  std::int64_t joined_ = 0;
};

}  // namespace

void join_coalesced_groups(DeviceTrace& trace) {
  CoalescedSearch(trace).run();
}

}  // namespace weft::inspect
