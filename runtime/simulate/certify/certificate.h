// A lower bound on all orders of one graph, with the argument that proves it: small enough for a file, and for a
// checker that recomputes each step of the argument by itself (bench/overlap/check_bounds.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/open_graph.h"
#include "runtime/simulate/certify/milestones.h"
#include "runtime/simulate/certify/window.h"

namespace weft::simulate {

/// No order starts a task before this head, or ends it later than this tail before the step's end.
///
/// Proof of a head: all that precedes the task is a step by itself, which the window bounds. The tails of its items are
/// their longest paths to the task, without the costs of both ends. A tail is the same seen from the end: the heads of
/// the window's items are their longest paths from the task. Each adjustment may rest on the ones before it, and heads
/// and tails of other tasks follow from it along edges.
struct Adjustment {
  enum class Side : std::uint8_t { head, tail };
  Side side = Side::head;
  std::uint32_t class_index = 0, task = 0;
  double ns = 0;
  WorkWindow window;
};

/// Two tasks of a class that one queue serves: in every order one of them ends before the other begins.
struct Split {
  std::uint32_t class_index = 0, first = 0, second = 0;
};

/// A proof by a window or by milestones, or by two proofs: one for the graph in which `first` comes before `second`,
/// and one for the graph in which it comes after. The bound is then the least of both.
struct GraphCertificate {
  std::uint64_t graph = 0;  // bound_fingerprint()
  double bound_ns = 0;
  std::vector<Adjustment> adjustments = {};  // those on which the argument rests, in an order of proof
  WorkWindow window = {};
  std::optional<MilestoneProof> milestones = {};  // in place of the window
  std::optional<Split> split = {};
  std::vector<GraphCertificate> branches = {};  // two if there is a split; their `graph` is not used
};

/// The best bound that windows prove, after heads and tails were adjusted. It bounds the steps of simulate() and
/// simulate() without noise, under every order of this graph, and is never below Bounds::best() by more than
/// rounding. Pure. `open` is of open_graph_of().
GraphCertificate certify_by_windows(const graph::OpenGraph& open);

/// The same, or a proof by milestones if it proves more. Takes some seconds on a graph of 5,000 tasks.
GraphCertificate certify(const graph::OpenGraph& open);

/// The graph in which the first task of a split comes before the second, or after it.
graph::OpenGraph in_order(graph::OpenGraph open, const Split& split, bool first_before_second);

/// Branch and bound on a bound: a certificate of the same graph whose bound is at least as high. Splits the case of
/// least bound, `splits` times at most, until no case is below `step_ns`, the best step that is known, or none can be
/// split. Of several pairs of tasks, it takes the one that raises the lower of its two cases most.
///
/// On graphs whose collectives slow nothing down and share no link, cases with all queues in order are as long as their
/// longest path, so that enough splits prove the optimum. Otherwise a case is still bounded by windows, a relaxation.
GraphCertificate split_into_cases(const graph::OpenGraph& open, GraphCertificate root, double step_ns,
                                  std::size_t splits);

/// The bound that a certificate proves of this graph: what a checker computes. 0 if one of its adjustments doesn't
/// hold, or if a split is of tasks that no queue serves one at a time.
double proved_by(const GraphCertificate& certificate, const graph::OpenGraph& open);

}  // namespace weft::simulate
