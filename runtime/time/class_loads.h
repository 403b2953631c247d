// What the tasks of a rank class ask of their links and cores, and how tasks that run at the same time share them: the
// data from which the rates of running tasks are computed at every event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/order.h"

namespace weft::time {

/// How the collectives of one graph slow its computations down, by the kinds of both: a table of Machine::slowdown()
/// for the kinds that the graph has.
class KindSlowdowns {
 public:
  /// Without a graph or a machine, nothing is slowed down.
  KindSlowdowns() = default;
  KindSlowdowns(const graph::Graph& graph, const cost::Machine* machine);

  std::uint32_t kind(std::size_t task) const { return kind_[task]; }
  /// The kinds of a computation and of a collective (Operation, is_collective()).
  double factor(std::uint32_t computation, std::uint32_t collective) const {
    return factors_.empty() ? 1 : factors_[computation * collectives_ + collective];
  }
  bool none() const { return factors_.empty(); }

 private:
  std::vector<std::uint32_t> kind_;  // by task; collectives have the first numbers
  std::size_t collectives_ = 0;      // number of their kinds
  std::vector<double> factors_;      // [kind][collective's kind]; empty: all are 1
};

/// A collective that runs alone uses its link for a part of its time, its `use`: bytes occupy a link, latency doesn't.
/// While the uses of a link's collectives add up to at most 1, each runs as if alone. Otherwise all get an equal share
/// of the link, and what a collective doesn't need of its share goes to the others (max-min fairness).
///
///   uses 0.2, 0.9, 0.9   →   shares 0.2, 0.4, 0.4   →   rates 1, 0.44, 0.44
class LinkShares {
 public:
  explicit LinkShares(std::size_t links) : uses_(links), level_(links, 1) {}

  void clear() {
    for (std::vector<double>& uses : uses_) uses.clear();
  }
  /// Adds a running collective, whose `use` is from 0 to 1.
  void add(std::size_t link, double use) { uses_[link].push_back(use); }
  /// After the last add(), before rate().
  void divide() {
    for (std::size_t link = 0; link < uses_.size(); ++link) level_[link] = level_of(uses_[link]);
  }
  /// The speed of a collective of this use; 1: as if alone.
  double rate(std::size_t link, double use) const { return use > level_[link] ? level_[link] / use : 1; }

 private:
  /// The greatest share of any collective.
  static double level_of(const std::vector<double>& uses);

  std::vector<std::vector<double>> uses_;  // by link
  std::vector<double> level_;              // by link
};

struct TaskLoad {
  double ns = 0;           // alone
  double cores = 0;        // that a transport takes at full rate, on machines where transports share cores
  double beside = 1;       // rate of a collective while computations run
  double use = 1;          // part of its link that a collective uses when it runs alone
  std::uint32_t kind = 0;  // of KindSlowdowns
};

struct StreamLoad {
  bool compute = true;
  bool local = false;                  // of the rank's own: at full rate, and without effect on other streams
  bool sends = true, receives = true;  // the directions in which a communication stream uses its link
  std::uint32_t link = 0;              // numbered from 0 without gaps
};

struct ClassLoads {
  /// Links by channel; empty: each channel has its own. Without a machine, tasks don't slow each other down but on
  /// links. With `directions`, messages use one direction of a link, and collectives both.
  ClassLoads(const graph::Graph& graph, std::span<const plan::Stream> of_streams, const cost::TaskCosts& costs,
             const cost::Machine* machine, const std::vector<int>& link_of_channel, bool directions);
  /// Local queues, whose tasks have no effect on each other. Each runs task 0, for as long as it is told.
  explicit ClassLoads(std::size_t queues) : tasks(1), streams(queues, {.compute = false, .local = true}) {}
  /// A message takes its Send's time: its Receive has the Send's use of the link and rate beside computations.
  void receive(std::size_t task, const TaskLoad& send, double cpu_ns);

  std::vector<TaskLoad> tasks;
  std::vector<StreamLoad> streams;
  std::size_t compute_streams = 0, links = 0;
  KindSlowdowns slowdowns;
  bool shared_cores = false;  // transports take cores from computations
  bool has_messages = false;  // so that the directions of a link are told apart
  bool contends = false;      // any task's rate depends on what runs beside it
};

}  // namespace weft::time
