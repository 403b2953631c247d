// Policy `exact`: makes portfolio's orders shorter by exact search, until they are proved optimal or the search has
// used its budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/policy/builtin/portfolio.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"
#include "runtime/policy/scheduling/class_tasks.h"

namespace weft::policy {

/// Starts from portfolio's orders and rewrites (`budget`, `seed`, `messages`, `chunks`, `placement`: of portfolio).
/// Windows of `window` consecutive tasks of all rank classes, by their start, slide over the step with half overlap;
/// each is ordered by branch and bound (scheduling/window_search.h). Then windows are twice as long, and so on, as long
/// as `nodes` simulated starts of tasks are left. After that, tasks are held back as portfolio does
/// (scheduling/wait_moves.h). Of a step of few tasks all plans are searched, with waits and compute streams
/// (scheduling/step_search.h), for as many nodes again. So the result is never longer than portfolio's, and the same in
/// every run.
///
/// The reasons tell what is proved (plan::Proof):
/// - optimal: the step is as short as a lower bound (RemainingWork, the longest path, one machine), or a search left no
///   plan out: that of all plans, or where no task's time depends on what runs beside it that of all orders;
/// - best among orders without waits: a window held the whole step and left no order out, but the search of all plans
///   didn't come to its end and found nothing shorter.
class ExactPolicy final : public Policy {
 public:
  enum Code : std::uint16_t { kOfWindow, kOfAllPlans };
  static constexpr plan::ReasonText kTexts[] = {{"its place in the best order of a window of {} tasks or more"},
                                                {"its place in the best of all plans of the step"}};
  static constexpr plan::ReasonTable kReasons{"exact", kTexts};

  explicit ExactPolicy(PolicyParameters& parameters);
  std::string name() const override { return "exact"; }
  bool rewrites_to_fit() const override { return true; }
  std::vector<plan::Rewrite> rewrites(const graph::Graph& graph, const PolicyOptions& options) const override {
    return portfolio_.rewrites(graph, options);
  }
  std::vector<plan::Order> orders(graph::Classes classes, const PolicyOptions& options) const override;

 private:
  static constexpr std::int64_t kWindow = 12, kNodes = 200'000;

  /// Whether orders may be taken, apart from their time.
  using Accepts = std::function<bool(const std::vector<plan::Order>&)>;
  struct Found {
    std::vector<plan::Order> orders = {};
    double makespan = 0;
    plan::Proof proof = plan::Proof::none;
    std::string how = {};  // after the name of the order
  };
  Found in_windows(const ClassTasks& tasks, std::vector<plan::Order> first, const PolicyOptions& options,
                   const Accepts& accepts) const;
  void hold_some_back(Found& found, const std::vector<plan::Order>& start, graph::Classes classes,
                      const PolicyOptions& options) const;
  void search_all_plans(Found& found, const ClassTasks& tasks, const PolicyOptions& options,
                        const Accepts& accepts) const;

  std::int64_t window_ = kWindow, nodes_ = kNodes;
  PortfolioPolicy portfolio_;
};

}  // namespace weft::policy
