// Collectives and transfers that were asked for one by one and run as one kernel: between ncclGroupStart() and
// ncclGroupEnd(), as PyTorch's batch_isend_irecv() and its coalescing managers do.
#pragma once

#include "inspect/import/device_trace.h"

namespace weft::inspect {

/// The end of a group launches its kernel when the operators that asked for it are done (PyTorch's issue 194693), so
/// the kernel has neither arguments nor an operator. A kernel of communication that was launched outside of all
/// operators is what its thread's operators of c10d asked for since the launch before it. It gets their process group,
/// the sum of their bytes, and their kind if all have the same one; and `asked_by` and DeviceTrace::coalesced name
/// them.
void join_coalesced_groups(DeviceTrace& trace);

}  // namespace weft::inspect
