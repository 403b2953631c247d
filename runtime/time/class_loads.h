// What the tasks of a rank class ask of their links and cores, in the form in which the rates of running tasks are
// computed from it at every event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/kind_slowdowns.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/stream.h"

namespace weft::time {

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
  /// So many local queues, whose tasks have no effect on each other; each runs task 0, for as long as it is told.
  explicit ClassLoads(std::size_t queues) : tasks(1), streams(queues, {.compute = false, .local = true}) {}
  /// A message takes its Send's time: its Receive has the Send's use of the link and rate beside computations.
  void receive(std::size_t task, const TaskLoad& send, double cpu_ns);

  std::vector<TaskLoad> tasks;
  std::vector<StreamLoad> streams;
  std::size_t compute_streams = 0, links = 0;
  cost::KindSlowdowns slowdowns;
  bool shared_cores = false;  // transports take cores from computations
  bool has_messages = false;  // so that the directions of a link are told apart
  bool contends = false;      // any task's rate depends on what runs beside it
};

}  // namespace weft::time
