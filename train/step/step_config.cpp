#include "train/step/step_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "kernels/cpu/gemm/packed_unit.h"

namespace weft::train {
namespace {

// `trained`: bytes of a parameter that is trained, with what the optimizer keeps of it. Frozen ones take their own
// alone.
double state_bytes(const RunConfig& config, double trained) {
  const ops::ModelConfig& model = config.model;
  const std::int64_t own = model.parameters() / config.grid.model_ranks();
  if (!model.lora.used()) return trained * static_cast<double>(own);
  const std::int64_t adapters = model.adapter_parameters() / config.grid.model_ranks();
  return static_cast<double>(size_of(config.dtype)) * static_cast<double>(own) +
         trained * static_cast<double>(adapters);
}

}  // namespace

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
  step.sequence_parallel = config.sequence_parallel;
  step.loss_parts = config.loss_parts;
  step.zero1 = config.zero1;
  step.gradient_reduction = config.gradient_reduction;
  step.recompute_blocks = config.recompute == Recompute::block;
  step.dropout = config.dropout;
  step.document_mask = config.document_mask;
  if (!config.record_routing.empty()) step.routing = ops::Routing::recorded;
  if (!config.replay_routing.empty()) step.routing = ops::Routing::replayed;
  step.beta1 = config.beta1;
  step.beta2 = config.beta2;
  step.eps = config.eps;
  step.weight_decay = config.weight_decay;
  step.clip = config.clip;
  return step;
}

bool sums_norms_over_y(const RunConfig& config) {
  // Adapters are trained over frozen norms.
  return config.sequence_parallel && config.grid.y > 1 && !config.model.lora.used();
}

std::string summation_note(const RunConfig& config) {
  constexpr const char* kDifference = "so they are added in another order than by default: results differ in rounding";
  std::vector<std::string> causes;
  if (step_config(config).scatters_each_micro_batch()) {
    causes.emplace_back("gradients are reduce-scattered over z in each micro-batch (gradient-reduction)");
  }
  if (sums_norms_over_y(config)) {
    causes.emplace_back("gradients of norms are summed over y, which cuts their rows (sequence-parallel)");
  }
  if (config.loss_parts > 1) {
    causes.emplace_back("the head's gradient is summed over parts of a micro-batch's rows (loss-parts)");
  }
  return causes.empty() ? "" : fmt::format("{}, {}", fmt::join(causes, "; "), kDifference);
}

bool computes_in_bf16(const RunConfig& config) {
  return config.dtype == DType::bf16 && config.device == DeviceKind::cpu;
}

std::optional<PackedUnit> bf16_unit_of(const RunConfig& config) {
  if (!computes_in_bf16(config)) return std::nullopt;
  return config.bf16_products ? *config.bf16_products : cpu::fastest_bf16_unit();
}

double least_host_bytes(const RunConfig& config) {
  const auto element = static_cast<double>(size_of(config.dtype));
  const auto data_ranks = config.zero1 ? static_cast<double>(config.grid.data) : 1.0;
  if (config.device == DeviceKind::cpu) {
    const std::int64_t columns = config.model.hidden / config.grid.x;
    const std::int64_t cuts = config.grid.context * (config.sequence_parallel ? config.grid.y : 1);
    const std::int64_t rows = config.micro_batch * config.seq_len / cuts;
    const double block_input = static_cast<double>(rows * columns) * element;
    const double parameter_bytes = data_ranks > 1 ? element + 4.0 + 12.0 / data_ranks : 16.0;
    return state_bytes(config, parameter_bytes) + static_cast<double>(config.model.layers) * block_input;
  }
  const bool has_master = config.dtype != DType::f32 || data_ranks > 1;
  // Pages of the state take memory only once they are written; the moments are on the host only for checkpoints.
  const bool has_moments = config.save || !config.resume.empty();
  const double parameter_bytes = element + ((has_master ? 4.0 : 0.0) + (has_moments ? 8.0 : 0.0)) / data_ranks;
  return state_bytes(config, parameter_bytes);
}

void check_memory(const RunConfig& config, std::int64_t ranks, double memory_bytes) {
  const double needed = least_host_bytes(config) * static_cast<double>(ranks);
  if (needed <= memory_bytes) return;
  const auto text = [](double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  if (config.device == DeviceKind::cuda) {
    throw UserError(
        fmt::format(
            "{} rank{} of {} parameters need at least {} of memory on the host, where parameters{} pass through", ranks,
            ranks == 1 ? "" : "s", human_count(static_cast<double>(config.model.parameters())), text(needed),
            config.save || !config.resume.empty() ? " and optimizer state" : ""),
        fmt::format("at most {}, this machine's memory", text(memory_bytes)),
        config.save ? "a smaller model, fewer --ranks, or --save=false for a run without checkpoints"
                    : "a smaller model or fewer --ranks");
  }
  throw UserError(
      fmt::format("{} rank{} of {} parameters and micro-batches of {} tokens need at least {} of memory", ranks,
                  ranks == 1 ? "" : "s", human_count(static_cast<double>(config.model.parameters())),
                  config.micro_batch * config.seq_len, text(needed)),
      fmt::format("at most {}, this machine's memory", text(memory_bytes)),
      "a smaller model, a smaller --micro-batch, a shorter --seq-len or fewer --ranks; weft search tells how "
      "a --machine of more memory holds it");
}

}  // namespace weft::train
