// Policy `portfolio`: the best of all others, and a search from there. The default to beat.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/policy/policy.h"
#include "runtime/policy/policy_parameters.h"

namespace weft::policy {

/// Orders the graph by every cheap policy, takes the one with the shortest makespan under contention (makespan.h),
/// sweeps from there and from critical-path (sweep.h), and anneals from the best for `budget` moves (0: no sweeps
/// either): never longer than any of its members. Rewrites nothing, so its members order one graph. With a memory limit
/// those whose plan takes more scratch are dropped. If none is left, the one that takes the least wins, and its reasons
/// say so. `seed`: of the search; by default the options'.
class PortfolioPolicy final : public Policy {
 public:
  PortfolioPolicy() = default;
  explicit PortfolioPolicy(PolicyParameters& parameters);
  std::string name() const override { return "portfolio"; }
  plan::Order order(const graph::Graph& graph, const PolicyOptions& options) const override;

  struct Member {
    std::string name;  // as make_policy takes it
    std::unique_ptr<Policy> policy;
  };
  static std::vector<Member> members();

 private:
  std::int64_t budget_ = 600;  // moves of the search
  std::optional<std::uint64_t> seed_;
};

}  // namespace weft::policy
