#include "train/product_trials.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "kernels/cpu/parallel.h"
#include "ops/lower.h"
#include "runtime/device/device_gemm_trials.h"
#include "train/bf16_products.h"
#include "train/planning.h"
#include "train/trainer.h"

namespace weft {
namespace {

// Of the largest cache that the first core reads through. The C library's own figure adds up all instances on some
// processors, so it counts only where the kernel tells nothing.
std::int64_t last_cache_bytes() {
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::int64_t kibibytes = 0;
    char unit = 0;
    if (file >> kibibytes >> unit && unit == 'K') largest = std::max(largest, kibibytes << 10);
  }
  return largest > 0 ? largest : std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
}

// What has to be read so that nothing of a product is left in the caches: twice the last one.
std::int64_t bytes_beyond_caches() {
  return std::clamp<std::int64_t>(2 * last_cache_bytes(), std::int64_t{32} << 20, std::int64_t{1} << 30);
}

}  // namespace

std::vector<GemmUse> products_of_run(const RunConfig& config) {
  const StepConfig step = step_config(config);
  // Of all rewrites only this one makes other products, and only a GPU's are asked for with what it adds.
  std::vector<Rewrite> fusion;
  if (config.device == DeviceKind::cuda && fuses_gelu(chosen_rewrites(config))) fusion.emplace_back(FuseGelu{});
  const std::shared_ptr<const Graph> train = rewrite(lower_train(config.model, step), fusion);
  const std::shared_ptr<const Graph> eval = rewrite(lower_eval(config.model, step), fusion);
  return products_of(std::vector<const Graph*>{train.get(), eval.get()});
}

std::string to_string(const GemmTrial& trial) {
  const std::string product = to_string(trial.problem), usual = brief(trial.usual);
  if (trial.chosen == trial.usual) return fmt::format("{}: {} stays, best of {}", product, usual, trial.candidates);
  return fmt::format("{}: {} takes {:.2f} times as long as {}", product, usual, trial.gain, brief(trial.chosen));
}

struct ProductTrials::Impl {
  explicit Impl(int threads) : workers(threads) {}

  cpu::Workers workers;
  std::optional<GemmTrials> on_cpu;
  std::unique_ptr<DeviceGemmTrials> on_device;
};

ProductTrials::ProductTrials(const RunConfig& config, int rounds)
    : impl_(std::make_unique<Impl>(static_cast<int>(config.threads))) {
  const GemmTrialOptions options{.rounds = rounds,
                                 .cache_bytes = bytes_beyond_caches(),
                                 .bf16 = bf16_unit_of(config).value_or(cpu::widest_bf16_unit())};
  if (config.device == DeviceKind::cuda) {
    impl_->on_device = make_device_gemm_trials(options);
  } else {
    impl_->on_cpu.emplace(impl_->workers, options);
  }
}

ProductTrials::~ProductTrials() = default;

GemmTrial ProductTrials::run(const GemmProblem& problem) {
  return impl_->on_device ? impl_->on_device->run(problem) : impl_->on_cpu->run(problem);
}

TuningMachine tuning_machine(const RunConfig& config) {
  return config.device == DeviceKind::cuda ? device_tuning_machine() : this_machine();
}

}  // namespace weft
