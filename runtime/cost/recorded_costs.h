// The cost model of opaque tasks: their recorded times, and a machine's rates for those that have only a shape.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"
#include "runtime/cost/scaled_costs.h"

namespace weft::cost {

/// A network that is `factor` times as fast, for the channels whose names match the pattern: "data=2", or "2" for all.
/// Throws UserError on text of another form and on factors of 0 and below or above 1e6.
NamedFactor parse_bandwidth(std::string_view text);

/// The cost of a task is its recorded time. Without that, and with a machine: the longer of its time for flops, at the
/// machine's rate for `dtype`, and its time for bytes, plus the overhead of a task; of a task that communicates, its
/// network bytes on the link of a group of its channel's size, on the first ranks. costs() throws UserError with the
/// name of a task that has neither a time nor a shape, or a shape and no machine, and std::logic_error for a task that
/// isn't opaque.
///
/// With other bandwidths, the part of a collective's time in which bytes are sent is divided by the factor: its link_ns
/// where the graph tells it, else its time without the machine's latency, or all of it without a machine. costs()
/// throws UserError on a pattern that matches no channel of the graph.
std::unique_ptr<const CostModel> recorded_costs(std::optional<Machine> machine, DType dtype = DType::bf16,
                                                std::vector<NamedFactor> bandwidths = {});

}  // namespace weft::cost
