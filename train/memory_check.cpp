#include "train/memory_check.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"
#include "train/progress.h"

namespace weft {

double least_training_bytes(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const auto data_ranks = static_cast<double>(config.grid.data);
  const double block_input = static_cast<double>(config.micro_batch * config.seq_len) *
                             static_cast<double>(model.hidden / config.grid.x) *
                             static_cast<double>(size_of(config.dtype));
  const auto element = static_cast<double>(size_of(config.dtype));
  const double parameter_bytes = config.zero1 && data_ranks > 1 ? element + 4.0 + 12.0 / data_ranks : 16.0;
  return parameter_bytes * static_cast<double>(model.parameters() / config.grid.model_ranks()) +
         static_cast<double>(model.layers) * block_input;
}

void check_memory(const RunConfig& config, std::int64_t ranks, double memory_bytes) {
  const double needed = least_training_bytes(config) * static_cast<double>(ranks);
  if (needed <= memory_bytes) return;
  const auto text = [](double bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  throw UserError(fmt::format("{} rank{} of {} parameters and micro-batches of {} tokens need at least {} of memory",
                              ranks, ranks == 1 ? "" : "s", human_count(static_cast<double>(config.model.parameters())),
                              config.micro_batch * config.seq_len, text(needed)),
                  fmt::format("at most {}, this machine's memory", text(memory_bytes)),
                  "a smaller model, a smaller --micro-batch, a shorter --seq-len or fewer --ranks");
}

double machine_memory_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace weft
