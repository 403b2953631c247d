#include "train/measure/measure_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "base/overloaded.h"
#include "graph/analysis.h"
#include "graph/grid.h"
#include "graph/task_signature.h"
#include "runtime/cost/profile.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cpu/collective_probe.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/policy/catalog/policies.h"
#include "train/measure/rank_clock.h"
#include "train/step/run_graphs.h"

namespace weft::train {
namespace {

std::unordered_map<std::string, double> times_of(const cost::Profile& profile) {
  std::unordered_map<std::string, double> ns;
  for (const cost::ProfileEntry& entry : profile.entries) ns.emplace(entry.signature, entry.ns);
  return ns;
}

// ---- collectives and messages apart from steps: alone, and beside computations that let them progress

// Slowdowns are measured for kinds of computations that take at least this share of all computing time.
constexpr double kMatters = 0.02;

std::string_view kind_of_signature(std::string_view signature) {
  return signature.substr(0, signature.find(' '));
}

/// The tasks that make a call: a collective's one, a message's send and its receive, which the profile tells apart.
std::vector<std::string> ends_of(const std::string& signature) {
  const graph::SignedCollective call = *graph::collective_of_signature(signature);
  const auto* send = std::get_if<graph::Send>(&call.operation);
  if (send == nullptr) return {signature};
  return {signature,
          fmt::format("{} channel={} count={} {}", graph::Receive::kind,
                      graph::to_string(graph::other_end(send->channel)), send->count, to_string(call.dtype))};
}

/// How many tasks of each signature each rank has in a step.
class SignatureCounts {
 public:
  SignatureCounts(comm::World& world, const graph::Graph& graph) {
    std::map<std::string, std::int64_t> own;
    for (const graph::Task& task : graph.tasks()) ++own[graph::task_signature(graph, task)];
    std::string lines;
    for (const auto& [signature, count] : own) lines += fmt::format("{} {}\n", count, signature);
    for (const std::string& of_rank : comm::of_ranks(world, lines)) {
      auto& counts = by_rank_.emplace_back();
      std::istringstream in(of_rank);
      std::int64_t count = 0;
      for (std::string signature; in >> count && std::getline(in.ignore(), signature);) {
        counts.emplace(signature, count);
        mean_[signature] += static_cast<double>(count) / world.size();
      }
    }
  }

  /// By signature, those of all ranks.
  const std::map<std::string, double>& mean() const { return mean_; }
  std::int64_t of(int rank, const std::string& signature) const {
    const auto& counts = by_rank_[static_cast<std::size_t>(rank)];
    const auto found = counts.find(signature);
    return found == counts.end() ? 0 : found->second;
  }

 private:
  std::vector<std::map<std::string, std::int64_t>> by_rank_;
  std::map<std::string, double> mean_;
};

/// The time of all tasks of one kind in a step, the mean over the ranks, and the signature that takes most of it.
struct KindTimes {
  double ns = 0;
  std::string heaviest = {};
  double heaviest_ns = 0;  // of all tasks with this signature
};

/// An exchange of rows has no table yet.
comm::CollectiveCall call_of(const graph::SignedCollective& collective) {
  using comm::CollectiveKind;
  const auto call = [&](CollectiveKind kind, std::int64_t count, std::int64_t root = 0) {
    return comm::CollectiveCall{kind, collective.dtype, count, root, nullptr, nullptr, nullptr};
  };
  const auto exchange = [&](const graph::AllToAll& o) {
    comm::CollectiveCall made = call(CollectiveKind::all_to_all, o.count);
    made.parts = o.parts;
    return made;
  };
  const auto exchange_rows = [&](const graph::ExchangeRows& o) {
    comm::CollectiveCall made = call(CollectiveKind::exchange_rows, o.count);
    made.table = {nullptr, o.experts, o.rows, o.most};
    return made;
  };
  return std::visit(
      Overloaded{[&](const graph::AllReduce& o) { return call(CollectiveKind::all_reduce, o.count); },
                 [&](const graph::ReduceScatter& o) { return call(CollectiveKind::reduce_scatter, o.count); },
                 [&](const graph::AllGather& o) { return call(CollectiveKind::all_gather, o.count); }, exchange,
                 exchange_rows,
                 [&](const graph::Broadcast& o) { return call(CollectiveKind::broadcast, o.count, o.root); },
                 [&](const graph::Send& o) { return call(CollectiveKind::broadcast, o.count); },
                 [&](const graph::Receive& o) { return call(CollectiveKind::broadcast, o.count); },
                 [&](const auto&) -> comm::CollectiveCall { throw std::logic_error("no collective"); }},
      collective.operation);
}

/// Measures the tasks of all ranks' plans; `plan` is this rank's. The profile has an entry for each computation of any
/// rank. Collectives and messages get their core times and their times beside computations, and an entry where they
/// have none. Then the members of a collective begin at once, and both ends of a message are ready; pairs of stages
/// take turns. Slowdowns are measured for kinds of computations that matter. Every rank gets the same profile.
/// Collective over the world.
class CollectiveBench {
 public:
  CollectiveBench(comm::World& world, const RunConfig& config, const plan::Plan& plan, TellStatus tell,
                  cost::Profile& profile)
      : world_(world),
        grid_(config.grid),
        graph_(*plan.graph),
        threads_(static_cast<int>(config.threads)),
        tell_(std::move(tell)),
        profile_(profile),
        counts_(world, graph_),
        communicators_(world, channels(), config.grid),
        in_(largest_bytes()),
        out_(in_.size()),
        workspace_(in_.size()),
        ns_(times_of(profile)) {}

  void measure(int rounds) {
    // The step's own products, since how often a product lets a transport progress depends on its slices.
    execute::ProbeComputation product = probe_of(heaviest_task(graph::Gemm::kind));
    std::vector<std::string> probed = signatures(false);
    for (const std::string& message : signatures(true)) {
      if (kind_of_signature(message) == graph::Send::kind) probed.push_back(message);
    }
    for (std::int64_t i = 0; i < std::ssize(probed); ++i) {
      const std::string& signature = probed[static_cast<std::size_t>(i)];
      tell_({fmt::format("[{}/{}] {}", i + 1, probed.size(), signature), i, std::ssize(probed)});
      measure_call(signature, product, rounds);
    }
    std::ranges::sort(profile_.entries, {}, &cost::ProfileEntry::signature);
    measure_slowdowns(std::max(1, rounds / 2));
  }

 private:
  /// Ranks that make a call while the others wait: all groups of a collective, or the ranks of two neighbouring stages.
  struct Site {
    comm::Communicator* group = nullptr;  // null: this rank waits
    std::size_t end = 0;                  // of ends_of() that is this rank's
    std::int64_t root = 0;
  };

  std::vector<std::string> signatures(bool messages) const {
    std::vector<std::string> found;
    for (const auto& [signature, count] : counts_.mean()) {
      const auto collective = graph::collective_of_signature(signature);
      if (collective && graph::is_message(*graph::channel_of(collective->operation)) == messages)
        found.push_back(signature);
    }
    return found;
  }

  std::vector<graph::Channel> channels() const {
    std::vector<graph::Channel> channels;
    for (const bool messages : {false, true}) {
      for (const std::string& signature : signatures(messages))
        channels.push_back(*graph::channel_of(graph::collective_of_signature(signature)->operation));
    }
    return channels;
  }

  std::int64_t largest_bytes() const {
    std::int64_t bytes = 0;
    for (const graph::Task& task : graph_.tasks()) {
      if (!graph::is_collective(task.operation)) continue;
      for (const graph::Access& access : task.accesses)
        bytes = std::max(bytes, graph_.tensor(access.view.tensor).bytes());
    }
    return static_cast<std::int64_t>(std::ranges::max(world_.all_gather(static_cast<std::uint64_t>(bytes))));
  }

  std::vector<Site> sites_of(const std::string& signature) const {
    const graph::SignedCollective call = *graph::collective_of_signature(signature);
    const graph::Channel channel = *graph::channel_of(call.operation);
    if (!graph::is_message(channel)) return {{communicators_.on(channel), 0, call_of(call).root}};
    const std::int64_t own = graph::coordinates_of(grid_, world_.rank()).pipe;
    std::vector<Site> sites;
    for (std::int64_t stage = 0; stage < grid_.pipe; ++stage) {
      const auto rank = static_cast<int>(graph::rank_of(grid_, {.pipe = stage}));
      if (counts_.of(rank, signature) == 0) continue;
      Site site;
      if (own == graph::peer_stage(channel, stage, grid_.pipe))
        site = {communicators_.on(graph::other_end(channel)), 1, 0};
      if (own == stage) site = {communicators_.on(channel), 0, 0};
      if (site.group != nullptr) site.root = site.end == 0 ? site.group->rank() : 1 - site.group->rank();
      sites.push_back(site);
    }
    return sites;
  }

  execute::CollectiveTimes probe(const std::string& signature, const Site& site, execute::ProbeComputation& computation,
                                 int rounds) {
    comm::CollectiveCall call = call_of(*graph::collective_of_signature(signature));
    call.in = in_.data();
    call.out = out_.data();
    call.workspace = workspace_.data();
    call.root = site.root;
    std::vector<std::int32_t> table;
    if (call.table.experts > 0) {
      table = comm::even_row_table(site.group->size(), call.table.experts, call.table.rows);
      call.table.offsets = table.data();
    }
    return execute::probe_collective(world_, site.group, call, computation, rounds);
  }

  /// The greatest value on the ranks that have an end of the site.
  double greatest(const Site& site, std::size_t end, double value, double otherwise) const {
    const bool counts = site.group != nullptr && site.end == end;
    return std::ranges::max(comm::of_ranks(world_, counts ? value : otherwise));
  }

  /// The mean over the sites, which make the call one after the other.
  void measure_call(const std::string& signature, execute::ProbeComputation& product, int rounds) {
    const std::vector<Site> sites = sites_of(signature);
    const std::vector<std::string> ends = ends_of(signature);
    const auto count = static_cast<double>(sites.size());
    execute::CollectiveTimes mean;
    std::vector<double> slows_by(ends.size());
    for (const Site& site : sites) {
      const execute::CollectiveTimes times = probe(signature, site, product, rounds);
      mean.alone += times.alone / count;
      mean.beside += times.beside / count;
      for (std::size_t end = 0; end < ends.size(); ++end) {
        slows_by[end] += greatest(site, end, times.own_slows_by, 0) / count;
      }
      beside_product_.emplace(signature, times);  // of the first site
    }
    for (std::size_t end = 0; end < ends.size(); ++end) note(ends[end], mean, slows_by[end], rounds);
  }

  void note(const std::string& signature, const execute::CollectiveTimes& times, double slows_by, int rounds) {
    auto entry = std::ranges::find(profile_.entries, signature, &cost::ProfileEntry::signature);
    if (entry == profile_.entries.end()) {
      profile_.entries.push_back({.signature = signature, .ns = times.alone, .samples = rounds});
      ns_[signature] = times.alone;
      entry = std::prev(profile_.entries.end());
    }
    entry->cpu_ns = slows_by * threads_;
    entry->beside_ns = times.beside;
  }

  // ---- slowdowns

  /// Of computations or of calls. A message counts once, as its send.
  std::map<std::string_view, KindTimes> kinds(bool calls) const {
    std::map<std::string_view, KindTimes> kinds;
    for (const auto& [signature, count] : counts_.mean()) {
      const std::string_view name = kind_of_signature(signature);
      if (graph::collective_of_signature(signature).has_value() != calls || name == graph::Receive::kind) continue;
      const double ns = count * ns_.at(signature);
      KindTimes& kind = kinds[name];
      kind.ns += ns;
      if (!kind.heaviest.empty() && ns <= kind.heaviest_ns) continue;
      kind.heaviest = signature;
      kind.heaviest_ns = ns;
    }
    return kinds;
  }

  /// This rank's task of a kind whose signature takes most time; null if it has none.
  const graph::Task* heaviest_task(std::string_view kind) const {
    const graph::Task* heaviest = nullptr;
    double most = -1;
    std::map<std::string, const graph::Task*> first;
    for (const graph::Task& task : graph_.tasks()) {
      if (graph::kind_name(task.operation) == kind) first.emplace(graph::task_signature(graph_, task), &task);
    }
    for (const auto& [signature, task] : first) {
      const double ns = ns_.at(signature) * static_cast<double>(counts_.of(world_.rank(), signature));
      if (ns > most) most = ns, heaviest = task;
    }
    return heaviest;
  }

  /// Of a task of this rank, or a product where it has none.
  execute::ProbeComputation probe_of(const graph::Task* task) const {
    return task != nullptr ? execute::ProbeComputation(graph_, *task, threads_)
                           : execute::ProbeComputation::product(threads_);
  }

  void measure_slowdowns(int rounds) {
    const auto computations = kinds(false), calls = kinds(true);
    double computing = 0;
    for (const auto& [name, kind] : computations) computing += kind.ns;
    const auto matters = [&](const auto& named) { return named.second.ns >= kMatters * computing; };
    const auto total = std::ranges::count_if(computations, matters) * std::ssize(calls);
    std::int64_t done = 0;
    for (const auto& [name, kind] : computations) {
      if (total == 0 || kind.ns < kMatters * computing) continue;
      const graph::Task* const task = heaviest_task(name);
      // A rank without such tasks computes something else beside the others.
      execute::ProbeComputation computation = probe_of(task);
      for (const auto& [call, times] : calls) {
        tell_({fmt::format("{} beside {}", name, call), done++, total});
        measure_slowdown(name, task != nullptr, times.heaviest, computation, rounds);
      }
    }
  }

  /// Of a kind of computations beside a call: on the rank with the greatest factor, of those that compute and call.
  void measure_slowdown(std::string_view name, bool has_kind, const std::string& signature,
                        execute::ProbeComputation& computation, int rounds) {
    const Site site = sites_of(signature).front();
    execute::CollectiveTimes known = beside_product_.at(signature), found = probe(signature, site, computation, rounds);
    known.slows_by = known.own_slows_by;
    found.slows_by = found.own_slows_by;
    const double own = has_kind ? execute::slowdown_factor(known, found) : 1;
    const std::vector<std::string> ends = ends_of(signature);
    for (std::size_t end = 0; end < ends.size(); ++end) {
      const double factor = greatest(site, end, own, 1);
      if (factor > 1)
        profile_.slowdowns.push_back({std::string(name), std::string(kind_of_signature(ends[end])), factor});
    }
  }

  comm::World& world_;
  const graph::Grid grid_;
  const graph::Graph& graph_;
  const int threads_;
  const TellStatus tell_;
  cost::Profile& profile_;
  const SignatureCounts counts_;
  const execute::CommunicatorSet communicators_;
  const Buffer in_, out_, workspace_;
  std::unordered_map<std::string, double> ns_;                      // by signature, of the profile
  std::map<std::string, execute::CollectiveTimes> beside_product_;  // of a call at its first site
};

// ---- tasks of steps

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

bool is_collective(const cost::ProfileEntry& entry) {
  return graph::collective_of_signature(entry.signature).has_value();
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
  return over_ranks(world_, step_ns_.back()).mean;
}

void SerialSamples::write(const plan::Plan& plan, cost::Profile& profile) const {
  std::vector<cost::ProfileEntry> own = samples_.entries();
  if (!communicates_) std::erase_if(own, is_collective);
  const std::vector<cost::ProfileEntry> before = std::exchange(profile.entries, merged(world_, own));
  for (const cost::ProfileEntry& known : before) {
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
  const double rest = over_ranks(world_, cost::middle_mean(step_ns_) - communicating).mean;
  computing = over_ranks(world_, computing).mean;
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
    CollectiveBench(world, config, stage.plan(), tell_once, profile).measure(rounds);
    return profile;
  }
  PolicyBenchmark benchmark(world, run, {policy::named_policy("serial")});
  run_steps(steps, tell_once, [&](bool counts) { return counts ? samples.run(benchmark, 0) : benchmark.run(0); });
  samples.write(benchmark.plan(0), profile);
  // The remaining measurements are about the host's computing time, which collectives on a GPU don't use.
  if (!on_device) CollectiveBench(world, config, benchmark.plan(0), tell_once, profile).measure(rounds);
  return profile;
}

}  // namespace weft::train
