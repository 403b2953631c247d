// Policy `exact`: makes portfolio's orders shorter by exact search in windows, until it is proved optimal or the search
// has used its budget.
#pragma once

#include <cstdint>

#include "runtime/policy/builtin/portfolio.h"
#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Starts from portfolio's orders and rewrites (`budget`, `seed`, `messages`, `chunks`, `placement`: of portfolio).
/// Windows of `window` consecutive tasks of all rank classes, by their start, slide over the step with half overlap;
/// each is ordered by branch and bound
/// (scheduling/window_search.h). Then windows are twice as long, and so on, as long as `nodes` starts of tasks in
/// thought are left. So the result is never longer than portfolio's order, and the same in every run. If the window
/// holds the whole step, no order is left out.
///
/// The reasons say that an order is proved optimal if it is as short as a lower bound of the step (RemainingWork, the
/// longest path, one machine), or if a search left no order of it out.
class ExactPolicy final : public Policy {
 public:
  static constexpr plan::ReasonText kTexts[] = {{"its place in the best order of a window of {} tasks or more"}};
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

  std::int64_t window_ = kWindow, nodes_ = kNodes;
  PortfolioPolicy portfolio_;
};

}  // namespace weft::policy
