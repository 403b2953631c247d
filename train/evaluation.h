// The loss on held-out tokens.
#pragma once

#include <cstdint>

#include "runtime/program.h"
#include "train/batches.h"

namespace weft {

struct Evaluation {
  double loss = 0;            // mean nats a token over all targets of all ranks
  std::uint64_t targets = 0;  // tokens predicted
};

/// Runs the program's graph "eval" on every batch. All ranks get the same result, whatever their number, up to the
/// rounding of one fp32 sum a batch.
Evaluation evaluate(Program& program, const EvalBatches& batches);

}  // namespace weft
