#include "train/measure/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/task_signature.h"
#include "runtime/comm/of_ranks.h"
#include "runtime/cost/profile_file.h"
#include "runtime/execute/tuning/device_gemm_trials.h"
#include "runtime/policy/catalog/policies.h"
#include "train/measure/collective_bench.h"

namespace weft::train {
namespace {

// The ranks' entries of equal signature become one: means weighted by samples.
std::vector<cost::ProfileEntry> merged(comm::World& world, const std::vector<cost::ProfileEntry>& own) {
  cost::Profile profile;
  profile.entries = own;
  std::map<std::string, cost::ProfileEntry> all;
  for (const std::string& text : comm::of_ranks(world, cost::profile_json(profile))) {
    const cost::Profile other = cost::parse_profile(text, "a rank's profile");
    for (const cost::ProfileEntry& entry : other.entries) {
      cost::ProfileEntry& sum = all[entry.signature];
      sum.signature = entry.signature;
      const auto before = static_cast<double>(sum.samples), more = static_cast<double>(entry.samples);
      const auto mean = [&](double a, double b) { return (a * before + b * more) / std::max(1.0, before + more); };
      sum.ns = mean(sum.ns, entry.ns);
      sum.deviation_ns = mean(sum.deviation_ns, entry.deviation_ns);
      sum.samples += entry.samples;
    }
  }
  std::vector<cost::ProfileEntry> entries;
  for (auto& [signature, entry] : all) entries.push_back(std::move(entry));
  return entries;
}

std::unordered_map<std::string, double> times_of(const cost::Profile& profile) {
  std::unordered_map<std::string, double> ns;
  for (const cost::ProfileEntry& entry : profile.entries) ns.emplace(entry.signature, entry.ns);
  return ns;
}

bool is_collective(const cost::ProfileEntry& entry) {
  return graph::collective_of_signature(entry.signature).has_value();
}

double mean_over_ranks(comm::World& world, double value) {
  const std::vector<double> all = comm::of_ranks(world, value);
  return std::accumulate(all.begin(), all.end(), 0.0) / world.size();
}

// The factor on computations by which a serial step of these costs takes as long as the measured step.
double computing_factor(const graph::Graph& graph, const cost::Profile& profile, double step_ns) {
  const auto ns = times_of(profile);
  double computing = 0, communicating = 0;
  for (const graph::Task& task : graph.tasks()) {
    const auto found = ns.find(graph::task_signature(graph, task));
    if (found != ns.end()) (graph::is_collective(task.operation) ? communicating : computing) += found->second;
  }
  return computing > 0 ? std::max(1.0, (step_ns - communicating) / computing) : 1;
}

}  // namespace

double SerialSamples::run(PolicyBenchmark& benchmark, std::size_t policy) {
  const double ns = benchmark.run(policy);
  step_ns_.push_back(ns);
  samples_.add(benchmark.plan(policy), benchmark.last_trace(policy));
  return ns;
}

void SerialSamples::write(const plan::Plan& plan, cost::Profile& profile) const {
  const std::vector<cost::ProfileEntry> before = std::exchange(profile.entries, merged(world_, samples_.entries()));
  for (cost::ProfileEntry& entry : profile.entries) {
    const auto known = std::ranges::find(before, entry.signature, &cost::ProfileEntry::signature);
    if (known == before.end()) continue;
    entry.cpu_ns = known->cpu_ns;
    entry.beside_ns = known->beside_ns;
  }
  profile.computing_factor = computing_factor(*plan.graph, profile, cost::middle_mean(step_ns_));
}

double StageSamples::run(StageComputations& stage) {
  step_ns_.push_back(stage.run());
  samples_.add(stage.plan(), stage.last_trace());
  return mean_over_ranks(world_, step_ns_.back());
}

void StageSamples::write(const plan::Plan& plan, cost::Profile& profile) const {
  std::vector<cost::ProfileEntry> own = samples_.entries();
  std::erase_if(own, is_collective);
  std::erase_if(profile.entries, [](const cost::ProfileEntry& entry) { return !is_collective(entry); });
  for (cost::ProfileEntry& entry : merged(world_, own)) profile.entries.push_back(std::move(entry));
  std::ranges::sort(profile.entries, {}, &cost::ProfileEntry::signature);
  const auto ns = times_of(profile);
  double computing = 0;
  for (const graph::Task& task : plan.graph->tasks()) {
    if (!graph::is_collective(task.operation)) computing += ns.at(graph::task_signature(*plan.graph, task));
  }
  computing = mean_over_ranks(world_, computing);
  const double step = mean_over_ranks(world_, cost::middle_mean(step_ns_));
  profile.computing_factor = computing > 0 ? std::max(1.0, step / computing) : 1;
}

namespace {

/// Runs steps of which the first one warms up; `run(counts)` returns a step's nanoseconds.
template <class Run>
void run_steps(int steps, const TellStatus& tell, const Run& run) {
  for (int step = -1; step < steps; ++step) {
    const double ns = run(step >= 0);
    tell({fmt::format("step {} of {}: {:.1f} ms", step + 1, steps, ns * 1e-6), step + 1, steps});
  }
}

void profile_stages(comm::World& world, const ResolvedRun& run, int steps, int rounds, const TellStatus& tell,
                    cost::Profile& profile) {
  StageComputations stage(world, run);
  StageSamples samples(world);
  run_steps(steps, tell, [&](bool counts) { return counts ? samples.run(stage) : stage.run(); });
  profile.core_pools = stage.core_pools();
  samples.write(stage.plan(), profile);
  measure_collectives(world, run.config, stage.plan(), rounds, tell, profile);
}

}  // namespace

cost::Profile measure_profile(comm::World& world, const ResolvedRun& run, int steps, int rounds,
                              const TellStatus& tell) {
  const RunConfig& config = run.config;
  const TellStatus tell_once = [&](const Status& status) {
    if (world.rank() == 0) tell(status);
  };
  cost::Profile profile;
  const bool on_device = config.device == DeviceKind::cuda;
  profile.machine = on_device ? execute::device_tuning_machine().isa : cost::cpu_name();
  profile.grid = config.grid;
  profile.threads = config.threads;
  if (config.grid.pipe > 1) {
    profile_stages(world, run, steps, rounds, tell_once, profile);
    return profile;
  }
  PolicyBenchmark benchmark(world, run, {policy::named_policy("serial")});
  SerialSamples samples(world);
  run_steps(steps, tell_once, [&](bool counts) { return counts ? samples.run(benchmark, 0) : benchmark.run(0); });
  samples.write(benchmark.plan(0), profile);
  // The remaining measurements are about the host's computing time, which collectives on a GPU don't use.
  if (!on_device) measure_collectives(world, config, benchmark.plan(0), rounds, tell_once, profile);
  return profile;
}

}  // namespace weft::train
