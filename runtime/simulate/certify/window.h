// The argument of every bound: work that can only be done in a window of the step doesn't fit into a shorter one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/simulate/certify/step_model.h"

namespace weft::simulate {

/// Chooses the items of a resource whose head and tail are at least these.
struct Thresholds {
  double head = 0, tail = 0;
};

/// A set S of items of one resource and, if these are computations, a set Q of items of a resource that slows them
/// down.
///
/// The bound that it proves: with A = min head(S), B = min tail(S), W = Σ time(S), a = min head(Q), b = min tail(Q),
///
///   T ≥ A + W + B + max(0, Σ_Q time·loss − (max(0, A − a) + max(0, B − b)) · max loss(Q)).
///
/// Proof. No task starts before its head, and none ends after T minus its tail. So S is done within the window from A
/// to T − B. Its resource serves at most as much as one item at a time, so the window holds W. Computations run at 1 −
/// loss of their speed at best while a collective runs that has this loss: the simulator takes the greatest slowdown of
/// all that run, and the loss is the least that the collective causes to any computation of the class. A channel runs
/// one collective at a time, for `time` at least. A link is occupied by each for a part of the time, and the parts add
/// up to one at most; while they do, the greatest loss is at least their mean. So the speed that Q takes away in the
/// whole step is Σ time·loss at least. Before A, Q can take away (A − a)·max loss at most, since none of it starts
/// before a; after T − B it is (B − b)·max loss at most. The rest is lost within the window. Cores that transport takes
/// are lost to computations of k streams, too: n running computations get min(n, (1 − part)·k) streams at most.
struct WorkWindow {
  ResourceName resource;
  Thresholds chosen;
  std::optional<ResourceName> beside = {};
  Thresholds beside_chosen = {};
};

/// What an item can start after and has to end before; NaN heads leave an item out.
struct Limits {
  std::span<const double> head, tail;  // by node
};

struct ProvedWindow {
  double ns = 0;
  WorkWindow window = {};
};

/// What the window proves; 0 if no item is chosen.
double proved_by(const WorkWindow& window, const StepModel& model, const Limits& limits);

/// The bound that a set of items proves when no slowdown is counted, and the thresholds that choose the items.
struct ProvedAlone {
  double ns = 0;
  Thresholds chosen;
};

/// The best of up to `most` thresholds of heads: for each, items are added by falling tail. With all of them it is
/// Carlier's bound.
ProvedAlone best_alone(std::span<const ResourceItem> items, const Limits& limits, std::size_t most = SIZE_MAX);

/// The best window of a resource. Up to `most` values of either threshold are tried with what slows computations down,
/// and all without.
ProvedWindow best_window(const StepResource& resource, const StepModel& model, const Limits& limits, std::size_t most);

/// A window of all items of a resource, and if the items are computations with all items of what slows them down most.
ProvedWindow whole_window(const StepResource& resource, const StepModel& model, const Limits& limits);

}  // namespace weft::simulate
