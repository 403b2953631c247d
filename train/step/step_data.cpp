#include "train/step/step_data.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace weft::train {

BatchShare share_of(const RunConfig& config, const graph::Coordinates& at) {
  return {graph::batch_rank(config.grid, at),   config.grid.batch_ranks(), accumulation(config), config.micro_batch,
          graph::context_rank(config.grid, at), config.grid.context};
}

BatchPlan batch_plan(const RunConfig& config, const TokenStream& tokens, BatchPlan::Cut cut) {
  if (config.packing == Packing::wrapped) return {tokens.size(), config.seq_len, config.seed, cut};
  return {document_windows(tokens, config.seq_len), config.seq_len, config.seed};
}

EvalBatches eval_batches(const RunConfig& config, const TokenStream& held_out, const BatchShare& share) {
  std::vector<TokenWindow> windows;
  if (config.packing == Packing::documents) windows = document_windows(held_out, config.seq_len);
  return {held_out, config.seq_len, share, std::max<std::int64_t>(0, config.eval_sequences), std::move(windows)};
}

std::optional<GoldfishMask> goldfish_mask(const RunConfig& config) {
  if (!config.goldfish) return std::nullopt;
  return GoldfishMask(
      *config.goldfish, config.seed,
      reads_documents(config) ? GoldfishMask::Contexts::end_with_documents : GoldfishMask::Contexts::cross_documents);
}

std::int64_t steps_of_epochs(const RunConfig& config, const BatchPlan& plan, std::int64_t first_step,
                             std::uint64_t first_sequence) {
  const double sequences = config.epochs * static_cast<double>(plan.windows_per_epoch());
  const auto batch = static_cast<double>(config.global_batch);
  // Steps of one size are counted from 0, whatever was done before: sums of fractions round.
  if (first_sequence == static_cast<std::uint64_t>(first_step * config.global_batch)) {
    return std::max<std::int64_t>(1, std::llround(std::ceil(sequences / batch)));
  }
  const double left = std::max(0.0, sequences - static_cast<double>(first_sequence));
  return first_step + std::llround(std::ceil(left / batch));
}

}  // namespace weft::train
