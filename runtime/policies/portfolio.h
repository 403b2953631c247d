// Policy `portfolio`: the best of all others, and a search from there. The default to beat.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/policy.h"
#include "runtime/policy_parameters.h"

namespace weft {

/// Orders the graph by every cheap policy, takes the one with the shortest makespan (makespan.h), and anneals from its
/// order for `budget` moves: never longer than any of its members. Rewrites nothing, so its members order one graph.
/// With a memory limit those whose plan takes more scratch are dropped; the list schedules among them first try again
/// under a smaller limit of their own, as a plan also takes room for gaps. If none is left, the one that takes the
/// least wins, and its reasons say so. `seed`: of the search; by default the options'.
class PortfolioPolicy final : public Policy {
 public:
  PortfolioPolicy() = default;
  explicit PortfolioPolicy(PolicyParameters& parameters);
  std::string name() const override { return "portfolio"; }
  Order order(const Graph& graph, const PolicyOptions& options) const override;

  struct Member {
    std::string name;  // as make_policy takes it
    std::unique_ptr<Policy> policy;
    bool keeps_limit = false;  // its order depends on the memory limit
  };
  static std::vector<Member> members();

 private:
  std::int64_t budget_ = 300;  // moves of the search
  std::optional<std::uint64_t> seed_;
};

}  // namespace weft
