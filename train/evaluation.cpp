#include "train/evaluation.h"

#include <limits>
#include <span>
#include <vector>

#include "ops/lower.h"
#include "train/run/metrics.h"

namespace weft::train {

Evaluation evaluate(execute::Program& program, const EvalBatches& batches,
                    const std::function<StopReasons()>& wants_stop) {
  const execute::State& state = program.state();
  const auto sums = state.get<float>(ops::names::kEvalSums);
  // Only a pipeline's first stage reads tokens, and only its last one targets.
  std::vector<std::int32_t> unread_tokens, unread_targets;
  const auto ids = [&](const char* name, std::vector<std::int32_t>& unread) {
    if (state.contains(name)) return state.get<std::int32_t>(name);
    unread.resize(batches.ids_per_batch());
    return std::span<std::int32_t>(unread);
  };
  const std::span<std::int32_t> tokens = ids(ops::names::kEvalTokens, unread_tokens);
  const std::span<std::int32_t> targets = ids(ops::names::kEvalTargets, unread_targets);
  Evaluation result;
  double loss = 0, count = 0;
  while (result.batches < batches.size() && !result.stop.any()) {
    const std::int64_t batch = result.batches++;
    std::span<std::int32_t> document_starts;
    if (state.contains(ops::names::kEvalDocumentStarts)) {
      document_starts = state.get<std::int32_t>(ops::names::kEvalDocumentStarts);
    }
    batches.fill(batch, tokens, targets, document_starts);
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
