#include "train/evaluation.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/lower.h"
#include "train/run/metrics.h"
#include "train/step/training_state.h"

namespace weft::train {

std::int64_t affordable_sequences(double seconds, std::int64_t trained, std::int64_t evaluations, double max_time) {
  constexpr double kMinute = 60, kShare = 0.05, kStep = 3;
  double run = kStep * static_cast<double>(trained) * seconds;
  if (max_time > 0) run = std::min(run, max_time);
  const double most = std::max(kMinute, kShare * run / static_cast<double>(std::max<std::int64_t>(1, evaluations)));
  return static_cast<std::int64_t>(std::clamp(most / seconds, 1.0, 1e9));
}

Evaluation evaluate(execute::Program& program, const EvalBatches& batches,
                    const std::function<StopReasons()>& wants_stop) {
  const execute::State& state = program.state();
  const auto sums = state.get<float>(ops::names::kEvalSums);
  const bool documents = state.contains(ops::names::kEvalDocumentStarts);
  std::vector<std::int32_t> tokens(batches.ids_per_batch()), targets(tokens.size());
  std::vector<std::int32_t> document_starts(documents ? batches.starts_per_batch() : 0);
  Evaluation result;
  double loss = 0, count = 0;
  while (result.batches < batches.size() && !result.stop.any()) {
    const std::int64_t batch = result.batches++;
    batches.fill(batch, tokens, targets, document_starts);
    write_ids(state, ops::names::kEvalTokens, tokens);
    write_ids(state, ops::names::kEvalTargets, targets);
    write_ids(state, ops::names::kEvalDocumentStarts, document_starts);
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

}  // namespace weft::train
