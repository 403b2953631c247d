#include "inspect/import/data_edges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace weft::inspect {
namespace {

using graph::EdgeSource;

/// The operators around each op, from the outermost on: indices into DeviceTrace::operators.
class OperatorsAround {
 public:
  OperatorsAround(const DeviceTrace& trace, const StepTimeline& timeline) : trace_(trace), timeline_(timeline) {
    stacks_.resize(timeline.ops.size());
    std::vector<std::tuple<std::int64_t, std::int64_t, std::uint32_t>> asked;  // time, thread, op
    for (std::uint32_t i = 0; i < timeline.ops.size(); ++i) {
      if (const auto at = launched_at(i)) asked.emplace_back(at->first, at->second, i);
    }
    std::ranges::sort(asked);
    std::map<std::int64_t, std::vector<std::uint32_t>> open;  // by thread
    std::uint32_t next = 0;
    for (const auto& [time, thread, op] : asked) {
      for (; next < trace.operators.size() && trace.operators[next].begin <= time; ++next) {
        std::vector<std::uint32_t>& stack = open[trace.operators[next].thread];
        close(stack, trace.operators[next].begin);
        stack.push_back(next);
      }
      std::vector<std::uint32_t>& stack = open[thread];
      close(stack, time);
      stacks_[op] = stack;
    }
  }

  const std::vector<std::uint32_t>& of(std::uint32_t op) const { return stacks_[op]; }

 private:
  void close(std::vector<std::uint32_t>& stack, std::int64_t time) const {
    while (!stack.empty() && trace_.operators[stack.back()].end <= time) stack.pop_back();
  }

  /// When and on which thread; a collective of gloo's threads where it was asked for.
  std::optional<std::pair<std::int64_t, std::int64_t>> launched_at(std::uint32_t i) const {
    const DeviceOp& op = timeline_.ops[i];
    if (op.asked_by < trace_.operators.size()) {
      const HostOperator& request = trace_.operators[op.asked_by];
      return std::pair(request.begin, request.thread);
    }
    if (trace_.cpu_only) return std::pair(op.begin, std::int64_t{op.stream});
    const std::uint32_t call = timeline_.call_of[i];
    if (call == kNone) return std::nullopt;
    return std::pair(trace_.calls[call].begin, trace_.calls[call].thread);
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  std::vector<std::vector<std::uint32_t>> stacks_;
};

/// What one operator launched: ops, by begin.
using Launched = std::vector<std::uint32_t>;

/// What is in a storage at a moment of the step.
struct StorageState {
  std::uint32_t writer = kNone;  // a number of Launched
  std::vector<std::uint32_t> readers = {};
};

class DataSearch {
 public:
  DataSearch(const DeviceTrace& trace, const StepTimeline& timeline, const ExecutionTrace* data)
      : trace_(trace), timeline_(timeline), data_(data), around_(trace, timeline) {
    out_.known.resize(timeline.ops.size(), false);
    number_of_.resize(timeline.ops.size(), kNone);
  }

  DataEdges run() && {
    if (data_ != nullptr) {
      index_nodes();
      find_roots();
    }
    std::vector<bool> told(timeline_.ops.size(), false);  // of an operator that is known by its name at least
    for (std::uint32_t i = 0; i < timeline_.ops.size(); ++i) told[i] = join_op(i);
    add_neighbours_without_operator(told);
    for (const Launched& one : launched_) add_operator(one);
    if (data_ != nullptr) {
      add_accesses();
      add_backward();
    } else {
      follow_arrows();
    }
    return std::move(out_);
  }

 private:
  const DeviceOp& op(std::uint32_t index) const { return timeline_.ops[index]; }
  const TraceOperator& node(std::uint32_t index) const { return data_->operators[index]; }

  void index_nodes() {
    for (std::uint32_t i = 0; i < data_->operators.size(); ++i) {
      if (node(i).record_function > 0) node_of_.emplace(node(i).record_function, i);
    }
    launched_of_node_.assign(data_->operators.size(), kNone);
  }

  std::uint32_t number(std::map<std::uint32_t, std::uint32_t>& numbers, std::uint32_t key) {
    const auto [at, added] = numbers.emplace(key, static_cast<std::uint32_t>(launched_.size()));
    if (added) launched_.emplace_back();
    return at->second;
  }

  /// Joins an op with the others of its operator.
  bool join_op(std::uint32_t i) {
    const std::vector<std::uint32_t>& stack = around_.of(i);
    if (stack.empty()) return false;
    if (const std::uint32_t innermost = node_of_operator(stack.back()); innermost != kNoOperator) {
      ++out_.joined;
      if (node(innermost).name != trace_.names.text(trace_.operators[stack.back()].name)) ++out_.misnamed;
    }
    const std::uint32_t found = root_of(stack);
    std::uint32_t of = kNone;
    if (found != kNoOperator) {
      of = number(by_node_, found);
      launched_of_node_[found] = of;
    } else {
      const auto outermost = std::ranges::find_if(
          stack, [&](std::uint32_t one) { return is_dispatched(trace_.names.text(trace_.operators[one].name)); });
      of = number(by_operator_, outermost == stack.end() ? stack.back() : *outermost);
    }
    launched_[of].push_back(i);
    number_of_[i] = of;
    return true;
  }

  /// The node of the execution trace that is this operator of the profiler's; kNoOperator: none is.
  std::uint32_t node_of_operator(std::uint32_t host_operator) const {
    const auto found = node_of_.find(trace_.operators[host_operator].record_function);
    return found == node_of_.end() ? kNoOperator : found->second;
  }

  /// Work on a device is known by an operator that tells all accesses. On CPUs a task is an operator, with all
  /// operators in it; what its request began on another thread is a part of it.
  bool may_be_root(std::uint32_t host_operator, std::uint32_t of_node) const {
    if (!trace_.cpu_only) return node(of_node).tells_accesses;
    return !trace_.names.text(trace_.operators[host_operator].name).starts_with("autograd::engine::evaluate_function");
  }

  /// By node, the outermost operator to which it belongs. The profiler's times tell which operator is in which: the
  /// execution trace's own parents are wrong where ranges of a thread don't nest. They tell it of nodes that the
  /// profiler lacks.
  void find_roots() {
    root_.assign(data_->operators.size(), kNoOperator);
    const std::map<std::uint32_t, std::uint32_t> leaders(trace_.coalesced.begin(), trace_.coalesced.end());
    std::vector<bool> timed(root_.size(), false);
    struct Open {
      std::int64_t end;
      std::uint32_t root;
    };
    std::map<std::int64_t, std::vector<Open>> open;  // by thread
    for (std::uint32_t i = 0; i < trace_.operators.size(); ++i) {
      const HostOperator& one = trace_.operators[i];
      std::vector<Open>& stack = open[one.thread];
      while (!stack.empty() && stack.back().end <= one.begin) stack.pop_back();
      std::uint32_t root = stack.empty() ? kNoOperator : stack.back().root;
      if (const std::uint32_t of = node_of_operator(i); of != kNoOperator) {
        if (root == kNoOperator && may_be_root(i, of)) root = of;
        if (const auto leader = leaders.find(i); leader != leaders.end()) root = root_of({leader->second});
        root_[of] = root;
        timed[of] = true;
      }
      stack.push_back({one.end, root});
    }
    for (std::uint32_t i = 0; i < root_.size(); ++i) {
      if (timed[i]) continue;
      const std::uint32_t parent = node(i).parent;
      if (parent != kNoOperator) root_[i] = root_[parent];
      if (root_[i] == kNoOperator && node(i).tells_accesses) root_[i] = i;
    }
  }

  /// The operator of the execution trace to which work belongs that was launched in these; kNoOperator: none.
  std::uint32_t root_of(const std::vector<std::uint32_t>& stack) const {
    if (data_ == nullptr) return kNoOperator;
    const std::uint32_t innermost = node_of_operator(stack.back());
    return innermost == kNoOperator ? kNoOperator : root_[innermost];
  }

  void add_neighbours_without_operator(const std::vector<bool>& told) {
    if (trace_.cpu_only) return;
    const std::vector<MarkedPlace> places = places_of_calls(trace_);
    const auto place = [&](std::uint32_t i) {
      const std::uint32_t call = timeline_.call_of[i];
      const MarkedPlace at = call == kNone ? MarkedPlace() : places[call];
      return std::tuple(at.phase, at.layer, at.micro_batch);
    };
    for (const TimelineStream& stream : timeline_.streams) {
      for (std::size_t n = 1; n < stream.ops.size(); ++n) {
        const std::uint32_t from = stream.ops[n - 1], to = stream.ops[n];
        const bool collective = op(from).collective != kNoCollective || op(to).collective != kNoCollective;
        if (!told[from] && !told[to] && !collective && place(from) == place(to)) {
          add(from, to, EdgeSource::one_operator);
        }
      }
    }
  }

  void add_operator(const Launched& one) {
    std::map<std::uint32_t, std::uint32_t> last;  // by stream
    for (std::size_t n = 0; n < one.size(); ++n) {
      const std::uint32_t to = one[n], stream = timeline_.stream_of[to];
      const auto before = last.find(stream);
      if (before != last.end()) add(before->second, to, EdgeSource::one_operator);
      const bool other_stream = n > 0 && timeline_.stream_of[one[n - 1]] != stream;
      if (other_stream && !trace_.cpu_only && timeline_.allows(one[n - 1], to)) {
        add(one[n - 1], to, EdgeSource::one_operator);
      }
      last[stream] = to;
    }
  }

  /// Returns whether the edge is there now.
  bool add(std::uint32_t from, std::uint32_t to, EdgeSource source) {
    const bool same_stream = timeline_.stream_of[from] == timeline_.stream_of[to];
    const bool done = timeline_.allows_known(from, to);
    if (same_stream && timeline_.place[from] >= timeline_.place[to]) return false;
    if (!done && !same_stream) return false;
    if (!added_.emplace(from, to).second) return true;
    FoundEdge& edge = out_.edges.emplace_back(FoundEdge{from, to, source});
    if (!done) edge.after_begin = std::max<std::int64_t>(0, op(to).begin - op(from).begin);
    return true;
  }

  void add_accesses() {
    std::vector<std::map<std::int64_t, StorageUse>> uses(root_.size());  // by root
    std::vector<bool> has_storages(root_.size(), false);
    for (std::uint32_t i = 0; i < root_.size(); ++i) {
      if (root_[i] == kNoOperator) continue;
      if (node(i).has_storages) has_storages[root_[i]] = true;
      for (const StorageAccess& access : node(i).accesses) {
        const auto [at, is_new] = uses[root_[i]].emplace(access.storage, access.use);
        if (!is_new && at->second == StorageUse::read && access.use != StorageUse::read) at->second = StorageUse::write;
      }
    }
    std::unordered_map<std::int64_t, StorageState> storages;
    for (std::uint32_t root = 0; root < uses.size(); ++root) {
      const std::uint32_t launched = launched_of_node_[root];
      for (const auto& [storage, use] : uses[root]) {
        if (use == StorageUse::make) storages.erase(storage);
        if (launched == kNone) continue;  // it works on the host, which waits for the device where it has to
        access(storages[storage], launched, use);
      }
      if (launched == kNone || !has_storages[root]) continue;
      for (const std::uint32_t one : launched_[launched]) out_.known[one] = true;
    }
  }

  void access(StorageState& state, std::uint32_t launched, StorageUse use) {
    join(state.writer, launched);
    if (use == StorageUse::read) {
      if (state.readers.empty() || state.readers.back() != launched) state.readers.push_back(launched);
      return;
    }
    for (const std::uint32_t reader : state.readers) join(reader, launched);
    state = {launched, {}};
  }

  /// The last works of an operator, and the first ones of another.
  std::vector<std::uint32_t> outer(const Launched& of, bool last) const {
    std::map<std::uint32_t, std::uint32_t> by_stream;
    for (const std::uint32_t one : of) {
      const auto [at, added] = by_stream.emplace(timeline_.stream_of[one], one);
      if (!added && last) at->second = one;
    }
    std::vector<std::uint32_t> out;
    for (const auto& each : by_stream) {
      const std::uint32_t one = each.second;
      const bool is_outer = std::ranges::none_of(by_stream, [&](const auto& other) {
        return last ? timeline_.allows(one, other.second) : timeline_.allows(other.second, one);
      });
      if (is_outer) out.push_back(one);
    }
    return out;
  }

  void join(std::uint32_t from, std::uint32_t to) {
    if (from == kNone || from == to || !joined_.emplace(from, to).second) return;
    for (const std::uint32_t before : outer(launched_[from], true)) {
      for (const std::uint32_t after : outer(launched_[to], false)) {
        if (!add(before, after, EdgeSource::data)) ++out_.contradicted;
      }
    }
  }

  /// The backward node of an operator comes after it.
  void add_backward() {
    std::unordered_map<std::int64_t, std::uint32_t> forward;  // by sequence number: the last operator that had it
    for (std::uint32_t i = 0; i < root_.size(); ++i) {
      if (root_[i] == kNoOperator || launched_of_node_[root_[i]] == kNone) continue;
      const std::uint32_t launched = launched_of_node_[root_[i]];
      std::uint32_t at = i;
      while (at != kNoOperator && !node(at).backward) at = node(at).parent;
      if (at == kNoOperator) {
        if (node(i).sequence >= 0) forward[node(i).sequence] = launched;
        continue;
      }
      const auto found = forward.find(node(at).sequence);
      if (node(at).sequence >= 0 && found != forward.end()) join(found->second, launched);
    }
  }

  /// The same, as the profiler's arrows tell it: all that the node launched comes after all that the operator did.
  void follow_arrows() {
    if (trace_.arrows.empty()) return;
    using Places = std::multimap<BackwardArrow::Place, std::uint32_t>;
    using Numbers = std::set<std::uint32_t>;  // of Launched
    Places starts, ends;
    for (std::uint32_t i = 0; i < trace_.arrows.size(); ++i) {
      starts.emplace(trace_.arrows[i].from, i);
      ends.emplace(trace_.arrows[i].to, i);
    }
    std::vector<Numbers> before(trace_.arrows.size()), after(trace_.arrows.size());
    const auto take = [](const Places& arrows, const BackwardArrow::Place& place, std::uint32_t number,
                         std::vector<Numbers>& out) {
      const auto [first, last] = arrows.equal_range(place);
      for (auto at = first; at != last; ++at) out[at->second].insert(number);
    };
    for (std::uint32_t i = 0; trace_.cpu_only && i < trace_.arrows.size(); ++i) {
      before[i] = {number_at(trace_.arrows[i].from)};
      after[i] = {number_at(trace_.arrows[i].to)};
    }
    for (std::uint32_t i = 0; !trace_.cpu_only && i < timeline_.ops.size(); ++i) {
      for (const std::uint32_t around : around_.of(i)) {
        const BackwardArrow::Place place(trace_.operators[around].thread, trace_.operators[around].begin);
        take(starts, place, number_of_[i], before);
        take(ends, place, number_of_[i], after);
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (const std::uint32_t from : before[i]) {
        for (const std::uint32_t to : after[i]) {
          if (to != kNone) join(from, to);
        }
      }
    }
  }

  /// On CPUs a task is an operator, with all operators in it: the number of the one that holds a place.
  std::uint32_t number_at(const BackwardArrow::Place& place) const {
    const auto& [thread, time] = place;
    const auto stream =
        timeline_.find_stream(0, static_cast<std::int32_t>(std::clamp<std::int64_t>(thread, INT32_MIN, INT32_MAX)));
    const std::uint32_t at = stream == kNone ? kNone : timeline_.last_launched(stream, time + 1);
    return at != kNone && op(at).end > time ? number_of_[at] : kNone;
  }

  const DeviceTrace& trace_;
  const StepTimeline& timeline_;
  const ExecutionTrace* data_;
  const OperatorsAround around_;
  std::unordered_map<std::int64_t, std::uint32_t> node_of_;       // by record function
  std::map<std::uint32_t, std::uint32_t> by_node_, by_operator_;  // numbers of Launched
  std::vector<std::uint32_t> launched_of_node_;                   // kNone: the node launched nothing
  std::vector<std::uint32_t> root_;
  std::vector<Launched> launched_;
  std::vector<std::uint32_t> number_of_;  // by op: of what its operator launched
  std::set<std::pair<std::uint32_t, std::uint32_t>> added_, joined_;
  DataEdges out_;
};

}  // namespace

DataEdges recover_data_edges(const DeviceTrace& trace, const StepTimeline& timeline, const ExecutionTrace* data) {
  return DataSearch(trace, timeline, data).run();
}

}  // namespace weft::inspect
