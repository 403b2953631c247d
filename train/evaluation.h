// The loss on held-out tokens, and the agreement of ranks to stop: each rank adds its vote to a number that is summed
// over ranks in any case, so no extra message is needed.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/execute/program/program.h"
#include "train/data/batches.h"

namespace weft::train {

/// The reasons for which a rank, or any rank, wants to stop.
struct StopReasons {
  bool signal = false, time = false;

  bool any() const { return signal || time; }
  void add(const StopReasons& more) {
    signal = signal || more.signal;
    time = time || more.time;
  }
};

/// One rank's vote. Sums are exact in fp32 to 4096 ranks.
inline float stop_vote(const StopReasons& reasons) {
  return (reasons.signal ? 1.0F : 0.0F) + (reasons.time ? 4096.0F : 0.0F);
}

/// The reasons in a sum of votes.
inline StopReasons stop_reasons(float votes) {
  const auto sum = static_cast<std::int64_t>(votes);
  return {sum % 4096 != 0, sum >= 4096};
}

struct Evaluation {
  double loss = 0;            // mean nats a token over all targets of all ranks; a NaN if it isn't complete
  std::uint64_t targets = 0;  // tokens predicted
  std::int64_t batches = 0;   // number of batches that ran
  bool complete = true;       // all batches ran
  StopReasons stop = {};      // of any rank, from `wants_stop`
};

/// The held-out sequences that an evaluation by default takes at most: as many as take a minute, or, if that is more,
/// an equal part of 5 % of the run's time. Steps count three times as long as an evaluation of their tokens. `seconds`:
/// of one sequence, over all ranks. `trained`, `evaluations`: sequences and evaluations of the whole run. `max_time`:
/// seconds that the run takes at most; 0: no limit. At least 1.
std::int64_t affordable_sequences(double seconds, std::int64_t trained, std::int64_t evaluations, double max_time);

/// Runs the program's graph "eval" on every batch. All ranks get the same result, whatever their number, up to the
/// rounding of one fp32 sum a batch. `wants_stop` is asked before each batch: if it returns a reason on any rank, all
/// ranks end after that batch.
Evaluation evaluate(execute::Program& program, const EvalBatches& batches,
                    const std::function<StopReasons()>& wants_stop = nullptr);

}  // namespace weft::train
