#include "study/step_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace weft::study {

StepFigures figures_of(const simulate::Report& report) {
  StepFigures figures{.step_ns = report.step_ns(), .bound_ns = report.bounds.best()};
  figures.memory_bytes = report.memory_bytes();
  for (const simulate::ClassReport& each : report.classes) {
    figures.exposed_ns = std::max(figures.exposed_ns, each.times.exposed);
    figures.communication_ns = std::max(figures.communication_ns, each.times.communication);
  }
  return figures;
}

double tokens_per_second(const train::RunConfig& config, double step_ns) {
  return static_cast<double>(config.global_batch * config.seq_len) / (step_ns * 1e-9);
}

double model_flops_share(const train::RunConfig& config, std::int64_t ranks, const cost::Machine& machine,
                         double step_ns) {
  return config.model.train_flops_per_token(config.seq_len) * tokens_per_second(config, step_ns) /
         static_cast<double>(ranks) / machine.flops(config.dtype);
}

void expect_noise(double noise, std::int64_t seeds) {
  if (seeds <= 1 || noise != 0) return;
  throw UserError(fmt::format("--seeds {} without noise", seeds), "noise, without which all seeds give the same times",
                  "add --noise 0.1, or leave --seeds out");
}

}  // namespace weft::study
