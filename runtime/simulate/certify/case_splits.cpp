#include "runtime/simulate/certify/case_splits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace weft::simulate {
namespace {

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

}  // namespace weft::simulate
