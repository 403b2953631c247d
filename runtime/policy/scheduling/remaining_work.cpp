#include "runtime/policy/scheduling/remaining_work.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/assertions.h"

namespace weft::policy {

RemainingWork::RemainingWork(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
                             std::span<const double> tail)
    : tail_(tail.begin(), tail.end()), work_(tail.size(), 0), begin_(tail.size() + 1, 0) {
  std::set<std::string_view> computations;
  std::vector<double> tails;
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const graph::Operation& operation = graph.tasks()[i].operation;
    if (graph::channel_of(operation) != nullptr) continue;
    work_[i] = costs.ns[i] / options.compute_streams;
    if (costs.ns[i] == 0) continue;
    computations.insert(graph::kind_name(operation));
    tails.push_back(tail[i]);
  }
  std::map<std::pair<bool, int>, std::uint32_t> group_of;  // channels, then links
  for (std::size_t i = 0; i < tail.size(); ++i) {
    begin_[i + 1] = begin_[i];
    const graph::Operation& operation = graph.tasks()[i].operation;
    const graph::Channel* channel = graph::channel_of(operation);
    if (channel == nullptr || graph.is_local(*channel)) continue;
    const double loss = options.machine == nullptr
                            ? 0
                            : graph::least_loss(options.machine->slowdowns, computations, graph::kind_name(operation));
    if (loss == 0) continue;
    const auto use = [&](bool link, int number, double ns) {
      const auto [found, is_new] =
          group_of.try_emplace({link, number}, static_cast<std::uint32_t>(greatest_loss_.size()));
      if (is_new) greatest_loss_.push_back(0);
      double& greatest = greatest_loss_[found->second];
      greatest = std::max(greatest, loss);
      uses_.push_back({found->second, ns * loss});
      ++begin_[i + 1];
    };
    const int number = static_cast<int>(*channel);
    use(false, number, costs.ns[i]);
    if (!options.link_of_channel.empty() && graph.direction(*channel) == graph::Direction::both) {
      use(true, options.link_of_channel.at(static_cast<std::size_t>(number)), costs.on_link()[i]);
    }
  }
  groups_ = greatest_loss_.size();
  std::ranges::sort(tails);
  for (std::size_t k = 0; k < kThresholds && !tails.empty(); ++k) {
    const double at =
        tails[k * tails.size() / (2 * kThresholds)];  // the last half of a step's work has the short tails
    if (thresholds_.empty() || at > thresholds_.back()) thresholds_.push_back(at);
  }
  assert_that("thresholds ascend", [&] {
    return std::ranges::adjacent_find(thresholds_, std::ranges::greater_equal()) == thresholds_.end();
  });
  all_.assign(thresholds_.size() * (1 + groups_), 0);
  for (std::uint32_t i = 0; i < tail.size(); ++i) take(all_, i, -1);
}

void RemainingWork::take(Sums& sums, std::uint32_t task, double part) const {
  for (std::size_t k = 0; k < thresholds_.size(); ++k) {
    const std::size_t at = k * (1 + groups_);
    if (tail_[task] < thresholds_[k]) {
      if (work_[task] > 0) break;  // the next thresholds are higher
    } else {
      sums[at] -= part * work_[task];
    }
    for (std::uint32_t u = begin_[task]; u < begin_[task + 1]; ++u)
      sums[at + 1 + uses_[u].group] -= part * uses_[u].lost;
  }
}

double RemainingWork::least(const Sums& sums, double head) const {
  double least = 0;
  for (std::size_t k = 0; k < thresholds_.size(); ++k) {
    const std::size_t at = k * (1 + groups_);
    if (sums[at] <= 0) continue;
    double lost = 0;
    for (std::size_t g = 0; g < groups_; ++g) {
      lost = std::max(lost, sums[at + 1 + g] - (head + thresholds_[k]) * greatest_loss_[g]);
    }
    least = std::max(least, head + sums[at] + lost + thresholds_[k]);
  }
  return least;
}

}  // namespace weft::policy
