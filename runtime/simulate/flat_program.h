// Plans and costs as flat arrays, by rank class: what the simulator reads at every event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/operations/collectives.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/kind_slowdowns.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"

namespace weft::simulate {

struct FlatWait {
  std::uint32_t stream = 0, entry = 0;
};

/// An entry of a stream, with all data that its simulation needs.
struct FlatEntry {
  std::uint32_t task = 0, first_wait = 0, waits = 0;
  std::uint32_t kind = 0;  // of KindSlowdowns
  double ns = 0, cpu = 0;  // time alone; cores that its transport takes at full rate
  double beside = 1;       // rate of a collective while computations run
  double use = 1;          // part of its link that a collective uses when it runs alone
};

struct FlatStream {
  std::vector<FlatEntry> entries;
  bool compute = true;
  bool local = false;                  // of the rank's own: at full rate, and without effect on other streams
  bool sends = true, receives = true;  // the directions in which a communication stream uses its link
  graph::Channel channel = graph::Channel::world;
  std::size_t link = 0;  // numbered from 0 without gaps
};

/// The plan of a rank class.
struct FlatClass {
  FlatClass(const plan::Plan& of, const cost::Machine& machine) : plan(&of), slowdowns(*of.graph, &machine) {}

  const plan::Plan* plan;
  std::vector<FlatStream> streams;
  std::size_t compute_streams = 0;
  cost::KindSlowdowns slowdowns;
};

/// Of several classes, class k is stage k of a pipeline, and messages are paired: a Receive has its Send's use of the
/// link, and its Send's time for the share of cores.
class FlatProgram {
 public:
  /// Throws std::logic_error if the ends of a message channel have different numbers of messages.
  FlatProgram(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
              const cost::Machine& machine, std::span<const int> link_of_channel);

  const std::vector<FlatClass>& classes() const { return classes_; }
  const std::vector<FlatWait>& waits() const { return waits_; }
  std::size_t links() const { return links_; }
  /// Whether the directions of a link are told apart, since there are messages.
  bool has_messages() const { return has_messages_; }
  /// The stream of a channel in a class; the number of its streams if there is none.
  std::size_t stream_of(std::size_t class_index, graph::Channel channel) const;

 private:
  void add_entries(const cost::TaskCosts& costs, const cost::Machine& machine, const plan::StreamPlan& stream,
                   const FlatClass& one, FlatStream& flat);
  void pair_messages(std::span<const cost::TaskCosts> costs, const cost::Machine& machine);

  std::vector<FlatClass> classes_;
  std::vector<FlatWait> waits_;
  std::size_t links_ = 0;
  bool has_messages_ = false;
};

}  // namespace weft::simulate
