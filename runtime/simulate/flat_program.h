// Plans and costs as flat arrays, by rank class: what the simulator reads at every event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/operations/collectives.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/plan.h"
#include "runtime/time/class_loads.h"

namespace weft::simulate {

struct FlatWait {
  std::uint32_t stream = 0, entry = 0;
};

struct FlatEntry {
  std::uint32_t task = 0, first_wait = 0, waits = 0;
};

/// The plan of a rank class.
struct FlatClass {
  const plan::Plan* plan;
  std::vector<std::vector<FlatEntry>> streams;
};

/// Of several classes, class k is stage k of a pipeline, and messages are paired: a Receive has its Send's use of the
/// link, and its Send's time for the share of cores.
class FlatProgram {
 public:
  /// Throws std::logic_error if the ends of a message channel have different numbers of messages.
  FlatProgram(std::span<const plan::Plan* const> plans, std::span<const cost::TaskCosts> costs,
              const cost::Machine& machine, const std::vector<int>& link_of_channel);

  const std::vector<FlatClass>& classes() const { return classes_; }
  std::span<const time::ClassLoads> loads() const { return loads_; }
  const std::vector<FlatWait>& waits() const { return waits_; }
  /// The stream of a channel in a class; the number of its streams if there is none.
  std::size_t stream_of(std::size_t class_index, graph::Channel channel) const;

 private:
  void add_entries(const plan::StreamPlan& stream, std::vector<FlatEntry>& flat);
  void pair_messages(std::span<const cost::TaskCosts> costs);

  std::vector<FlatClass> classes_;
  std::vector<time::ClassLoads> loads_;  // by class
  std::vector<FlatWait> waits_;
};

}  // namespace weft::simulate
