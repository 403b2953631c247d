// Times of GPUs: steps of equal tasks and of equal collectives on the executor that training uses, which enqueues them
// ahead of the device, so that a task costs the longer of the host's time and the device's.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/median.h"
#include "graph/analysis.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"
#include "runtime/execute/tuning/gemm_trials.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "train/measure/equal_tasks.h"
#include "train/measure/machine_timer.h"
#include "train/measure/rank_clock.h"
#include "train/step/device_choice.h"

namespace weft::train {
namespace {

using comm::CollectiveKind;

using SharedGraphs = std::vector<std::shared_ptr<const graph::Graph>>;

/// Graphs on this rank's GPU, each with a plan of its own. Collective over the world, which must outlive them.
class GraphsOnGpu {
 public:
  GraphsOnGpu(comm::World& world, const RunConfig& config, SharedGraphs graphs, const char* policy)
      : graphs_(std::move(graphs)), state_(graphs_) {
    for (const auto& graph : graphs_) {
      for (const graph::Tensor& tensor : graph->tensors()) {
        const std::int64_t elements = tensor.elements();
        execute::fill_with_small_numbers({state_.data(tensor.name), 1, elements, elements, tensor.dtype});
      }
    }
    executor_ = executor_of(config)(world, state_);
    const policy::NamedPolicy named = policy::named_policy(policy);
    for (const auto& graph : graphs_) {
      plans_.push_back(std::make_shared<const plan::Plan>(policy::compile_plan(graph, *named.policy)));
      handles_.push_back(executor_->load(plans_.back()));
    }
    executor_->state_to_device();
  }

  void run(std::size_t graph) { executor_->run(handles_[graph]); }

  /// Seconds between the begin of the first computation and the end of the last one in the last step, if it was traced.
  double computing_seconds(std::size_t graph) const {
    const plan::StepTrace& trace = executor_->last_trace(handles_[graph]);
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (std::size_t stream = 0; stream < trace.times.size(); ++stream) {
      if (!plans_[graph]->streams[stream].stream.compute) continue;
      for (const plan::TaskTime& time : trace.times[stream]) {
        begin = std::min(begin, time.begin);
        end = std::max(end, time.end);
      }
    }
    return static_cast<double>(std::max<std::int64_t>(end - begin, 1)) * 1e-9;
  }

 private:
  const SharedGraphs graphs_;
  const execute::State state_;
  std::vector<std::shared_ptr<const plan::Plan>> plans_;
  std::unique_ptr<execute::Executor> executor_;
  std::vector<execute::Executor::PlanHandle> handles_;
};

graph::Operation operation_of(const TimedCollective& collective, std::int64_t ranks) {
  constexpr graph::Channel kChannel = cost::RankGroups::kChannel;
  const std::int64_t part = part_of_array(collective.bytes, ranks);
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return graph::AllReduce{kChannel, ranks, part * ranks};
    case CollectiveKind::reduce_scatter:
      return graph::ReduceScatter{kChannel, ranks, part};
    case CollectiveKind::all_gather:
      return graph::AllGather{kChannel, ranks, part};
    case CollectiveKind::all_to_all:  // machine files have neither
    case CollectiveKind::exchange_rows:
    case CollectiveKind::broadcast:
      break;
  }
  return graph::Broadcast{kChannel, ranks, part * ranks, 0};
}

/// So many tasks that a step lasts about `seconds`, if each lasts about `each`.
std::int64_t tasks_of(double seconds, double each) {
  constexpr double kMost = 256;
  return static_cast<std::int64_t>(std::clamp(seconds / each, 1.0, kMost));
}

class GpuTimer final : public MachineTimer {
 public:
  GpuTimer(comm::World& world, const MachineSizes& sizes)
      : world_(world), sizes_(sizes), clock_(world, sizes.repeats, sizes.least_seconds) {
    execute::expect_cuda_device();
    const Surroundings found = surroundings_of(world);
    if (found.own_device_each()) return;
    throw UserError(fmt::format("{} ranks and {} GPU{}", found.ranks, found.devices, found.devices == 1 ? "" : "s"),
                    "a GPU for each rank, since a machine file describes one for each",
                    found.launched != Launched::as_threads ? "mpirun with as many processes a node as it has GPUs"
                                                           : fmt::format("--ranks {}", found.devices));
  }

  void describe(cost::Machine& machine) override {
    const std::unique_ptr<execute::Device> device = execute::make_cuda_device(device_of(world_));
    machine.source = fmt::format("weft machine measure on {}: {} ranks", device->name(), world_.size());
    machine.cores = 1;
    machine.memory_bytes = static_cast<double>(device->memory().total);
    machine.provenance.push_back({"device.memory-bytes", device->name() + " tells it", "measured", 0});
  }

  double start_seconds(std::int64_t tasks) override {
    GraphsOnGpu graphs = on_gpu({shortest_step(), graph_of({graph::Add{1}, DType::f32, tasks, "add"})});
    start_ = seconds_each(graphs, 1, tasks, &RankClock::seconds);
    return start_;
  }

  double task_seconds(const graph::Operation& operation, DType dtype) override {
    const graph::Work work = graph::work_of(operation, static_cast<double>(size_of(dtype)));
    const std::int64_t tasks = tasks_of(sizes_.least_seconds, guessed_seconds(work, dtype));
    GraphsOnGpu graphs = on_gpu({shortest_step(), graph_of({operation, dtype, tasks, "task"})});
    const double each = seconds_each(graphs, 1, tasks, &RankClock::seconds);
    // The sum with the start counts in a step. The host may take longer to start a short task than the device to run
    // it.
    return std::max(each - start_, each / 10);
  }

  std::vector<double> collective_seconds(const cost::RankGroups& groups, std::span<const TimedCollective> collectives,
                                         const std::function<void(std::size_t)>& before) override {
    std::int64_t elements = 0;
    for (const TimedCollective& each : collectives) {
      elements = std::max(elements, part_of_array(each.bytes, groups.ranks) * groups.ranks);
    }
    SharedGraphs graphs = {shortest_step()};
    std::vector<std::int64_t> tasks;
    for (const TimedCollective& each : collectives) {
      // Groups with other sizes have as many collectives, so that none outlasts the largest.
      const double most_bytes = over_ranks(world_, static_cast<double>(each.bytes)).greatest;
      tasks.push_back(tasks_of(sizes_.least_seconds, kSecondsOfCollective + most_bytes / 1e11));
      graphs.push_back(graph_of({operation_of(each, groups.ranks), DType::f32, tasks.back(), "array", elements}));
    }
    GraphsOnGpu loaded(world_, config_of(groups, kNoTraces), std::move(graphs), "serial");
    std::vector<double> seconds;
    for (std::size_t i = 0; i < collectives.size(); ++i) {
      before(i);
      seconds.push_back(seconds_each(loaded, i + 1, tasks[i], &RankClock::slowest_seconds));
    }
    return seconds;
  }

  CostsBeside costs_beside(const cost::RankGroups& groups, std::int64_t bytes, std::int64_t elements,
                           const std::function<void(const std::string&)>& tell) override {
    const TimedCollective sum{CollectiveKind::all_reduce, bytes};
    const double communicating = collective_seconds(groups, std::span(&sum, 1), [](std::size_t) {}).front();
    const std::int64_t n = sizes_.product_beside;
    CostsBeside costs;
    const auto add = [&](const graph::Operation& operation, DType dtype) {
      const double factor = slowdown(operation, dtype, groups, sum, communicating);
      if (factor > 1) costs.slowdowns.push_back({std::string(kind_name(operation)), "all_reduce", factor});
    };
    tell("a product");
    add(graph::Gemm{.m = n, .n = n, .k = n}, DType::bf16);
    tell("an addition");
    add(graph::Add{elements}, DType::f32);
    costs.slowdown_source =
        fmt::format("computations beside all_reduce of {} bytes over {} ranks, by traced steps", bytes, groups.ranks);
    return costs;
  }

 private:
  static constexpr std::int64_t kNoTraces = std::int64_t{1} << 40;  // but of a plan's first two steps

  static std::shared_ptr<const graph::Graph> shortest_step() {
    return graph_of({graph::Add{1}, DType::f32, 1, "shortest"});
  }

  // These guesses only choose how many tasks a step has.
  static double guessed_seconds(const graph::Work& work, DType dtype) {
    return 1e-6 + work.flops / (dtype == DType::bf16 ? 4e14 : 4e13) + work.bytes / 3e12;
  }
  static constexpr double kSecondsOfCollective = 2e-5;

  RunConfig config_of(const cost::RankGroups& groups, std::int64_t trace_every) const {
    RunConfig config;
    config.device = DeviceKind::cuda;
    config.ranks = world_.size();
    config.grid = groups.grid(world_.size());
    // Ranks have a GPU each, and one rank alone has nobody to send to.
    config.communicator = world_.size() == 1 ? CommunicatorKind::automatic : CommunicatorKind::nccl;
    config.trace_every = trace_every;
    return config;
  }

  GraphsOnGpu on_gpu(SharedGraphs graphs) {
    return {world_, config_of({1, 1}, kNoTraces), std::move(graphs), "serial"};
  }

  /// Of one of a step's tasks: without the time that a step of one short task takes, which is in the first graph.
  double seconds_each(GraphsOnGpu& graphs, std::size_t graph, std::int64_t tasks,
                      double (RankClock::*seconds)(const std::function<void()>&)) {
    const double shortest = (clock_.*seconds)([&] { graphs.run(0); });
    const double step = (clock_.*seconds)([&] { graphs.run(graph); });
    return std::max(step - shortest, step / 20) / static_cast<double>(tasks);
  }

  /// How many times as long computations take while all-reduces run.
  double slowdown(const graph::Operation& operation, DType dtype, const cost::RankGroups& groups,
                  const TimedCollective& sum, double communicating) {
    constexpr std::int64_t kMost = 64;
    // The collectives outlast the computations, also if they slow them down to less than half of their speed.
    constexpr double kLonger = 2.5;
    const double computing = task_seconds(operation, dtype) + start_;
    const auto sums =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(kLonger * computing / communicating) + 1, 4, kMost);
    const auto tasks = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(sums) * communicating / computing / kLonger), 1, kMost);
    const EqualTasks computations{operation, dtype, tasks, "task"};
    graph::GraphBuilder both;
    // The collectives are enqueued first.
    add_equal_tasks(both, {operation_of(sum, groups.ranks), DType::f32, sums, "array"});
    add_equal_tasks(both, computations);
    GraphsOnGpu graphs(world_, config_of(groups, 1),
                       {graph_of(computations), std::make_shared<const graph::Graph>(std::move(both).build())},
                       "program");
    std::vector<double> alone, beside;
    for (int round = 0; round < sizes_.rounds_beside + 1; ++round) {
      graphs.run(0);
      graphs.run(1);
      if (round == 0) continue;  // it loads kernels
      alone.push_back(graphs.computing_seconds(0));
      beside.push_back(graphs.computing_seconds(1));
    }
    return over_ranks(world_, median(beside) / median(alone)).mean;
  }

  comm::World& world_;
  const MachineSizes& sizes_;
  RankClock clock_;
  double start_ = 0;
};

}  // namespace

std::unique_ptr<MachineTimer> make_gpu_timer(comm::World& world, const MachineSizes& sizes) {
  return std::make_unique<GpuTimer>(world, sizes);
}

}  // namespace weft::train
