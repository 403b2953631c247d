#include "runtime/simulate/certify/milestones.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace weft::simulate {
namespace {

/// A node's work on a load.
struct PricedWork {
  std::size_t load = 0;
  double ns = 0;
};

/// The prices of all parts. Within a range of parts, one part stands for all that have equal prices and whose
/// milestones have equal queues.
class PricedParts {
 public:
  PricedParts(const MilestoneParts& parts, const StepModel& model, const std::vector<std::vector<double>>& prices)
      : parts_(parts), prices_(prices) {
    std::map<std::pair<std::vector<double>, std::vector<std::uint32_t>>, std::size_t> sorts;
    std::vector<double> at(prices.size());
    for (std::uint32_t part = 0; part < parts.count(); ++part) {
      for (std::size_t load = 0; load < prices.size(); ++load) at[load] = prices[load][part];
      std::vector<std::uint32_t> queues;
      if (!MilestoneParts::is_wait(part)) queues = model.queues(parts.milestone_in(part));
      sort_.push_back(sorts.emplace(std::pair(at, std::move(queues)), sorts.size()).first->second);
    }
    sorts_ = sorts.size();
  }

  /// Of a node's work, where it is cheapest.
  double cheapest(std::uint32_t node, std::span<const PricedWork> work) {
    double least = std::numeric_limits<double>::infinity();
    for (const std::uint32_t part : samples(parts_.first(node), parts_.last(node))) {
      if (parts_.taken(node, part)) continue;
      double sum = 0;
      for (const PricedWork& each : work) sum += each.ns * prices_[each.load][part];
      least = std::min(least, sum);
    }
    return least;
  }

 private:
  const std::vector<std::uint32_t>& samples(std::uint32_t first, std::uint32_t last) {
    const auto [found, is_new] = samples_.try_emplace(std::pair(first, last));
    if (is_new) {
      std::vector<bool> seen(sorts_);
      for (std::uint32_t part = first; part <= last; ++part) {
        if (!seen[sort_[part]]) found->second.push_back(part);
        seen[sort_[part]] = true;
      }
    }
    return found->second;
  }

  const MilestoneParts& parts_;
  const std::vector<std::vector<double>>& prices_;  // by load and part
  std::vector<std::size_t> sort_;                   // by part
  std::size_t sorts_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> samples_;
};

}  // namespace

MilestoneParts::MilestoneParts(const StepModel& model, std::vector<std::uint32_t> chain)
    : model_(model), chain_(std::move(chain)), first_(model.nodes(), 0), last_(model.nodes(), count() - 1) {
  std::vector<std::uint32_t> own(model.nodes(), 0);  // the part in which a milestone runs; 0: it is none
  for (std::uint32_t k = 0; k < chain_.size(); ++k) {
    is_chain_ = is_chain_ && own[chain_[k]] == 0;
    own[chain_[k]] = 2 * k + 1;
  }
  for (const std::uint32_t node : model.order()) {
    for (const std::uint32_t source : model.before(node))
      first_[node] = std::max(first_[node], own[source] > 0 ? own[source] + 1 : first_[source]);
  }
  for (auto node = model.order().rbegin(); node != model.order().rend(); ++node) {
    for (const std::uint32_t target : model.after(*node))
      last_[*node] = std::min(last_[*node], own[target] > 0 ? own[target] - 1 : last_[target]);
  }
  for (const std::uint32_t milestone : chain_) {
    is_chain_ = is_chain_ && first_[milestone] + 1 == own[milestone] && last_[milestone] == own[milestone] + 1;
    first_[milestone] = last_[milestone] = own[milestone];
  }
}

bool MilestoneParts::taken(std::uint32_t node, std::uint32_t part) const {
  if (is_wait(part) || milestone_in(part) == node || model_.cost(milestone_in(part)) == 0) return false;
  return std::ranges::any_of(model_.queues(node), [&](std::uint32_t queue) {
    return std::ranges::find(model_.queues(milestone_in(part)), queue) != model_.queues(milestone_in(part)).end();
  });
}

bool MilestoneParts::in(const Charge& charge, std::uint32_t part) const {
  if (part < charge.first || part > charge.last) return false;
  if (charge.during == Charge::kAll) return true;
  if (is_wait(part) || charge.during == Charge::kWaits) return is_wait(part) == (charge.during == Charge::kWaits);
  const auto& queues = model_.queues(chain_.at(static_cast<std::size_t>(charge.during)));
  const auto& runs = model_.queues(milestone_in(part));
  return queues.empty() ? runs.empty() : !runs.empty() && queues.front() == runs.front();
}

double MilestoneParts::least_until(std::uint32_t last, const Limits& limits) const {
  const std::uint32_t milestone = chain_.at(last / 2);
  return limits.head[milestone] + (is_wait(last) ? 0 : model_.cost(milestone));
}

double MilestoneParts::least_since(std::uint32_t first, const Limits& limits) const {
  const std::uint32_t milestone = chain_.at((first - 1) / 2);
  return limits.tail[milestone] + (is_wait(first) ? 0 : model_.cost(milestone));
}

LoadWork work_of(const PricedLoad& load, const StepModel& model, const Limits& limits) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  LoadWork work{.head = kNone, .tail = kNone};
  if (load.resource.kind == ResourceKind::task) return {};
  const auto add = [&](const StepResource& resource, bool beside) {
    for (const ResourceItem& item : resource.items) {
      const double ns = beside ? item.ns * item.loss : item.ns;
      const double head = limits.head[item.node], tail = limits.tail[item.node];
      if (!(ns > 0) || model.cost(item.node) == 0 || !(head >= load.chosen.head && tail >= load.chosen.tail)) continue;
      work.items.push_back({item.node, ns, 0});
      work.head = std::min(work.head, head);
      work.tail = std::min(work.tail, tail);
    }
  };
  add(model.resource(load.resource), false);
  if (load.beside) add(model.slowing(load.resource.class_index, *load.beside), true);
  if (work.items.empty()) work.head = work.tail = 0;
  return work;
}

double proved_by(const MilestoneProof& proof, const StepModel& model, const Limits& limits) {
  constexpr double kMost = 1 + 1e-12;
  std::vector<std::uint32_t> chain;
  for (const graph::ClassTask& each : proof.milestones) chain.push_back(model.node_of(each.of_class, each.task));
  if (chain.empty()) return 0;
  const MilestoneParts parts(model, std::move(chain));
  if (!parts.is_chain()) return 0;
  const std::uint32_t end = parts.count() - 1;
  std::vector<double> paid(parts.count(), 0);
  std::vector<std::vector<double>> prices;
  std::vector<std::vector<PricedWork>> work(model.nodes());
  double bound = 0;
  for (const PricedLoad& load : proof.loads) {
    const LoadWork chosen = work_of(load, model, limits);
    for (const ResourceItem& item : chosen.items) work[item.node].push_back({prices.size(), item.ns});
    std::vector<double>& price = prices.emplace_back(parts.count(), 0);
    for (const Charge& charge : load.charges) {
      if (!(charge.price >= 0) || charge.last > end) return 0;
      for (std::uint32_t part = charge.first; part <= charge.last; ++part) {
        if (!parts.in(charge, part)) continue;
        price[part] += charge.price;
        paid[part] += charge.price;
      }
      if (charge.during != Charge::kAll || (charge.first > 0 && charge.last < end)) continue;
      const bool from_begin = charge.first == 0;
      if (from_begin && charge.last == end) {
        bound += charge.price * (chosen.head + chosen.tail);
        continue;
      }
      const double least =
          from_begin ? parts.least_until(charge.last, limits) : parts.least_since(charge.first, limits);
      const double ns = load.resource.kind == ResourceKind::task ? least : from_begin ? chosen.head : chosen.tail;
      if (ns <= least) bound += charge.price * ns;
    }
  }
  for (std::uint32_t part = 0; part <= end; ++part) {
    if (paid[part] > kMost) return 0;
    if (!MilestoneParts::is_wait(part)) bound += model.cost(parts.milestone_in(part)) * (1 - paid[part]);
  }
  PricedParts priced(parts, model, prices);
  for (std::uint32_t node = 0; node < model.nodes(); ++node) {
    if (!work[node].empty()) bound += priced.cheapest(node, work[node]);
  }
  return bound;
}

}  // namespace weft::simulate
