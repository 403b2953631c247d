// The cost model of opaque tasks: their recorded times, and a machine's rates for those that have only a shape.
#pragma once

#include <memory>
#include <optional>

#include "base/dtype.h"
#include "runtime/cost/costs.h"
#include "runtime/cost/machine.h"

namespace weft::cost {

/// The cost of a task is its recorded time. Without that, and with a machine: the longer of its time for flops, at the
/// machine's rate for `dtype`, and its time for bytes, plus the overhead of a task; of a task that communicates, its
/// network bytes on the link of a group of its channel's size, on the first ranks. costs() throws UserError with the
/// name of a task that has neither a time nor a shape, or a shape and no machine, and std::logic_error for a task that
/// isn't opaque.
std::unique_ptr<const CostModel> recorded_costs(std::optional<Machine> machine, DType dtype = DType::bf16);

}  // namespace weft::cost
