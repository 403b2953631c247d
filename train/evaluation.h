// The loss on held-out tokens.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/execute/program/program.h"
#include "train/data/batches.h"
#include "train/stop_votes.h"

namespace weft::train {

struct Evaluation {
  double loss = 0;            // mean nats a token over all targets of all ranks; a NaN if it isn't complete
  std::uint64_t targets = 0;  // tokens predicted
  std::int64_t batches = 0;   // number of batches that ran
  bool complete = true;       // all batches ran
  StopReasons stop = {};      // of any rank, from `wants_stop`
};

/// Runs the program's graph "eval" on every batch. All ranks get the same result, whatever their number, up to the
/// rounding of one fp32 sum a batch. `wants_stop` is asked before each batch: if it returns a reason on any rank, all
/// ranks end after that batch.
Evaluation evaluate(execute::Program& program, const EvalBatches& batches,
                    const std::function<StopReasons()>& wants_stop = nullptr);

}  // namespace weft::train
