#include "runtime/execute/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/execute/cpu/shared_cores.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
#include "runtime/execute/program/agree_on_plan.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::execute {
namespace {

// Seconds that other ranks get to report where they are stuck before the first reporter ends the run.
constexpr double kReportGrace = 2;

State state_of(const std::vector<ProgramGraph>& graphs) {
  std::vector<std::shared_ptr<const graph::Graph>> shared;
  for (const ProgramGraph& graph : graphs) shared.push_back(graph.graph);
  return State(shared);
}

}  // namespace

Program::Program(comm::World& world, std::vector<ProgramGraph> graphs, const ProgramOptions& options)
    : world_(world), check_finite_(options.check_finite), state_(state_of(graphs)) {
  policy::PolicyOptions policy_options = options.policy_options;
  policy_options.weight_layouts = &cpu_weight_layouts();
  const std::shared_ptr<const policy::Policy> usual = options.policy ? options.policy : policy::default_policy();
  std::vector<graph::Channel> channels;
  if (options.grid && options.grid->ranks() != world.size()) throw std::logic_error("a grid of other ranks");
  for (ProgramGraph& graph : graphs) {
    const policy::Policy& policy = graph.policy ? *graph.policy : *usual;
    auto plan = agree_on_plan(world, {graph.graph, options.grid, graph.of_stage}, policy, policy_options,
                              options.gemm_tuning.get(), options.rewrites);
    for (const graph::Channel channel : channels_of(*plan)) channels.push_back(channel);
    Log(LogTopic::plan, world.rank())
        .debug("{} by policy {}: fingerprint {:016x}, {} bytes of tensors in {} of scratch", graph.name, plan->policy,
               plan->fingerprint, plan->sum_of_tensor_bytes, plan->scratch_bytes);
    entries_.push_back({std::move(graph.name), std::move(plan), 0});
  }
  if (options.bind_cores) binding_ = options.bind_cores(world);
  if (options.make_executor) {
    executor_ = options.make_executor(world, state_);
  } else {
    const std::vector<cost::CorePool> pools = shared_cores(world, options.threads);
    executor_ = make_cpu_executor(state_, CommunicatorSet(world, channels_of_all(world, channels), options.grid),
                                  CpuExecutorOptions{.rank = world.rank(),
                                                     .threads = options.threads,
                                                     .kept_steps = options.kept_steps,
                                                     .check_finite = options.check_finite,
                                                     .gemm_tuning = options.gemm_tuning,
                                                     .shares_cores = are_shared(pools, world.rank())});
  }
  for (Entry& entry : entries_) entry.handle = executor_->load(entry.plan);
  if (options.watchdog_seconds > 0) {
    // Between steps nothing has to move: a counter of its own keeps the watchdog quiet.
    const auto progress = [executor = executor_.get(), idle = std::uint64_t{0}]() mutable {
      const ExecutorStatus status = executor->status();
      return status.running ? status.completed : ++idle;
    };
    watchdog_ = std::make_unique<Watchdog>(
        options.watchdog_seconds, progress,
        report_and_exit([executor = executor_.get()] { return executor->describe(); }, world, kReportGrace));
  }
}

bool Program::start(std::string_view name, std::int64_t step) {
  const Entry& found = entry(name);
  const bool ahead = executor_->start(found.handle, step);
  started_.push_back({&found, step});
  return ahead;
}

void Program::finish() {
  if (started_.empty()) throw std::logic_error("no step was started");
  const Started oldest = started_.front();
  started_.pop_front();
  executor_->finish();
  if (check_finite_) refuse_non_finite(*oldest.entry, oldest.step);
}

void Program::refuse_non_finite(const Entry& of, std::int64_t step) {
  const std::optional<NonFiniteResult> found = executor_->non_finite();
  // Graphs without collectives may run on one rank alone.
  if (!of.plan->collectives.empty()) {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    const auto tasks = world_.all_gather(found ? found->task.index() : kNone);
    const auto first = std::ranges::min_element(tasks);
    if (*first == kNone) return;
    if (first - tasks.begin() != world_.rank()) world_.barrier();  // until that rank has ended the run
  }
  if (found) throw RuntimeFault(fmt::format("{}, step {}: {}", of.name, step, found->text));
}

const Program::Entry& Program::entry(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  if (found == entries_.end()) throw std::logic_error(fmt::format("the program has no graph '{}'", name));
  return *found;
}

}  // namespace weft::execute
