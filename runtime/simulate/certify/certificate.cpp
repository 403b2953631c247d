#include "runtime/simulate/certify/certificate.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/simulate/certify/milestones.h"

namespace weft::simulate {
namespace {

using Side = Adjustment::Side;

constexpr double kNotThere = std::numeric_limits<double>::quiet_NaN();

/// Bounds are rounded down by more than sums of a step's times can be off, so that a checker may add in another order.
double rounded_down(double ns) {
  constexpr double kShare = 1e-12;
  return ns * (1 - kShare);
}

/// A step seen from its begin (heads) or from its end (tails).
class GraphSide {
 public:
  GraphSide(const StepModel& model, Side side) : model_(model), side_(side) {
    order_.assign(model.order().begin(), model.order().end());
    if (side == Side::tail) std::ranges::reverse(order_);
    place_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = i;
  }

  Side side() const { return side_; }
  const StepModel& model() const { return model_; }
  const std::vector<std::uint32_t>& order() const { return order_; }
  std::span<const std::uint32_t> sources(std::uint32_t node) const {
    return side_ == Side::head ? model_.before(node) : model_.after(node);
  }
  /// The longest path to the node by its sources alone.
  double reached(std::uint32_t node, std::span<const double> value) const {
    double longest = 0;
    for (const std::uint32_t source : sources(node)) longest = std::max(longest, value[source] + model_.cost(source));
    return longest;
  }
  /// By node: the longest path from it to `target`, without the costs of both; not a number if there is none.
  std::vector<double> distances(std::uint32_t target) const {
    std::vector<double> distance(order_.size(), kNotThere);
    const auto reach = [&](std::uint32_t node, double length) {
      if (!(distance[node] >= length)) distance[node] = length;
    };
    for (const std::uint32_t source : sources(target)) reach(source, 0);
    for (std::size_t i = place_[target]; i-- > 0;) {
      const std::uint32_t node = order_[i];
      if (distance[node] != distance[node]) continue;
      for (const std::uint32_t source : sources(node)) reach(source, distance[node] + model_.cost(node));
    }
    return distance;
  }
  /// The limits of what comes before the target, seen in this direction.
  struct Before {
    std::vector<double> value, distance;  // value: not a number of other nodes
  };
  Before before(std::uint32_t target, std::span<const double> value) const {
    Before before{std::vector<double>(value.size(), kNotThere), distances(target)};
    for (std::size_t node = 0; node < value.size(); ++node) {
      if (before.distance[node] == before.distance[node]) before.value[node] = value[node];
    }
    return before;
  }
  Limits limits(const Before& before) const {
    return side_ == Side::head ? Limits{before.value, before.distance} : Limits{before.distance, before.value};
  }
  double threshold(const Thresholds& of) const { return side_ == Side::head ? of.head : of.tail; }

 private:
  const StepModel& model_;
  Side side_;
  std::vector<std::uint32_t> order_;
  std::vector<std::size_t> place_;
};

/// Heads or tails with the adjustments that raised them.
struct Raised {
  std::vector<double> plain, value;  // by node, without and with adjustments
  std::vector<std::optional<WorkWindow>> window;
};

/// The nodes whose adjustments are worth their time: each takes a walk over the graph. Those with most sources first,
/// since their ancestors meet in nothing else.
std::vector<bool> nodes_to_adjust(const GraphSide& direction) {
  constexpr std::size_t kMostSteps = 400'000'000;
  std::vector<std::uint32_t> nodes;
  std::size_t edges = 1;
  for (const std::uint32_t node : direction.order()) {
    edges += direction.sources(node).size() + 1;
    if (direction.sources(node).size() > 1) nodes.push_back(node);
  }
  std::ranges::stable_sort(nodes, std::ranges::greater(),
                           [&](std::uint32_t node) { return direction.sources(node).size(); });
  nodes.resize(std::min(nodes.size(), kMostSteps / edges));
  std::vector<bool> chosen(direction.order().size());
  for (const std::uint32_t node : nodes) chosen[node] = true;
  return chosen;
}

Raised raise(const GraphSide& direction) {
  const StepModel& model = direction.model();
  const std::vector<bool> chosen = nodes_to_adjust(direction);
  Raised raised;
  raised.plain = model.longest_paths(direction.side() == Side::head);
  raised.value.resize(model.nodes());
  raised.window.resize(model.nodes());
  for (const std::uint32_t node : direction.order()) {
    raised.value[node] = direction.reached(node, raised.value);
    if (!chosen[node]) continue;
    const GraphSide::Before before = direction.before(node, raised.value);
    for (const StepResource& resource : model.resources()) {
      const ProvedWindow proved = whole_window(resource, model, direction.limits(before));
      const double ns = rounded_down(proved.ns);
      if (ns <= raised.value[node] * (1 + 1e-9)) continue;
      raised.value[node] = ns;
      raised.window[node] = proved.window;
    }
  }
  return raised;
}

/// Follows an argument back to the adjustments on which it rests.
class Needs {
 public:
  Needs(const GraphSide& direction, const Raised& raised)
      : direction_(direction), raised_(raised), need_(raised.value.size(), 0) {}

  /// The values of all items that a window has chosen must be at least its thresholds. `limits`: where it was found.
  void of(const WorkWindow& window, const Limits& limits) {
    const StepModel& model = direction_.model();
    if (window.resource.kind == ResourceKind::task) {
      need(model.node_of(window.resource.class_index, static_cast<std::size_t>(window.resource.number)),
           direction_.threshold(window.chosen));
      return;
    }
    items(model.resource(window.resource), window.chosen, limits);
    if (!window.beside) return;
    items(model.slowing(window.resource.class_index, *window.beside), window.beside_chosen, limits);
  }

  /// The same of a proof by milestones, and of the milestones whose heads or tails it takes.
  void of(const MilestoneProof& proof, const Limits& limits) {
    const StepModel& model = direction_.model();
    for (const PricedLoad& load : proof.loads) {
      for (const ResourceItem& item : work_of(load, model, limits).items)
        need(item.node, direction_.threshold(load.chosen));
    }
    const auto end = static_cast<std::uint32_t>(2 * proof.milestones.size());
    for (const PricedLoad& load : proof.loads) {
      for (const Charge& charge : load.charges) {
        const bool heads = direction_.side() == Side::head;
        if (charge.during != Charge::kAll || (charge.first > 0) == (charge.last < end)) continue;
        if (heads != (charge.first == 0)) continue;
        const graph::ClassTask& at = proof.milestones[heads ? charge.last / 2 : (charge.first - 1) / 2];
        const std::uint32_t node = model.node_of(at.of_class, at.task);
        need(node, heads ? limits.head[node] : limits.tail[node]);
      }
    }
  }

  /// In an order of proof.
  std::vector<Adjustment> adjustments() {
    std::vector<Adjustment> result;
    for (auto node = direction_.order().rbegin(); node != direction_.order().rend(); ++node) {
      const double value = need_[*node];
      if (at_least(raised_.plain[*node], value)) continue;
      const StepModel& model = direction_.model();
      const auto source = std::ranges::find_if(direction_.sources(*node), [&](std::uint32_t each) {
        return at_least(raised_.value[each] + model.cost(each), value);
      });
      if (source != direction_.sources(*node).end()) {
        need(*source, value - model.cost(*source));
        continue;
      }
      // No window raised the limit: it is short by a rounding, since it is a difference of much larger times.
      if (!raised_.window[*node]) continue;
      const graph::ClassTask task = model.task_of(*node);
      const WorkWindow& window = *raised_.window[*node];
      result.push_back({direction_.side(), task.of_class, task.task, raised_.value[*node], window});
      const GraphSide::Before before = direction_.before(*node, raised_.value);
      of(window, direction_.limits(before));
    }
    std::ranges::reverse(result);
    return result;
  }

 private:
  static bool at_least(double found, double wanted) { return found >= wanted * (1 - 1e-13); }
  void need(std::uint32_t node, double value) { need_[node] = std::max(need_[node], value); }
  void items(const StepResource& resource, const Thresholds& thresholds, const Limits& limits) {
    for (const ResourceItem& item : resource.items) {
      if (item.ns > 0 && limits.head[item.node] >= thresholds.head && limits.tail[item.node] >= thresholds.tail)
        need(item.node, direction_.threshold(thresholds));
    }
  }

  const GraphSide& direction_;
  const Raised& raised_;
  std::vector<double> need_;
};

ProvedWindow longest_path_window(const StepModel& model, const Limits& limits) {
  ProvedWindow best;
  for (std::uint32_t node = 0; node < model.nodes(); ++node) {
    const double ns = limits.head[node] + model.cost(node) + limits.tail[node];
    if (ns <= best.ns) continue;
    const graph::ClassTask task = model.task_of(node);
    best = {ns,
            {.resource = {task.of_class, ResourceKind::task, static_cast<std::int32_t>(task.task)},
             .chosen = {limits.head[node], limits.tail[node]}}};
  }
  return best;
}

/// Heads and tails of a step, as high as whole windows raise them.
struct RaisedStep {
  StepModel model;
  GraphSide forward, backward;
  Raised heads, tails;

  explicit RaisedStep(const graph::OpenGraph& open)
      : model(open),
        forward(model, Side::head),
        backward(model, Side::tail),
        heads(raise(forward)),
        tails(raise(backward)) {}
  Limits limits() const { return {heads.value, tails.value}; }

  template <typename Argument>
  std::vector<Adjustment> adjustments_for(const Argument& argument) const {
    Needs of_heads(forward, heads), of_tails(backward, tails);
    of_heads.of(argument, limits());
    of_tails.of(argument, limits());
    std::vector<Adjustment> adjustments = of_heads.adjustments();
    const std::vector<Adjustment> more = of_tails.adjustments();
    adjustments.insert(adjustments.end(), more.begin(), more.end());
    return adjustments;
  }
};

GraphCertificate best_by_windows(const RaisedStep& step, const graph::OpenGraph& open) {
  constexpr std::size_t kMostThresholds = 400;
  ProvedWindow best = longest_path_window(step.model, step.limits());
  for (const StepResource& resource : step.model.resources()) {
    const ProvedWindow found = best_window(resource, step.model, step.limits(), kMostThresholds);
    if (found.ns > best.ns) best = found;
  }
  return {.graph = bound_fingerprint(open),
          .bound_ns = rounded_down(proved_by(best.window, step.model, step.limits())),
          .adjustments = step.adjustments_for(best.window),
          .window = best.window};
}

// ---- where a window leaves a gap, tasks that share a queue are put in either order

/// Pairs that were tried at a split; each costs two certificates.
constexpr std::size_t kMostTrials = 6;

/// A pair whose order is open, and the least of the longest paths through both tasks in either order.
struct OpenPair {
  double least = 0, other = 0;
  Split split;
};

bool leads_to(const StepModel& model, std::uint32_t from, std::uint32_t to) {
  std::vector<bool> seen(model.nodes());
  std::vector<std::uint32_t> waiting = {from};
  while (!waiting.empty()) {
    const std::uint32_t node = waiting.back();
    waiting.pop_back();
    if (node == to) return true;
    for (const std::uint32_t next : model.after(node)) {
      if (!seen[next]) waiting.push_back(next);
      seen[next] = true;
    }
  }
  return false;
}

/// The pairs in open order that lengthen paths most, whichever order they get.
std::vector<OpenPair> open_pairs(const graph::OpenGraph& open) {
  constexpr std::size_t kMostKept = 4096;
  const StepModel model(open);
  const std::vector<double> head = model.longest_paths(true), tail = model.longest_paths(false);
  std::vector<OpenPair> pairs;
  const auto by_least = [](const OpenPair& a, const OpenPair& b) {
    return std::pair(a.least, a.other) > std::pair(b.least, b.other);
  };
  for (std::uint32_t k = 0; k < open.classes.size(); ++k) {
    const std::vector<graph::OpenTask>& tasks = open.classes[k].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      for (std::uint32_t j = i + 1; j < tasks.size(); ++j) {
        if (!served_one_at_a_time(open, tasks[i], tasks[j])) continue;
        const std::uint32_t a = model.node_of(k, i), b = model.node_of(k, j);
        if (a == b || model.cost(a) == 0 || model.cost(b) == 0) continue;
        const double both = model.cost(a) + model.cost(b);
        const double forward = head[a] + both + tail[b], backward = head[b] + both + tail[a];
        pairs.push_back({std::min(forward, backward), std::max(forward, backward), {k, i, j}});
      }
      if (pairs.size() < 2 * kMostKept) continue;
      std::ranges::nth_element(pairs, pairs.begin() + kMostKept, by_least);
      pairs.resize(kMostKept);
    }
  }
  std::ranges::stable_sort(pairs, by_least);
  std::vector<OpenPair> undecided;
  for (const OpenPair& each : pairs) {
    const std::uint32_t a = model.node_of(each.split.class_index, each.split.first);
    const std::uint32_t b = model.node_of(each.split.class_index, each.split.second);
    if (!leads_to(model, a, b) && !leads_to(model, b, a)) undecided.push_back(each);
    if (undecided.size() == kMostTrials) break;
  }
  return undecided;
}

/// The case of least bound that isn't split yet, with its graph.
struct LeastCase {
  GraphCertificate* proof;
  graph::OpenGraph open;
};

LeastCase least_case(GraphCertificate& root, const graph::OpenGraph& open) {
  LeastCase found{&root, open};
  while (found.proof->split) {
    std::vector<GraphCertificate>& branches = found.proof->branches;
    const std::size_t next = branches[0].bound_ns <= branches[1].bound_ns ? 0 : 1;
    found.open = in_order(std::move(found.open), *found.proof->split, next == 0);
    found.proof = &branches[next];
  }
  return found;
}

void settle_bounds(GraphCertificate& proof) {
  if (!proof.split) return;
  for (GraphCertificate& each : proof.branches) settle_bounds(each);
  proof.bound_ns = std::min(proof.branches[0].bound_ns, proof.branches[1].bound_ns);
}

/// Whether the case was split.
bool split_case(const LeastCase& one) {
  std::optional<GraphCertificate> best;
  const auto rank = [](const GraphCertificate& proof) {
    return std::minmax(proof.branches[0].bound_ns, proof.branches[1].bound_ns);
  };
  for (const OpenPair& pair : open_pairs(one.open)) {
    GraphCertificate trial = {.graph = one.proof->graph, .bound_ns = one.proof->bound_ns, .split = pair.split};
    for (const bool forward : {true, false}) {
      GraphCertificate branch = certify_by_windows(in_order(one.open, pair.split, forward));
      // The case holds what held before it was split off.
      if (branch.bound_ns < one.proof->bound_ns) {
        branch.bound_ns = one.proof->bound_ns;
        branch.adjustments = one.proof->adjustments;
        branch.window = one.proof->window;
        branch.milestones = one.proof->milestones;
      }
      trial.branches.push_back(std::move(branch));
    }
    if (!best || rank(*best) < rank(trial)) best = std::move(trial);
  }
  if (!best) return false;
  *one.proof = std::move(*best);
  return true;
}

}  // namespace

GraphCertificate certify_by_windows(const graph::OpenGraph& open) {
  return best_by_windows(RaisedStep(open), open);
}

GraphCertificate certify(const graph::OpenGraph& open) {
  constexpr double kWorthIts = 1 + 1e-7, kRounding = 1 - 1e-10;  // a proof by milestones adds up many prices
  const RaisedStep step(open);
  GraphCertificate by_window = best_by_windows(step, open);
  std::optional<MilestoneProof> proof = search_prices(step.model, step.limits(), by_window.bound_ns);
  if (!proof) return by_window;
  GraphCertificate certificate{.graph = by_window.graph, .adjustments = step.adjustments_for(*proof)};
  certificate.milestones = std::move(proof);
  certificate.bound_ns = proved_by(certificate, open) * kRounding;
  return certificate.bound_ns > by_window.bound_ns * kWorthIts ? certificate : by_window;
}

graph::OpenGraph in_order(graph::OpenGraph open, const Split& split, bool first_before_second) {
  const auto [from, to] =
      first_before_second ? std::pair(split.first, split.second) : std::pair(split.second, split.first);
  open.classes[split.class_index].edges.push_back({from, to});
  return open;
}

GraphCertificate split_into_cases(const graph::OpenGraph& open, GraphCertificate root, double step_ns,
                                  std::size_t splits) {
  constexpr double kReached = 1 - 1e-10;
  const GraphCertificate whole = root;
  for (std::size_t i = 0; i < splits && root.bound_ns < step_ns * kReached; ++i) {
    if (!split_case(least_case(root, open))) break;
    settle_bounds(root);
  }
  return root.bound_ns > whole.bound_ns ? root : whole;  // cases that raise nothing only lengthen the proof
}

double proved_by(const GraphCertificate& certificate, const graph::OpenGraph& open) {
  if (certificate.split) {
    const std::vector<graph::OpenTask>& tasks = open.classes[certificate.split->class_index].tasks;
    if (!served_one_at_a_time(open, tasks[certificate.split->first], tasks[certificate.split->second])) return 0;
    return std::min(proved_by(certificate.branches.at(0), in_order(open, *certificate.split, true)),
                    proved_by(certificate.branches.at(1), in_order(open, *certificate.split, false)));
  }
  const StepModel model(open);
  std::vector<double> values[2], raised[2];
  const GraphSide directions[2] = {GraphSide(model, Side::head), GraphSide(model, Side::tail)};
  const auto settle = [&](std::size_t side) {
    for (const std::uint32_t node : directions[side].order())
      values[side][node] = std::max(raised[side][node], directions[side].reached(node, values[side]));
  };
  for (const std::size_t side : {0U, 1U}) {
    values[side].resize(model.nodes());
    raised[side].resize(model.nodes());
    settle(side);
  }
  for (const Adjustment& each : certificate.adjustments) {
    const std::size_t side = each.side == Side::head ? 0 : 1;
    const std::uint32_t node = model.node_of(each.class_index, each.task);
    const GraphSide::Before before = directions[side].before(node, values[side]);
    if (proved_by(each.window, model, directions[side].limits(before)) < each.ns) return 0;
    raised[side][node] = std::max(raised[side][node], each.ns);
    settle(side);
  }
  const Limits limits{values[0], values[1]};
  return certificate.milestones ? proved_by(*certificate.milestones, model, limits)
                                : proved_by(certificate.window, model, limits);
}

}  // namespace weft::simulate
