#include "train/evaluation.h"

#include "ops/lower.h"
#include "train/metrics.h"

namespace weft {

Evaluation evaluate(Program& program, const EvalBatches& batches) {
  const State& state = program.state();
  const auto sums = state.get<float>(names::kEvalSums);
  double loss = 0, count = 0;
  for (std::int64_t i = 0; i < batches.size(); ++i) {
    batches.fill(i, state.get<std::int32_t>(names::kEvalTokens), state.get<std::int32_t>(names::kEvalTargets));
    program.run("eval", i);
    loss += static_cast<double>(sums[0]);
    count += static_cast<double>(sums[1]);
  }
  return {without_nan_sign(loss / count), static_cast<std::uint64_t>(count)};
}

}  // namespace weft
