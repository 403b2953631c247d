// What the names of marks tell about the work below them: phase, layer and micro-batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "inspect/import/device_trace.h"

namespace weft::inspect {

struct MarkedPlace {
  std::optional<graph::Phase> phase = {};
  std::int32_t layer = -1, micro_batch = -1;
};

/// "DistributedDataParallel.forward" → forward; "## backward ##", "autograd::engine::evaluate_function: …" → backward;
/// "Optimizer.step#SGD.step" → update; "layer 3", "layers.3", "block_3" → layer 3; "microbatch 1", "mb1" →
/// micro-batch 1.
MarkedPlace place_in_name(std::string_view name);

/// For each call, by index: what the marks around it on its thread tell; of two, the inner one counts.
std::vector<MarkedPlace> places_of_calls(const DeviceTrace& trace);

}  // namespace weft::inspect
