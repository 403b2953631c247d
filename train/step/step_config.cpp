#include "train/step/step_config.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cpu/gemm/packed_unit.h"

namespace weft::train {

ops::StepConfig step_config(const RunConfig& config) {
  ops::StepConfig step;
  step.micro_batch = config.micro_batch;
  step.seq_len = config.seq_len;
  step.micro_batches = accumulation(config);
  step.grid = config.grid;
  step.pipeline = config.pipeline;
  step.dtype = config.dtype;
  step.reduce_dtype = config.reduce_dtype;
  step.reshard_after_forward = config.reshard_after_forward;
  step.zero1 = config.zero1;
  step.gradient_reduction = config.gradient_reduction;
  step.recompute_blocks = config.recompute == Recompute::block;
  step.dropout = config.dropout;
  step.document_mask = config.document_mask;
  step.beta1 = config.beta1;
  step.beta2 = config.beta2;
  step.eps = config.eps;
  step.weight_decay = config.weight_decay;
  step.clip = config.clip;
  return step;
}

std::string summation_note(const RunConfig& config) {
  if (!step_config(config).scatters_each_micro_batch()) return "";
  return "gradients are reduce-scattered over z in each micro-batch (gradient-reduction), so they are added in another "
         "order than by default: results differ in rounding";
}

BatchShare share_of(const RunConfig& config, const graph::Coordinates& at) {
  return {graph::batch_rank(config.grid, at), config.grid.batch_ranks(), accumulation(config), config.micro_batch};
}

BatchPlan batch_plan(const RunConfig& config, const TokenStream& tokens) {
  if (config.packing == Packing::wrapped) return {tokens.size(), config.seq_len, config.seed};
  return {document_windows(tokens, config.seq_len), config.seq_len, config.seed};
}

EvalBatches eval_batches(const RunConfig& config, const TokenStream& held_out, const BatchShare& share) {
  std::vector<TokenWindow> windows;
  if (config.packing == Packing::documents) windows = document_windows(held_out, config.seq_len);
  return {held_out, std::move(windows), config.seq_len, share, config.eval_sequences};
}

std::optional<GoldfishMask> goldfish_mask(const RunConfig& config) {
  if (!config.goldfish) return std::nullopt;
  return GoldfishMask(
      *config.goldfish, config.seed,
      reads_documents(config) ? GoldfishMask::Contexts::end_with_documents : GoldfishMask::Contexts::cross_documents);
}

std::int64_t steps_of_epochs(const RunConfig& config, const BatchPlan& plan) {
  const double sequences = config.epochs * static_cast<double>(plan.windows_per_epoch());
  return std::max<std::int64_t>(1, std::llround(std::ceil(sequences / static_cast<double>(config.global_batch))));
}

bool computes_in_bf16(const RunConfig& config) {
  return config.dtype == DType::bf16 && config.device == DeviceKind::cpu;
}

std::optional<PackedUnit> bf16_unit_of(const RunConfig& config) {
  if (!computes_in_bf16(config)) return std::nullopt;
  return config.bf16_products ? *config.bf16_products : cpu::fastest_bf16_unit();
}

}  // namespace weft::train
