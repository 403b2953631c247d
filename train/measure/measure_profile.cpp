#include "train/measure/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "graph/analysis.h"
#include "graph/task_signature.h"
#include "runtime/comm/of_ranks.h"
#include "runtime/cost/profile_file.h"
#include "runtime/execute/tuning/device_gemm_trials.h"
#include "runtime/policy/catalog/policies.h"
#include "train/measure/collective_bench.h"
#include "train/step/step_graphs.h"

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

bool has_messages(const graph::Graph& graph) {
  return std::ranges::any_of(graph.tasks(), [](const graph::Task& task) {
    const graph::Channel* channel = graph::channel_of(task.operation);
    return channel != nullptr && graph::is_message(*channel);
  });
}

/// Runs steps of which the first one warms up; `run(counts)` returns a step's nanoseconds.
template <class Run>
void run_steps(int steps, const TellStatus& tell, const Run& run) {
  for (int step = -1; step < steps; ++step) {
    const double ns = run(step >= 0);
    tell({fmt::format("step {} of {}: {:.1f} ms", step + 1, steps, ns * 1e-6), step + 1, steps});
  }
}

}  // namespace

double SerialSamples::run(PolicyBenchmark& benchmark, std::size_t policy) {
  const double ns = benchmark.run(policy);
  step_ns_.push_back(ns);
  samples_.add(benchmark.plan(policy), benchmark.last_trace(policy));
  return ns;
}

double SerialSamples::run(StageComputations& stage) {
  communicates_ = false;
  step_ns_.push_back(stage.run());
  samples_.add(stage.plan(), stage.last_trace());
  return mean_over_ranks(world_, step_ns_.back());
}

void SerialSamples::write(const plan::Plan& plan, cost::Profile& profile) const {
  std::vector<cost::ProfileEntry> own = samples_.entries();
  if (!communicates_) std::erase_if(own, is_collective);
  const std::vector<cost::ProfileEntry> before = std::exchange(profile.entries, merged(world_, own));
  for (const cost::ProfileEntry& known : before) {
    if (!is_collective(known)) continue;
    const auto sampled = std::ranges::find(profile.entries, known.signature, &cost::ProfileEntry::signature);
    if (sampled == profile.entries.end()) {
      profile.entries.push_back(known);
    } else {
      sampled->cpu_ns = known.cpu_ns;
      sampled->beside_ns = known.beside_ns;
    }
  }
  std::ranges::sort(profile.entries, {}, &cost::ProfileEntry::signature);
  const auto ns = times_of(profile);
  double computing = 0, communicating = 0;
  for (const graph::Task& task : plan.graph->tasks()) {
    const auto found = ns.find(graph::task_signature(*plan.graph, task));
    if (found == ns.end()) continue;
    if (!graph::is_collective(task.operation)) computing += found->second;
    if (graph::is_collective(task.operation) && communicates_) communicating += found->second;
  }
  // The factor on computations by which a serial step of these costs takes as long as the measured step.
  const double rest = mean_over_ranks(world_, cost::middle_mean(step_ns_) - communicating);
  computing = mean_over_ranks(world_, computing);
  profile.computing_factor = computing > 0 ? std::max(1.0, rest / computing) : 1;
}

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
  SerialSamples samples(world);
  if (has_messages(*train_graph(config, graph::coordinates_of(config.grid, world.rank()).pipe).graph)) {
    StageComputations stage(world, run);
    run_steps(steps, tell_once, [&](bool counts) { return counts ? samples.run(stage) : stage.run(); });
    profile.core_pools = stage.core_pools();
    samples.write(stage.plan(), profile);
    measure_collectives(world, config, stage.plan(), rounds, tell_once, profile);
    return profile;
  }
  PolicyBenchmark benchmark(world, run, {policy::named_policy("serial")});
  run_steps(steps, tell_once, [&](bool counts) { return counts ? samples.run(benchmark, 0) : benchmark.run(0); });
  samples.write(benchmark.plan(0), profile);
  // The remaining measurements are about the host's computing time, which collectives on a GPU don't use.
  if (!on_device) measure_collectives(world, config, benchmark.plan(0), rounds, tell_once, profile);
  return profile;
}

}  // namespace weft::train
