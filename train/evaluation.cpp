#include "train/evaluation.h"

#include <limits>

#include "ops/lower.h"
#include "train/run/metrics.h"

namespace weft {

Evaluation evaluate(Program& program, const EvalBatches& batches, const std::function<StopReasons()>& wants_stop) {
  const State& state = program.state();
  const auto sums = state.get<float>(names::kEvalSums);
  Evaluation result;
  double loss = 0, count = 0;
  while (result.batches < batches.size() && !result.stop.any()) {
    const std::int64_t batch = result.batches++;
    batches.fill(batch, state.get<std::int32_t>(names::kEvalTokens), state.get<std::int32_t>(names::kEvalTargets));
    sums[2] = wants_stop ? stop_vote(wants_stop()) : 0.0F;
    program.run("eval", batch);
    loss += static_cast<double>(sums[0]);
    count += static_cast<double>(sums[1]);
    result.stop.add(stop_reasons(sums[2]));
  }
  result.complete = result.batches == batches.size();
  result.loss = result.complete ? without_nan_sign(loss / count) : std::numeric_limits<double>::quiet_NaN();
  result.targets = static_cast<std::uint64_t>(count);
  return result;
}

}  // namespace weft
