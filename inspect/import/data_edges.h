// Who needs whose data in a recorded step: by the operators that launched its work, and by what PyTorch's execution
// trace says about their storages.
#pragma once

#include <cstdint>
#include <vector>

#include "inspect/import/device_edges.h"
#include "inspect/import/device_trace.h"
#include "inspect/import/execution_trace.h"
#include "inspect/import/step_timeline.h"

namespace weft::inspect {

struct DataEdges {
  std::vector<FoundEdge> edges;
  std::vector<bool> known;        // by op: the edges say all about its data
  std::int64_t contradicted = 0;  // one operator needs another's data, but the times deny the order: left out
  std::int64_t joined = 0;        // ops of operators that the execution trace has
  std::int64_t misnamed = 0;      // of these, ops whose operator has another name there
};

/// What one operator launched stays in order: the outermost one that goes through PyTorch's dispatcher, since what is
/// made within it is seen by nobody else. Nothing is known of the operators of work without any: neighbours on a stream
/// then count as launched by one, unless marks tell them apart or one is a collective.
///
/// With an execution trace, operators that share a storage of which one writes it keep their order: reads after writes,
/// writes after reads and writes after writes, of whole storages. So does an operator and its node in the backward
/// pass. `data` may be null: then no op is `known`, and the trace's own arrows tell an operator's node.
DataEdges recover_data_edges(const DeviceTrace& trace, const StepTimeline& timeline, const ExecutionTrace* data);

}  // namespace weft::inspect
