// The task of somebody else's step: ordered, simulated and drawn, but never executed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "graph/operations/collectives.h"
#include "graph/operations/schema.h"

namespace weft::graph {

/// Its schema is open: a task has any number of accesses, of any modes and shapes. Its kind is a value, too.
struct Opaque {
  std::string name = {};  // "gemm", "all_reduce", a kernel's name
  KindClass drawn_as = KindClass::elementwise;
  bool queued = false;  // on the stream of `queue`, not on a compute stream
  bool local = false;   // that queue is the rank's own, such as a CPU thread's: nothing goes to other ranks
  Channel queue = Channel::world;
  std::int64_t meeting = -1;  // equal for tasks of several classes that start together; -1: it starts alone
  double flops = 0, bytes = 0, network_bytes = 0;
  /// Costs in nanoseconds, as in cost::TaskCosts; negative: unknown. They aren't part of the mathematics, so neither
  /// fields nor fingerprints have them.
  double ns = -1, beside_ns = -1, link_ns = -1, cpu_ns = 0;
  /// Where and when it ran: index into Graph::stream_names(), and time since the step's begin. Negative: unknown. No
  /// part of fingerprints either.
  std::int32_t stream = -1;
  double begin_ns = -1;

  static constexpr std::string_view kind = "opaque";
  static constexpr auto fields() {
    return std::tuple{field("flops", &Opaque::flops).told_if_set(), field("bytes", &Opaque::bytes).told_if_set(),
                      field("network_bytes", &Opaque::network_bytes).told_if_set()};
  }
  constexpr auto arguments() const { return std::array<ArgumentSchema, 0>{}; }
  constexpr Work work(double /*element_bytes*/) const { return {flops, bytes, network_bytes}; }
};

}  // namespace weft::graph
