#include "train/measure/run_gemm_tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "kernels/cpu/parallel.h"
#include "ops/lower.h"
#include "runtime/comm/agreement.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/execute/tuning/gemm_tuning_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::train {
namespace {

// The source of a run's table.
struct Source {
  std::optional<std::string> text;  // none: the default methods
  std::string name;
  bool stored = false;  // by a checkpoint
};

Source source_of(const TuningSetting& setting, const std::optional<std::filesystem::path>& checkpoint,
                 const std::function<execute::TunedGemms()>& tune) {
  using From = TuningSetting::From;
  if (setting.from == From::nothing) return {};
  if (setting.from == From::file) return {execute::read_gemm_tuning_text(setting.file), in_quotes(setting.file), false};
  if (setting.from == From::trials && !checkpoint) {
    if (tune == nullptr) throw UserError("--gemm-tuning auto is for training", "a file of `weft tune`, or none", "");
    return {execute::to_json(tune()), "the newly measured table", false};
  }
  if (!checkpoint) return {};
  const std::string stored = read_checkpoint_info(*checkpoint).gemm_tuning;
  if (stored.empty()) return {};
  return {stored, in_quotes(*checkpoint / execute::kGemmTuningFile), true};
}

// Size of the largest cache of the first core. On some processors the C library sums all instances, so its figure only
// counts if the kernel gives none.
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

// Bytes to read so that no operand of a product is left in the caches: twice the largest cache.
std::int64_t bytes_beyond_caches() {
  return std::clamp<std::int64_t>(2 * last_cache_bytes(), std::int64_t{32} << 20, std::int64_t{1} << 30);
}

using Graphs = std::vector<std::shared_ptr<const graph::Graph>>;

// `uses_of`: of some graphs.
template <class Problem, class UsesOf>
std::vector<UseInRun<Problem>> uses_in_run(const ResolvedRun& run, const UsesOf& uses_of) {
  const RunConfig& config = run.config;
  const ops::StepConfig step = step_config(config);
  // These are the only rewrites that change products, and only a GPU's methods depend on the change.
  std::vector<plan::Rewrite> fusion;
  if (config.device == DeviceKind::cuda) {
    std::ranges::copy_if(chosen_rewrites(run), std::back_inserter(fusion), plan::is_fusion);
  }
  const auto of_stages = [&](const auto& lower) {
    Graphs graphs;
    for (std::int64_t pipe = 0; pipe < config.grid.pipe; ++pipe) {
      graphs.push_back(plan::rewrite(lower(config.model, step, pipe), fusion));
    }
    return uses_of(graphs);
  };
  std::vector<UseInRun<Problem>> all;
  for (const auto& use : of_stages(ops::lower_train)) all.push_back({use.problem, use.tasks});
  for (const auto& use : of_stages(ops::lower_eval)) {
    auto known = std::ranges::find(all, use.problem, &UseInRun<Problem>::problem);
    if (known == all.end()) known = all.insert(known, {use.problem});
    known->evaluation_tasks = use.tasks;
  }
  return all;
}

template <class Problem>
std::vector<Problem> problems_of(const std::vector<UseInRun<Problem>>& uses) {
  std::vector<Problem> problems;
  for (const auto& use : uses) problems.push_back(use.problem);
  return problems;
}

}  // namespace

std::shared_ptr<const execute::TunedGemms> gemm_tuning_of_run(comm::World& world, const TuningSetting& setting,
                                                              const std::optional<std::filesystem::path>& checkpoint,
                                                              StoredTuning stored,
                                                              const std::function<execute::TunedGemms()>& tune) {
  Source source;
  if (world.rank() == 0) {
    source = source_of(setting, checkpoint, tune);
    try {
      if (source.text) execute::parse_gemm_tuning(*source.text, source.name);
    } catch (const UserError&) {
      if (!source.stored || stored == StoredTuning::required) throw;
      source.text.reset();
    }
  }
  world.barrier();  // unlike a broadcast, a barrier leaves the cores to the measurement
  const std::string text = comm::text_of_rank_0(world, source.text.value_or(""));
  if (text.empty()) return nullptr;
  // Every rank checks the table for its own CPU.
  const std::string name = source.name.empty() ? "the table of tuned matrix products of rank 0" : source.name;
  return std::make_shared<const execute::TunedGemms>(execute::parse_gemm_tuning(text, name));
}

std::vector<RunProduct> products_of_run(const ResolvedRun& run) {
  return uses_in_run<execute::GemmProblem>(run, [&](const Graphs& graphs) {
    std::vector<execute::GemmUse> uses = execute::products_of(graphs);
    for (execute::GemmUse& use : uses) {
      use.problem.tf32 = run.config.tf32 && use.problem.inputs == DType::f32;
    }
    return uses;
  });
}

std::vector<RunAttention> attention_of_run(const ResolvedRun& run) {
  if (run.config.device == DeviceKind::cpu) return {};
  const bool fastest = run.config.attention_gradient == execute::AttentionGradient::fastest;
  return uses_in_run<execute::AttentionProblem>(run, [&](const Graphs& graphs) {
    std::vector<execute::AttentionUse> uses = execute::attention_of(graphs);
    for (execute::AttentionUse& use : uses) use.problem.any_bits = fastest && use.problem.backward;
    return uses;
  });
}

execute::TryGemm gemm_trials(const RunConfig& config, int rounds, bool cold) {
  if (cold && config.device == DeviceKind::cpu) {
    throw UserError("--cold with device cpu", "device cuda: a CPU's caches are always cold in half of the runs",
                    "leave --cold out");
  }
  const execute::GemmTrialOptions options{.rounds = rounds,
                                          .cache_bytes = bytes_beyond_caches(),
                                          .bf16 = bf16_unit_of(config).value_or(cpu::widest_bf16_unit()),
                                          .cold_gpu = cold};
  if (config.device == DeviceKind::cuda) return execute::device_gemm_trials(options);
  return execute::cpu_gemm_trials(static_cast<int>(config.threads), options);
}

execute::TryAttention attention_trials(const RunConfig& config, int rounds, bool cold) {
  return execute::device_attention_trials({.rounds = rounds, .cold_gpu = cold}, config.attention_workspace);
}

execute::TuningMachine tuning_machine(const RunConfig& config) {
  return config.device == DeviceKind::cuda ? execute::device_tuning_machine() : execute::this_machine();
}

execute::TunedGemms tune_for_run(const ResolvedRun& run, const TellStatus& tell) {
  const RunConfig& config = run.config;
  const execute::GemmTuningCache cache{execute::tuning_folder(config.run_dir), tuning_machine(config),
                                       config.device == DeviceKind::cuda ? 0 : static_cast<int>(config.threads)};
  const int rounds = execute::GemmTrialOptions{}.rounds;
  execute::TryGemm trial;  // this and the next are made at the first measurement
  execute::TryAttention attention_trial;
  const auto measure = [&](const execute::GemmProblem& problem) {
    if (!trial) trial = gemm_trials(config, rounds);
    return trial(problem);
  };
  const auto measure_attention = [&](const execute::AttentionProblem& problem) {
    if (!attention_trial) attention_trial = attention_trials(config, rounds);
    return attention_trial(problem);
  };
  return cache.complete(problems_of(products_of_run(run)), measure, tell, problems_of(attention_of_run(run)),
                        measure_attention);
}

}  // namespace weft::train
