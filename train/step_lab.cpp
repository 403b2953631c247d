#include "train/step_lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "graph/task_signature.h"
#include "ops/lower.h"
#include "runtime/buffer.h"
#include "runtime/collective_signature.h"
#include "train/profile_file.h"
#include "train/trainer.h"
#include "train/training_state.h"

namespace weft {
namespace {

CollectiveKind kind_of(const Operation& operation) {
  if (std::holds_alternative<AllReduce>(operation)) return CollectiveKind::all_reduce;
  if (std::holds_alternative<ReduceScatter>(operation)) return CollectiveKind::reduce_scatter;
  if (std::holds_alternative<AllGather>(operation)) return CollectiveKind::all_gather;
  return CollectiveKind::broadcast;
}

// The ranks' entries of equal signature become one: means weighted by samples.
std::vector<ProfileEntry> merged(World& world, const std::vector<ProfileEntry>& own) {
  Profile profile;
  profile.entries = own;
  const std::string text = profile_json(profile);
  std::map<std::string, ProfileEntry> all;
  for (const auto& bytes : world.all_gather_bytes(std::as_bytes(std::span(text)))) {
    const Profile other =
        parse_profile({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "a rank's profile");
    for (const ProfileEntry& entry : other.entries) {
      ProfileEntry& sum = all[entry.signature];
      sum.signature = entry.signature;
      const auto before = static_cast<double>(sum.samples), more = static_cast<double>(entry.samples);
      const auto mean = [&](double a, double b) { return (a * before + b * more) / std::max(1.0, before + more); };
      sum.ns = mean(sum.ns, entry.ns);
      sum.deviation_ns = mean(sum.deviation_ns, entry.deviation_ns);
      sum.samples += entry.samples;
    }
  }
  std::vector<ProfileEntry> entries;
  for (auto& [signature, entry] : all) entries.push_back(std::move(entry));
  return entries;
}

// So that a serial step of these costs takes as long as the measured one.
double computing_factor(const Graph& graph, const Profile& profile, double step_ns) {
  std::unordered_map<std::string_view, double> ns;
  for (const ProfileEntry& entry : profile.entries) ns.emplace(entry.signature, entry.ns);
  double computing = 0, communicating = 0;
  for (const Task& task : graph.tasks()) {
    const auto found = ns.find(task_signature(graph, task));
    if (found != ns.end()) (is_collective(task.operation) ? communicating : computing) += found->second;
  }
  return computing > 0 ? std::max(1.0, (step_ns - communicating) / computing) : 1;
}

}  // namespace

StepLab::StepLab(World& world, const RunConfig& config, const std::vector<std::string>& policies,
                 const PolicyOptions& options)
    : world_(world),
      config_(config),
      at_(coordinates_of(config.grid, world.rank())),
      specs_(model_parameters(config.model)),
      shards_(shard_parameters(config.model, specs_, config.grid, at_, config.zero1)) {
  const auto graph = lower_train(config_.model, step_config(config_));
  std::vector<ProgramGraph> graphs;
  for (const std::string& policy : policies) {
    names_.push_back(fmt::format("{}: {}", names_.size(), policy));
    graphs.push_back({names_.back(), graph, policy});
  }
  program_ = std::make_unique<Program>(world_, std::move(graphs),
                                       ProgramOptions{.policy_options = options,
                                                      .rewrites = parse_rewrites(config_.rewrites),
                                                      .grid = config_.grid,
                                                      .threads = static_cast<int>(config_.threads),
                                                      .watchdog_seconds = config_.watchdog});
  reset();
}

void StepLab::reset() {
  const State& state = program_->state();
  const auto arrays = training_arrays(state, shards_, config_.dtype);
  initialize_parameters(arrays, config_.seed);
  for (const MutableParameterState& array : arrays) {
    std::fill_n(array.m, updated_elements(array), 0.0F);
    std::fill_n(array.v, updated_elements(array), 0.0F);
  }
  write_constants(state, config_, at_);
  // Ranks that differ in x and y alone read the same tokens.
  std::mt19937_64 draw(config_.seed + static_cast<std::uint64_t>(batch_rank(config_.grid, at_)));
  const auto token = [&] {
    return static_cast<std::int32_t>(draw() % static_cast<std::uint64_t>(config_.model.vocab));
  };
  for (std::int32_t& value : state.get<std::int32_t>(names::kTokens)) value = token();
  for (std::int32_t& value : state.get<std::int32_t>(names::kTargets)) value = token();
  step_ = 0;
}

double StepLab::run(std::size_t policy) {
  write_scalars(program_->state(), config_, step_);
  world_.barrier();
  program_->run(names_.at(policy), step_++);
  const StepTrace& trace = last_trace(policy);
  // A barrier lets its ranks go within microseconds of one another: each counts from its own start.
  std::uint64_t slowest = 0;
  for (const std::uint64_t ns : world_.all_gather(static_cast<std::uint64_t>(trace.end - trace.begin))) {
    slowest = std::max(slowest, ns);
  }
  return static_cast<double>(slowest);
}

std::uint64_t StepLab::fingerprint() const {
  Fingerprint sum;
  for (const MutableParameterState& array : training_arrays(program_->state(), shards_, config_.dtype)) {
    const auto add = [&](const void* data, std::int64_t bytes) {
      sum.add_bytes(data, static_cast<std::size_t>(bytes));
    };
    add(array.data, kept_elements(array) * static_cast<std::int64_t>(size_of(array.dtype)));
    add(array.m, updated_elements(array) * 4);
    add(array.v, updated_elements(array) * 4);
    if (array.master != nullptr) add(array.master, updated_elements(array) * 4);
  }
  Fingerprint all;
  for (const std::uint64_t value : world_.all_gather(sum.value())) all.add(value);
  return all.value();
}

std::vector<StepLab::ProbedCollective> StepLab::probe(std::size_t policy, int rounds,
                                                      const std::function<void(const std::string&)>& tell) {
  const Plan& plan = this->plan(policy);
  const Graph& graph = *plan.graph;
  std::vector<Channel> channels;
  std::map<std::string, TaskId> first;  // of each signature: one order on all ranks
  std::int64_t bytes = 0;
  for (const TaskId task : plan.collectives) {
    channels.push_back(*channel_of(graph.task(task).operation));
    first.emplace(task_signature(graph, graph.task(task)), task);
    for (const Access& access : graph.task(task).accesses) {
      bytes = std::max(bytes, graph.tensor(access.view.tensor).bytes());
    }
  }
  const CommunicatorSet communicators(world_, channels, config_.grid);
  const Buffer in(bytes), out(bytes), workspace(bytes);
  std::vector<ProbedCollective> probed;
  for (const auto& [signature, task] : first) {
    tell(fmt::format("[{}/{}] {}", probed.size() + 1, first.size(), signature));
    const CollectiveSignature what = signature_of(graph, task);
    const CollectiveCall call{
        kind_of(graph.task(task).operation), what.dtype, what.count, 0, in.data(), out.data(), workspace.data()};
    probed.push_back({signature, probe_collective(world_, *communicators.on(what.channel), call,
                                                  static_cast<int>(config_.threads), rounds)});
  }
  return probed;
}

double SerialSamples::run(StepLab& lab, std::size_t policy) {
  const double ns = lab.run(policy);
  step_ns_.push_back(ns);
  samples_.add(lab.plan(policy), lab.last_trace(policy));
  return ns;
}

void SerialSamples::write(const Plan& plan, Profile& profile) const {
  const std::vector<ProfileEntry> before = std::exchange(profile.entries, merged(world_, samples_.entries()));
  for (ProfileEntry& entry : profile.entries) {
    const auto known = std::ranges::find(before, entry.signature, &ProfileEntry::signature);
    if (known == before.end()) continue;
    entry.cpu_ns = known->cpu_ns;
    entry.beside_ns = known->beside_ns;
  }
  profile.computing_factor = computing_factor(*plan.graph, profile, middle_mean(step_ns_));
}

Profile measure_profile(World& world, const RunConfig& config, int steps, int rounds,
                        const std::function<void(const std::string&)>& tell) {
  const auto tell_once = [&](const std::string& line) {
    if (world.rank() == 0) tell(line);
  };
  StepLab lab(world, config, {"serial"});
  SerialSamples samples(world);
  for (int step = -1; step < steps; ++step) {  // the first one warms up
    const double ns = step < 0 ? lab.run(0) : samples.run(lab, 0);
    tell_once(fmt::format("step {} of {}: {:.1f} ms", step + 1, steps, ns * 1e-6));
  }
  Profile profile;
  profile.machine = cpu_name();
  profile.grid = config.grid;
  profile.threads = config.threads;
  samples.write(lab.plan(0), profile);
  for (const StepLab::ProbedCollective& probed : lab.probe(0, rounds, tell_once)) {
    const auto entry = std::ranges::find(profile.entries, probed.signature, &ProfileEntry::signature);
    if (entry == profile.entries.end()) continue;
    entry->cpu_ns = probed.times.cpu;
    entry->beside_ns = probed.times.beside;
  }
  return profile;
}

}  // namespace weft
