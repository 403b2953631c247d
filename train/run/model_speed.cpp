#include "train/run/model_speed.h"

#include "ops/model_flops.h"

namespace weft::train {

double tokens_per_second(const RunConfig& config, double step_ns) {
  return static_cast<double>(config.global_batch * config.seq_len) / (step_ns * 1e-9);
}

double model_flops_per_second(const RunConfig& config, double step_ns) {
  return ops::train_flops_per_token(config.model, config.seq_len) * tokens_per_second(config, step_ns);
}

double model_flops_share(const RunConfig& config, std::int64_t ranks, const cost::Machine& machine, double step_ns) {
  return model_flops_per_second(config, step_ns) / static_cast<double>(ranks) / machine.flops(config.dtype);
}

}  // namespace weft::train
