#include "runtime/policy/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/units.h"
#include "graph/analysis.h"
#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/serial.h"
#include "runtime/policy/scheduling/limited_lists.h"
#include "runtime/policy/scheduling/timetable.h"

namespace weft::policy {
namespace {

constexpr std::size_t kFewTasks = 7;  // at most 5,040 orders

/// Orders of one graph, weighed by the scratch memory of their plans and by their time.
class Fitting {
 public:
  Fitting(const graph::Graph& graph, const PolicyOptions& options, std::int64_t limit)
      : graph_(graph), borrowed_(graph::borrowed(graph)), options_(options), limit_(limit) {
    options_.memory = 0;
    options_.memory_limit = limit;
  }

  const PolicyOptions& options() const { return options_; }
  std::int64_t least() const { return least_; }
  bool fits(const plan::Order& order) {
    const std::int64_t bytes = plan::make_plan(borrowed_, order, "tried").scratch_bytes;
    least_ = std::min(least_, bytes);
    return bytes <= limit_;
  }
  void enter(std::string name, plan::Order order) {
    if (!fits(order)) return;
    const double time = timetable_of(graph_, order, costs(), options_).makespan;
    ++fitting_;
    if (best_ && time >= selection_.makespan_ns) return;
    best_ = std::move(order);
    selection_ = {.order = std::move(name), .makespan_ns = time};
  }
  /// The shortest order that was entered and fits, with its selection as the reason.
  std::optional<plan::Order> take() {
    if (!best_) return std::nullopt;
    selection_.orders = fitting_;
    selection_.memory_limit = static_cast<std::uint64_t>(limit_);
    selection_.keeps_limit = true;
    for (plan::Reason& reason : best_->reasons) reason.selection = selection_;
    return std::exchange(best_, std::nullopt);
  }

  /// Tasks start in the order of `wanted`, as far as the limit allows.
  plan::Order list_schedule_like(const plan::Order& wanted) {
    const LimitedLists lists({&borrowed_, 1}, options_);
    const std::vector<double> priority = lists.priority_of({&wanted, 1});
    const plan::Reason reason{.kind = plan::ReasonKind::best_ready, .priority = plan::Priority::as_ordered};
    return std::move(lists.shortest(by_priority(priority, reason)).orders.front());
  }

  /// Enters the first serial order that fits, of all that there are.
  void try_all_serial_orders() {
    std::vector<graph::TaskId> sequence;
    std::vector<bool> placed(graph_.tasks().size(), false);
    extend(sequence, placed);
  }

 private:
  const cost::TaskCosts& costs() {
    if (!costs_) costs_ = costs_of(graph_, options_);
    return *costs_;
  }

  bool extend(std::vector<graph::TaskId>& sequence, std::vector<bool>& placed) {
    if (sequence.size() == placed.size()) {
      enter("any serial order", serial_order(graph_, sequence));
      return best_.has_value();
    }
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const graph::TaskId task(i);
      const bool ready = std::ranges::all_of(graph_.in_edges(task), [&](const graph::Edge& edge) {
        return edge.distance != 0 || placed[edge.from.index()];
      });
      if (placed[i] || !ready) continue;
      placed[i] = true;
      sequence.push_back(task);
      if (extend(sequence, placed)) return true;
      sequence.pop_back();
      placed[i] = false;
    }
    return false;
  }

  const graph::Graph& graph_;
  std::shared_ptr<const graph::Graph> borrowed_;
  PolicyOptions options_;
  std::int64_t limit_, least_ = std::numeric_limits<std::int64_t>::max();
  std::optional<cost::TaskCosts> costs_;
  std::optional<plan::Order> best_;
  plan::Selection selection_;
  std::uint64_t fitting_ = 0;
};

/// Starts, of the ready tasks, the one that leaves the fewest bytes alive; ties in program order.
std::vector<graph::TaskId> least_memory_sequence(const graph::Graph& graph) {
  const std::size_t tasks = graph.tasks().size();
  std::vector<std::vector<std::uint32_t>> uses(tasks);  // by task: its scratch tensors
  std::vector<std::uint32_t> users(graph.tensors().size(), 0), missing(tasks, 0);
  for (std::size_t i = 0; i < tasks; ++i) {
    for (const graph::Access& access : graph.tasks()[i].accesses) {
      const auto tensor = static_cast<std::uint32_t>(access.view.tensor.index());
      if (!graph::is_state(graph.tensors()[tensor].role)) uses[i].push_back(tensor);
    }
    std::ranges::sort(uses[i]);
    uses[i].erase(std::unique(uses[i].begin(), uses[i].end()), uses[i].end());
    for (const std::uint32_t tensor : uses[i]) ++users[tensor];
    for (const graph::Edge& edge : graph.in_edges(graph::TaskId(i))) missing[i] += edge.distance == 0 ? 1 : 0;
  }
  std::vector<bool> alive(graph.tensors().size(), false);
  const auto change = [&](std::size_t task) {
    std::int64_t bytes = 0;
    for (const std::uint32_t tensor : uses[task]) {
      const std::int64_t size = graph.tensors()[tensor].bytes();
      if (!alive[tensor]) bytes += size;
      if (users[tensor] == 1) bytes -= size;
    }
    return bytes;
  };
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < tasks; ++i) {
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<graph::TaskId> sequence;
  while (!ready.empty()) {
    const auto next =
        std::ranges::min_element(ready, {}, [&](std::size_t task) { return std::pair(change(task), task); });
    const std::size_t task = *next;
    ready.erase(next);
    sequence.emplace_back(task);
    for (const std::uint32_t tensor : uses[task]) {
      alive[tensor] = true;
      --users[tensor];
    }
    for (const std::uint32_t index : graph.out_edges(graph::TaskId(task))) {
      const graph::Edge& edge = graph.edges()[index];
      if (edge.distance == 0 && --missing[edge.to.index()] == 0) ready.push_back(edge.to.index());
    }
  }
  return sequence;
}

}  // namespace

std::int64_t state_bytes(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Tensor& tensor : graph.tensors()) bytes += graph::is_state(tensor.role) ? tensor.bytes() : 0;
  return bytes;
}

std::int64_t scratch_limit(const graph::Graph& graph, const PolicyOptions& options) {
  if (options.memory <= 0) return options.memory_limit;
  const std::int64_t left = std::max<std::int64_t>(1, options.memory - state_bytes(graph));
  return options.memory_limit > 0 ? std::min(left, options.memory_limit) : left;
}

WantedOrder wanted_order(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options) {
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  WantedOrder wanted{.order = policy.orders({&borrowed, 1}, without_limits(options)).front()};
  const std::int64_t limit = scratch_limit(graph, options);
  if (limit == 0) return wanted;
  Fitting fitting(graph, options, limit);
  wanted.fits = fitting.fits(wanted.order);
  wanted.scratch_bytes = fitting.least();
  return wanted;
}

FittedOrder fitted_order(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options,
                         const plan::Order& wanted) {
  Fitting fitting(graph, options, scratch_limit(graph, options));
  const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
  plan::Order limited = policy.orders({&borrowed, 1}, fitting.options()).front();
  if (fitting.fits(limited)) return {std::move(limited), fitting.least()};
  if (policy.may_be_reordered()) {
    fitting.enter(fmt::format("list schedule in {}'s order", policy.name()), fitting.list_schedule_like(wanted));
    fitting.enter("serial", serial_order(graph, program_sequence(graph)));
    fitting.enter("serial by least memory", serial_order(graph, least_memory_sequence(graph)));
    if (auto order = fitting.take()) return {std::move(order), fitting.least()};
    if (graph.tasks().size() <= kFewTasks) fitting.try_all_serial_orders();
    if (auto order = fitting.take()) return {std::move(order), fitting.least()};
  }
  return {std::nullopt, fitting.least()};
}

void refuse_memory(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options,
                   std::int64_t least_scratch, std::string_view rewritten) {
  const auto state = static_cast<std::uint64_t>(state_bytes(graph)), least = static_cast<std::uint64_t>(least_scratch);
  throw UserError(
      fmt::format("the step takes at least {} of memory a rank ({} of state and {} of scratch) in every order that was "
                  "tried for policy {}{}",
                  human_bytes(state + least), human_bytes(state), human_bytes(least), policy.name(), rewritten),
      options.memory > 0 ? fmt::format("at most {}", human_bytes(static_cast<std::uint64_t>(options.memory)))
                         : fmt::format("at most {} of scratch",
                                       human_bytes(static_cast<std::uint64_t>(scratch_limit(graph, options)))),
      rewritten.empty() ? "give it that much (--memory), use more ranks, or recompute activations (--recompute block)"
                        : "give it that much (--memory), use more ranks, or a smaller --micro-batch");
}

plan::Order order_within_memory(const Policy& policy, const graph::Graph& graph, const PolicyOptions& options) {
  WantedOrder wanted = wanted_order(policy, graph, options);
  if (wanted.fits) return std::move(wanted.order);
  FittedOrder fitted = fitted_order(policy, graph, options, wanted.order);
  if (!fitted.order) refuse_memory(policy, graph, options, std::min(wanted.scratch_bytes, fitted.least_scratch));
  return *std::move(fitted.order);
}

}  // namespace weft::policy
