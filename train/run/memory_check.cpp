#include "train/run/memory_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "base/units.h"

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

double least_training_bytes(const RunConfig& config) {
  const ops::ModelConfig& model = config.model;
  const auto data_ranks = static_cast<double>(config.grid.data);
  const std::int64_t columns = model.hidden / config.grid.x;
  const double block_input = static_cast<double>(config.micro_batch * config.seq_len) * static_cast<double>(columns) *
                             static_cast<double>(size_of(config.dtype));
  const auto element = static_cast<double>(size_of(config.dtype));
  const double parameter_bytes = config.zero1 && data_ranks > 1 ? element + 4.0 + 12.0 / data_ranks : 16.0;
  return state_bytes(config, parameter_bytes) + static_cast<double>(model.layers) * block_input;
}

double least_host_bytes(const RunConfig& config) {
  if (config.device == DeviceKind::cpu) return least_training_bytes(config);
  const auto element = static_cast<double>(size_of(config.dtype));
  const auto data_ranks = config.zero1 ? static_cast<double>(config.grid.data) : 1.0;
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
  throw UserError(fmt::format("{} rank{} of {} parameters and micro-batches of {} tokens need at least {} of memory",
                              ranks, ranks == 1 ? "" : "s", human_count(static_cast<double>(config.model.parameters())),
                              config.micro_batch * config.seq_len, text(needed)),
                  fmt::format("at most {}, this machine's memory", text(memory_bytes)),
                  "a smaller model, a smaller --micro-batch, a shorter --seq-len or fewer --ranks");
}

double machine_memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace weft::train
