#include "train/measure/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/buffer.h"
#include "graph/task_signature.h"
#include "runtime/cost/profile_file.h"
#include "runtime/execute/cpu/collective_probe.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/tuning/device_gemm_trials.h"
#include "runtime/plan/collective_signature.h"
#include "train/step/planning.h"

namespace weft::train {
namespace {

// Slowdowns are measured for kinds of computations that take at least this share of all computing time.
constexpr double kMatters = 0.02;

comm::CollectiveKind kind_of(const graph::Operation& operation) {
  if (std::holds_alternative<graph::AllReduce>(operation)) return comm::CollectiveKind::all_reduce;
  if (std::holds_alternative<graph::ReduceScatter>(operation)) return comm::CollectiveKind::reduce_scatter;
  if (std::holds_alternative<graph::AllGather>(operation)) return comm::CollectiveKind::all_gather;
  return comm::CollectiveKind::broadcast;
}

// The ranks' entries of equal signature become one: means weighted by samples.
std::vector<cost::ProfileEntry> merged(comm::World& world, const std::vector<cost::ProfileEntry>& own) {
  cost::Profile profile;
  profile.entries = own;
  const std::string text = cost::profile_json(profile);
  std::map<std::string, cost::ProfileEntry> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(text)))) {
    const cost::Profile other =
        cost::parse_profile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "a rank's profile");
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

/// The time of all tasks of one kind in a step, and a task with the signature that takes most of it.
struct KindTimes {
  double ns = 0;
  graph::TaskId heaviest = {};
  double heaviest_ns = 0;  // of all tasks with its signature
};

/// The kinds of collectives, or of computations.
std::map<std::string_view, KindTimes> kinds_of(const graph::Graph& graph, const cost::Profile& profile,
                                               bool collectives) {
  const auto ns = times_of(profile);
  struct Sum {
    graph::TaskId first;
    double ns = 0;
  };
  std::map<std::string, Sum> sums;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    if (graph::is_collective(graph.tasks()[i].operation) != collectives) continue;
    const std::string signature = graph::task_signature(graph, graph.tasks()[i]);
    sums.try_emplace(signature, Sum{graph::TaskId(i)}).first->second.ns += ns.at(signature);
  }
  std::map<std::string_view, KindTimes> kinds;
  for (const auto& [signature, sum] : sums) {
    KindTimes& kind = kinds[graph::kind_name(graph.task(sum.first).operation)];
    kind.ns += sum.ns;
    if (kind.heaviest.valid() && sum.ns <= kind.heaviest_ns) continue;
    kind.heaviest = sum.first;
    kind.heaviest_ns = sum.ns;
  }
  return kinds;
}

/// Runs the collectives of a plan on separate memory, beside one computation after another.
class CollectiveBench {
 public:
  /// `profile` has an entry for each task of the plan, and receives the measurements.
  CollectiveBench(comm::World& world, const RunConfig& config, const plan::Plan& plan, cost::Profile& profile,
                  TellStatus tell)
      : world_(world),
        plan_(plan),
        graph_(*plan.graph),
        profile_(profile),
        threads_(static_cast<int>(config.threads)),
        tell_(std::move(tell)),
        communicators_(world, channels_of(plan), config.grid),
        in_(largest_bytes()),
        out_(in_.size()),
        workspace_(in_.size()) {}

  void measure(int rounds) {
    std::map<std::string, graph::TaskId> first;  // of each signature: one order on all ranks
    for (const graph::TaskId task : plan_.collectives)
      first.emplace(graph::task_signature(graph_, graph_.task(task)), task);
    execute::ProbeComputation product = execute::ProbeComputation::product(threads_);
    std::map<std::string, execute::CollectiveTimes> beside_product;
    for (const auto& [signature, task] : first) {
      const auto done = static_cast<std::int64_t>(beside_product.size()),
                 total = static_cast<std::int64_t>(first.size());
      tell_({fmt::format("[{}/{}] {}", done + 1, total, signature), done, total});
      const execute::CollectiveTimes times = probe(task, product, rounds);
      beside_product.emplace(signature, times);
      const auto entry = std::ranges::find(profile_.entries, signature, &cost::ProfileEntry::signature);
      entry->cpu_ns = times.slows_by * threads_;
      entry->beside_ns = times.beside;
    }
    measure_slowdowns(beside_product, std::max(1, rounds / 2));
  }

 private:
  void measure_slowdowns(const std::map<std::string, execute::CollectiveTimes>& beside_product, int rounds) {
    const auto computations = kinds_of(graph_, profile_, false), collectives = kinds_of(graph_, profile_, true);
    double computing = 0;
    for (const auto& [name, kind] : computations) computing += kind.ns;
    const auto matters = [&](const auto& named) { return named.second.ns >= kMatters * computing; };
    const auto total = std::ranges::count_if(computations, matters) * std::ssize(collectives);
    std::int64_t done = 0;
    for (const auto& [name, kind] : computations) {
      if (collectives.empty() || kind.ns < kMatters * computing) continue;
      execute::ProbeComputation computation(graph_, graph_.task(kind.heaviest), threads_);
      for (const auto& [collective, longest] : collectives) {
        tell_({fmt::format("{} beside {}", name, collective), done++, total});
        const execute::CollectiveTimes& known =
            beside_product.at(graph::task_signature(graph_, graph_.task(longest.heaviest)));
        const double factor = execute::slowdown_factor(known, probe(longest.heaviest, computation, rounds));
        if (factor > 1) profile_.slowdowns.push_back({std::string(name), std::string(collective), factor});
      }
    }
  }

  execute::CollectiveTimes probe(graph::TaskId task, execute::ProbeComputation& computation, int rounds) {
    const plan::CollectiveSignature what = plan::signature_of(graph_, task);
    const comm::CollectiveCall call{
        kind_of(graph_.task(task).operation), what.dtype, what.count, 0, in_.data(), out_.data(), workspace_.data()};
    return execute::probe_collective(world_, *communicators_.on(what.channel), call, computation, rounds);
  }

  static std::vector<graph::Channel> channels_of(const plan::Plan& plan) {
    std::vector<graph::Channel> channels;
    for (const graph::TaskId task : plan.collectives)
      channels.push_back(*graph::channel_of(plan.graph->task(task).operation));
    return channels;
  }

  std::int64_t largest_bytes() const {
    std::int64_t bytes = 0;
    for (const graph::TaskId task : plan_.collectives) {
      for (const graph::Access& access : graph_.task(task).accesses) {
        bytes = std::max(bytes, graph_.tensor(access.view.tensor).bytes());
      }
    }
    return bytes;
  }

  comm::World& world_;
  const plan::Plan& plan_;
  const graph::Graph& graph_;
  cost::Profile& profile_;
  const int threads_;
  const TellStatus tell_;
  const execute::CommunicatorSet communicators_;
  const Buffer in_, out_, workspace_;
};

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

cost::Profile measure_profile(comm::World& world, const ResolvedRun& run, int steps, int rounds,
                              const TellStatus& tell) {
  const RunConfig& config = run.config;
  expect_one_stage(config);
  const auto tell_once = [&](const Status& status) {
    if (world.rank() == 0) tell(status);
  };
  PolicyBenchmark benchmark(world, run, {policy::named_policy("serial")});
  SerialSamples samples(world);
  for (int step = -1; step < steps; ++step) {  // the first one warms up
    const double ns = step < 0 ? benchmark.run(0) : samples.run(benchmark, 0);
    tell_once({fmt::format("step {} of {}: {:.1f} ms", step + 1, steps, ns * 1e-6), step + 1, steps});
  }
  cost::Profile profile;
  const bool on_device = config.device == DeviceKind::cuda;
  profile.machine = on_device ? execute::device_tuning_machine().isa : cost::cpu_name();
  profile.grid = config.grid;
  profile.threads = config.threads;
  samples.write(benchmark.plan(0), profile);
  // The remaining measurements are about the host's computing time, which collectives on a GPU don't use.
  if (!on_device) CollectiveBench(world, config, benchmark.plan(0), profile, tell_once).measure(rounds);
  return profile;
}

}  // namespace weft::train
