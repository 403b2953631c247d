// Times of CPUs: kernels that executors call, on a rank's threads, and collectives on the world's communicators.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/buffer.h"
#include "graph/analysis.h"
#include "runtime/comm/local.h"
#include "runtime/cost/profile.h"
#include "runtime/execute/cpu/collective_probe.h"
#include "runtime/execute/cpu/cpu_executor.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "train/measure/equal_tasks.h"
#include "train/measure/machine_timer.h"
#include "train/measure/rank_clock.h"

namespace weft::train {
namespace {

using comm::CollectiveKind;

/// This rank's end of collectives on all groups, whose arrays have at most `most_bytes`.
class GroupMember {
 public:
  GroupMember(comm::World& world, const cost::RankGroups& groups, std::int64_t most_bytes)
      : groups_(groups),
        in_(2 * most_bytes + 4096),
        out_(2 * most_bytes + 4096),
        workspace_(2 * most_bytes + 4096),
        ranks_(world.split(static_cast<int>(
            graph::group_color(groups.grid(world.size()), cost::RankGroups::kChannel, world.rank())))) {}

  comm::Communicator& ranks() { return *ranks_; }

  comm::CollectiveCall call(const TimedCollective& collective) {
    const CollectiveKind kind = collective.kind;
    const bool whole = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
    const std::int64_t part = part_of_array(collective.bytes, groups_.ranks);
    return {kind, DType::f32, whole ? part * groups_.ranks : part, 0, in_.data(), out_.data(), workspace_.data()};
  }

 private:
  const cost::RankGroups groups_;
  const Buffer in_, out_, workspace_;  // outlive the communicator
  const std::unique_ptr<comm::Communicator> ranks_;
};

class CpuTimer final : public MachineTimer {
 public:
  CpuTimer(comm::World& world, const MachineSizes& sizes, int threads)
      : world_(world), sizes_(sizes), threads_(threads), clock_(world, sizes.repeats, sizes.least_seconds) {}

  void describe(cost::Machine& machine) override {
    machine.source =
        fmt::format("weft machine measure on {}: {} ranks of {} threads", cost::cpu_name(), world_.size(), threads_);
    machine.cores = threads_;
    machine.provenance.push_back({"device.cores", "the threads of a rank", "given", 0});
    machine.shared_cores = true;
    machine.memory_bytes = std::floor(machine_memory_bytes() / world_.ranks_on_node());
    machine.provenance.push_back(
        {"device.memory-bytes", "the system's memory, divided by the ranks of a node", "measured", 0});
  }

  double start_seconds(std::int64_t tasks) override {
    const auto graph = graph_of({graph::Add{1}, DType::f32, tasks});
    const auto plan =
        std::make_shared<const plan::Plan>(policy::compile_plan(graph, *policy::named_policy("serial").policy));
    const std::unique_ptr<comm::World> alone = std::move(comm::make_local_worlds(1).front());
    const execute::State state(std::array{graph});
    const auto executor =
        execute::make_cpu_executor(state, execute::CommunicatorSet(*alone, {}), {.threads = threads_});
    const auto loaded = executor->load(plan);
    return clock_.seconds([&] { executor->run(loaded); }) / static_cast<double>(tasks);
  }

  double task_seconds(const graph::Operation& operation, DType dtype) override {
    const auto graph = graph_of({operation, dtype});
    execute::ProbeComputation task(*graph, graph->tasks().front(), threads_);
    return clock_.seconds([&] { task.run(); });
  }

  std::vector<double> collective_seconds(const cost::RankGroups& groups, std::span<const TimedCollective> collectives,
                                         const std::function<void(std::size_t)>& before) override {
    std::int64_t most = 0;
    for (const TimedCollective& each : collectives) most = std::max(most, each.bytes);
    GroupMember member(world_, groups, most);
    std::vector<double> seconds;
    for (const TimedCollective& each : collectives) {
      before(seconds.size());
      const comm::CollectiveCall call = member.call(each);
      seconds.push_back(clock_.slowest_seconds([&] { comm::run_blocking(member.ranks(), call); }));
    }
    return seconds;
  }

  CostsBeside costs_beside(const cost::RankGroups& groups, std::int64_t bytes, std::int64_t elements,
                           const std::function<void(const std::string&)>& tell) override {
    GroupMember member(world_, groups, bytes);
    const comm::CollectiveCall call = member.call({CollectiveKind::all_reduce, bytes});
    tell("a product");
    execute::ProbeComputation product = execute::ProbeComputation::product(threads_);
    const auto times_beside = [&](execute::ProbeComputation& computation) {
      return execute::probe_collective(world_, &member.ranks(), call, computation, sizes_.rounds_beside);
    };
    const execute::CollectiveTimes known = times_beside(product);
    CostsBeside costs;
    const graph::AllReduce sum{graph::Channel::world, groups.ranks, call.count};
    costs.transport_cpu = known.slows_by * 1e-9 * threads_ / sum.work(kCollectiveElementBytes).network_bytes;
    const double share = known.beside > 0 ? known.slows_by / known.beside : 0;
    costs.transport_source = fmt::format("all_reduce of {} bytes takes {:.0f} % of a product's time beside it",
                                         call.count * kCollectiveElementBytes, 100 * std::clamp(share, 0.0, 1.0));
    tell("an addition");
    const auto graph = graph_of({graph::Add{elements}});
    execute::ProbeComputation addition(*graph, graph->tasks().front(), threads_);
    const double factor = execute::slowdown_factor(known, times_beside(addition));
    if (factor > 1)
      costs.slowdowns.push_back({std::string(graph::Add::kind), std::string(graph::AllReduce::kind), factor});
    costs.slowdown_source = "beyond the core time of transport.cpu";
    return costs;
  }

 private:
  comm::World& world_;
  const MachineSizes& sizes_;
  const int threads_;
  RankClock clock_;
};

}  // namespace

std::int64_t part_of_array(std::int64_t bytes, std::int64_t ranks) {
  return std::max<std::int64_t>(1, bytes / kCollectiveElementBytes / ranks);
}

std::unique_ptr<MachineTimer> make_cpu_timer(comm::World& world, const MachineSizes& sizes, int threads) {
  return std::make_unique<CpuTimer>(world, sizes, threads);
}

}  // namespace weft::train
