#include "runtime/execute/cpu/collective_probe.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/median.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/tuning/gemm_trials.h"

namespace weft::execute {
namespace {

using Clock = std::chrono::steady_clock;

// A compute thread polls the network between chunks of its task once this time has passed, as in the executor.
constexpr std::chrono::microseconds kPollInterval(100);

// Least total time of the collectives in one run of the computation, approximately.
constexpr double kLeastSeconds = 40e-3;

// Ratio of the computation's time to that of the collectives beside it.
constexpr double kLonger = 1.5;

// On shared machines, rates measured minutes apart differ by this share.
constexpr double kNoise = 0.1;
// Least plausible rate of a computation: below it, the measurement only shows the wait of the last chunk.
constexpr double kLeastRate = 0.1;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Runs the computation `times` times and returns the seconds. Calls `progress` between its chunks, and after them
/// until it returns true.
template <class Progress>
double run(ProbeComputation& computation, std::int64_t times, const Progress& progress) {
  bool done = false;
  const Clock::time_point begin = Clock::now();
  Clock::time_point last = begin;
  computation.set_progress_hook([&] {
    if (done || Clock::now() - last < kPollInterval) return;
    done = progress();
    last = Clock::now();
  });
  for (std::int64_t i = 0; i < times; ++i) computation.run();
  computation.set_progress_hook({});
  const double seconds = since(begin);
  for (comm::Backoff backoff; !done; backoff.pause()) done = progress();
  return seconds;
}

class Probe {
 public:
  Probe(comm::World& world, comm::Communicator* group, const comm::CollectiveCall& call, ProbeComputation& computation)
      : world_(world), group_(group), call_(call), computation_(computation) {}

  CollectiveTimes measure(int rounds) {
    const auto compute = [&] {
      if (group_ != nullptr) computation_.run();
    };
    const auto communicate = [&] {
      if (group_ != nullptr) comm::run_blocking(*group_, call_);
    };
    compute();                           // touches its memory
    slowest(from_barrier(communicate));  // the first one opens connections
    const double first = slowest(from_barrier(communicate)), once = slowest(from_barrier(compute));
    // Short collectives run several times in a row, as in a step; disturbances would dominate the time of a single one.
    const auto repeats = static_cast<int>(std::clamp(std::max(kLeastSeconds, once / kLonger) / first, 1.0, 64.0));
    const std::int64_t times = 1 + static_cast<std::int64_t>(kLonger * first * repeats / once);
    std::vector<double> alone, beside;
    // Disturbances only lengthen a run, so the least time counts; `own`: of this rank, else of the slowest one.
    double computing = std::numeric_limits<double>::infinity(), together = computing;
    double own_computing = computing, own_together = computing;
    for (int round = 0; round < rounds; ++round) {
      const auto [finished, slowed] = beside_computation(repeats, times);
      beside.push_back(slowest(finished) / repeats);
      own_together = std::min(own_together, slowed);
      together = std::min(together, slowest(slowed));
      const double undisturbed = from_barrier([&] {
        if (group_ != nullptr) run(computation_, times, [] { return true; });
      });
      own_computing = std::min(own_computing, undisturbed);
      computing = std::min(computing, slowest(undisturbed));
      alone.push_back(slowest(from_barrier(communicate)));
    }
    // Collectives that outlast the computation slowed it only during a part of their time.
    const auto slows_by = [&](double with, double without) {
      const double part = std::clamp(with / (median(beside) * repeats), 0.1, 1.0);
      return 1e9 * std::max(0.0, with - without) / repeats / part;
    };
    return {median(alone) * 1e9, median(beside) * 1e9, slows_by(together, computing),
            slows_by(own_together, own_computing)};
  }

 private:
  struct Beside {
    double finished = 0;  // seconds until the last collective ended
    double slowed = 0;    // seconds of the computations
  };
  Beside beside_computation(int repeats, std::int64_t times) {
    world_.barrier();
    if (group_ == nullptr) return {};
    const Clock::time_point begin = Clock::now();
    Beside result;
    int ended = 0;
    group_->start(call_);
    result.slowed = run(computation_, times, [&] {
      while (group_->progress()) {
        if (++ended == repeats) {
          result.finished = since(begin);
          return true;
        }
        group_->start(call_);
      }
      return false;
    });
    return result;
  }

  double slowest(double value) { return std::ranges::max(comm::of_ranks(world_, value)); }

  template <class Function>
  double from_barrier(const Function& function) {
    world_.barrier();
    const Clock::time_point begin = Clock::now();
    function();
    return since(begin);
  }

  comm::World& world_;
  comm::Communicator* group_;
  comm::CollectiveCall call_;
  ProbeComputation& computation_;
};

}  // namespace

ProbeComputation::ProbeComputation(const graph::Graph& graph, const graph::Task& task, int threads)
    : workers_(std::make_unique<cpu::Workers>(threads)) {
  std::map<graph::TensorId, std::byte*> begin;
  std::vector<cpu::Matrix> arguments;
  for (const graph::Access& access : task.accesses) {
    const graph::TensorId tensor = access.view.tensor;
    const auto [found, is_new] = begin.try_emplace(tensor, nullptr);
    if (is_new) found->second = memory_.emplace_back(graph.tensor(tensor).bytes()).data();
    arguments.push_back(matrix_of(graph, access.view, found->second));
    const DType dtype = arguments.back().dtype;
    if (dtype == DType::f32 || dtype == DType::bf16) fill_with_small_numbers(arguments.back());
  }
  task_.emplace(task.operation, arguments);
  workers_->reserve(task_->scratch());
}

ProbeComputation ProbeComputation::product(int threads) {
  constexpr std::int64_t kSize = 512;
  graph::GraphBuilder builder;
  const auto matrix = [&](const char* name) {
    return graph::whole(builder, builder.add_tensor({name, DType::f32, {kSize, kSize}, graph::Role::parameter}));
  };
  const graph::Gemm product{.m = kSize, .n = kSize, .k = kSize, .trans_b = true};
  const graph::TaskId task = builder.add_task(
      {"product", product, {graph::read(matrix("a")), graph::read(matrix("b")), graph::write(matrix("c"))}});
  const graph::Graph graph = std::move(builder).build();
  return {graph, graph.task(task), threads};
}

CollectiveTimes probe_collective(comm::World& world, comm::Communicator* group, const comm::CollectiveCall& call,
                                 ProbeComputation& computation, int rounds) {
  return Probe(world, group, call, computation).measure(rounds);
}

double slowdown_factor(const CollectiveTimes& product, const CollectiveTimes& task) {
  const auto rate = [](const CollectiveTimes& times) {
    return times.beside > 0 ? std::max(kLeastRate, 1 - times.slows_by / times.beside) : 1;
  };
  const double factor = rate(product) / rate(task);
  return factor < 1 + kNoise ? 1 : factor;
}

}  // namespace weft::execute
