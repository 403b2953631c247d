#include "runtime/policy/builtin/inductor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/policy/scheduling/program_order.h"

namespace weft::policy {
namespace {

enum class Pass : std::uint8_t { reorder, sink, raise };

constexpr std::array<std::string_view, 3> kPasses = {"reorder", "sink", "raise"};

std::vector<Pass> passes_of(std::string_view text) {
  std::vector<Pass> passes;
  for (const auto part : std::views::split(text, '+')) {
    const std::string_view word(part.begin(), part.end());
    const auto known = std::ranges::find(kPasses, word);
    if (known == kPasses.end()) {
      throw UserError(fmt::format("policy inductor: pass \"{}\"", word), "reorder, sink and raise, joined by +",
                      "inductor:passes=sink+raise, say");
    }
    passes.push_back(static_cast<Pass>(known - kPasses.begin()));
  }
  return passes;
}

/// A step as the compiler sees it: nodes 0 … n − 1 are the tasks, and node n + t is the wait for collective t, which
/// stands between it and whatever needs its result.
class Nodes {
 public:
  Nodes(const graph::Graph& graph, const cost::TaskCosts& costs) : tasks_(graph.tasks().size()), cost_(costs.ns) {
    communicates_.reserve(tasks_);
    for (const graph::Task& task : graph.tasks()) communicates_.push_back(graph::is_collective(task.operation) ? 1 : 0);
    after_.resize(2 * tasks_);
    before_.resize(2 * tasks_);
    for (std::uint32_t task = 0; task < tasks_; ++task) {
      if (communicates_[task] != 0) join(task, wait_of(task));
    }
    for (const graph::Edge& edge : graph.edges()) {
      if (edge.distance > 0) continue;
      const bool needs_result = edge.kind == graph::EdgeKind::completes_before && communicates_[edge.from.index()] != 0;
      join(needs_result ? wait_of(edge.from.value) : edge.from.value, edge.to.value);
    }
  }

  std::size_t tasks() const { return tasks_; }
  bool exists(std::uint32_t node) const { return node < tasks_ || communicates_[node - tasks_] != 0; }
  bool is_wait(std::uint32_t node) const { return node >= tasks_; }
  bool is_collective(std::uint32_t node) const { return node < tasks_ && communicates_[node] != 0; }
  double cost(std::uint32_t node) const { return is_wait(node) ? 0 : cost_[node]; }
  const std::vector<std::uint32_t>& after(std::uint32_t node) const { return after_[node]; }
  const std::vector<std::uint32_t>& before(std::uint32_t node) const { return before_[node]; }

  /// Tasks in program order, each wait directly before the first task that needs its collective.
  std::vector<std::uint32_t> in_program_order() const {
    std::vector<std::uint32_t> sequence;
    std::vector<char> placed(2 * tasks_, 0);
    for (std::uint32_t task = 0; task < tasks_; ++task) {
      for (const std::uint32_t node : before_[task]) {
        if (is_wait(node) && std::exchange(placed[node], 1) == 0) sequence.push_back(node);
      }
      sequence.push_back(task);
    }
    for (std::uint32_t task = 0; task < tasks_; ++task) {  // results that only the next step needs
      if (communicates_[task] != 0 && placed[wait_of(task)] == 0) sequence.push_back(wait_of(task));
    }
    return sequence;
  }

 private:
  std::uint32_t wait_of(std::uint32_t task) const { return static_cast<std::uint32_t>(tasks_) + task; }
  void join(std::uint32_t from, std::uint32_t to) {
    after_[from].push_back(to);
    before_[to].push_back(from);
  }

  std::size_t tasks_;
  std::vector<double> cost_;
  std::vector<char> communicates_;
  std::vector<std::vector<std::uint32_t>> after_, before_;
};

/// Why a pass put a task where it stands.
struct Hides {
  double cost = 0, left = 0;  // the task's, and what was left of the collective's
};

/// One pass over a sequence: nodes whose predecessors are placed are ready, and the ready node with the least key comes
/// next.
class Rescheduled {
 public:
  Rescheduled(const Nodes& nodes, const std::vector<std::uint32_t>& sequence, Pass pass,
              std::vector<std::optional<Hides>>& hides)
      : nodes_(nodes), pass_(pass), hides_(hides), key_(2 * nodes.tasks()), missing_(2 * nodes.tasks(), 0) {
    for (std::uint32_t place = 0; place < sequence.size(); ++place) key_[sequence[place]] = {kNone, 0, place};
    if (pass == Pass::raise) rank_by_collectives(sequence);
    for (const std::uint32_t node : sequence) {
      if (pass == Pass::sink && nodes.is_wait(node)) std::get<1>(key_[node]) = 1;
      missing_[node] = static_cast<std::uint32_t>(nodes.before(node).size());
      if (missing_[node] == 0) ready_.insert({key_[node], node});
    }
    while (!ready_.empty()) {
      const std::uint32_t node = ready_.begin()->second;
      place(node);
      if (pass_ == Pass::reorder && nodes_.is_collective(node)) hide(node);
    }
  }

  std::vector<std::uint32_t> take() { return std::move(placed_); }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  // The first collective that needs the node, whether it is a wait that sinks, and its place so far.
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;

  void rank_by_collectives(const std::vector<std::uint32_t>& sequence) {
    std::uint32_t collective = 0;
    std::vector<std::uint32_t> open;
    for (const std::uint32_t node : sequence) {
      if (!nodes_.is_collective(node)) continue;
      for (open = {node}; !open.empty();) {
        const std::uint32_t next = open.back();
        open.pop_back();
        if (std::get<0>(key_[next]) != kNone) continue;  // an earlier collective needs it, and all before it
        std::get<0>(key_[next]) = collective;
        open.insert(open.end(), nodes_.before(next).begin(), nodes_.before(next).end());
      }
      ++collective;
    }
  }

  void place(std::uint32_t node) {
    ready_.erase({key_[node], node});
    placed_.push_back(node);
    for (const std::uint32_t next : nodes_.after(node)) {
      if (--missing_[next] == 0) ready_.insert({key_[next], next});
    }
  }

  void hide(std::uint32_t collective) {
    for (double left = nodes_.cost(collective); left > 0;) {
      const auto found = std::ranges::find_if(
          ready_, [&](const auto& each) { return !nodes_.is_wait(each.second) && !nodes_.is_collective(each.second); });
      if (found == ready_.end()) return;
      const std::uint32_t node = found->second;
      hides_[node] = Hides{nodes_.cost(node), left};
      left -= nodes_.cost(node);
      place(node);
    }
  }

  const Nodes& nodes_;
  Pass pass_;
  std::vector<std::optional<Hides>>& hides_;
  std::vector<Key> key_;
  std::vector<std::uint32_t> missing_, placed_;
  std::set<std::pair<Key, std::uint32_t>> ready_;
};

}  // namespace

InductorPolicy::InductorPolicy(PolicyParameters& parameters) : passes_(parameters.text("passes", kAllPasses)) {
  (void)passes_of(passes_);
}

plan::Order InductorPolicy::order(const graph::Graph& graph, const PolicyOptions& options) const {
  const Nodes nodes(graph, costs_of(graph, options));
  std::vector<std::uint32_t> sequence = nodes.in_program_order();
  std::vector<std::optional<Hides>> hides(2 * nodes.tasks());
  bool raised = false;
  for (const Pass pass : passes_of(passes_)) {
    sequence = Rescheduled(nodes, sequence, pass, hides).take();
    raised = raised || pass == Pass::raise;
  }
  std::vector<graph::TaskId> tasks;
  for (const std::uint32_t node : sequence) {
    if (!nodes.is_wait(node)) tasks.emplace_back(std::size_t{node});
  }
  PolicyOptions one_stream = options;
  one_stream.compute_streams = 1;
  plan::Order order = program_order(graph, one_stream, tasks);
  order.streams = plan::streams_of(graph, options.compute_streams);
  const auto issued = static_cast<std::uint32_t>(order.reasons.size());
  order.reasons.push_back({.table = &kReasons, .code = raised ? kIssuedAfterInput : kIssuedInTurn});
  for (plan::Placement& placement : order.sequence) {
    const graph::Task& task = graph.task(placement.task);
    if (const graph::Channel* channel = graph::channel_of(task.operation)) {
      placement.stream = plan::stream_of_channel(order.streams, *channel);
      placement.reason = issued;
    } else if (const std::optional<Hides>& why = hides[placement.task.index()]) {
      placement.reason = static_cast<std::uint32_t>(order.reasons.size());
      order.reasons.push_back({.table = &kReasons, .code = kHidesBefore, .ns = {why->cost, why->left}});
    }
  }
  EdgeAdder edges(order);
  graph::TaskId last;  // computation
  for (const plan::Placement& placement : order.sequence) {
    if (!graph::is_collective(graph.task(placement.task).operation)) {
      last = placement.task;
    } else {
      edges.add(last, placement.task);
    }
  }
  return order;
}

}  // namespace weft::policy
