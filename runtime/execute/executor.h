// The interface of executors, which run plans, for one rank and any device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"

namespace weft::comm {
class World;
}

namespace weft::execute {

class State;

/// A task that wrote a NaN or an infinity.
struct NonFiniteResult {
  graph::TaskId task;
  std::string text;  // "task 'L0.mlp.up' wrote a NaN or an infinity to 'L0.mlp.up.out' at [3, 17]"
};

/// Where an executor's steps run.
struct ExecutorPlace {
  std::string device = {};        // "NVIDIA H100 80GB HBM3"; empty: the host's processors
  std::uint64_t identity = 0;     // tells devices of all nodes apart
  std::string communicator = {};  // the transport of its collectives: "local", "staged", "nccl"
};

/// The progress of a rank's streams, which a watchdog compares.
struct ExecutorStatus {
  bool running = false;
  std::uint64_t completed = 0;  // grows with every entry that completes
};

/// One rank's plans, made ready and run. Plans share one scratch arena, so all loads come before the first run.
///
///   const auto train = executor.load(plan);
///   executor.run(train);                         // one step
///   summarize(*plan, executor.last_trace(train));
class Executor {
 public:
  using PlanHandle = std::size_t;

  virtual ~Executor() = default;

  /// Resolves every pointer of the plan and prepares its kernels.
  virtual PlanHandle load(std::shared_ptr<const plan::Plan> plan) = 0;

  /// Runs one step and waits for all of its streams, even when it throws. `step` labels the trace. Throws PeerLost or
  /// RuntimeFault when a collective fails; no run may follow.
  void run(PlanHandle plan, std::int64_t step = 0) {
    start(plan, step);
    finish();
  }

  /// The first half of run(): takes the inputs and scalars that the state holds now. True: another step may be started
  /// before finish(), so that the device has work while the host reads results.
  virtual bool start(PlanHandle plan, std::int64_t step) = 0;
  /// Waits for the oldest step that was started. From here on the state holds its results, and nothing older.
  virtual void finish() = 0;

  /// Of the last traced step that ended well; std::logic_error before the first, and when no steps are kept. Valid
  /// until the plan runs again. Not beside a run.
  virtual const plan::StepTrace& last_trace(PlanHandle plan) const = 0;
  /// Nanoseconds of the last step, traced or not.
  virtual std::int64_t last_step_ns(PlanHandle plan) const = 0;
  /// The traces kept, oldest first.
  virtual std::vector<plan::StepTrace> traces(PlanHandle plan) const = 0;

  /// The first task in program order that wrote a NaN or an infinity in the last run, if results are checked. Later
  /// tasks still run.
  virtual std::optional<NonFiniteResult> non_finite() const { return std::nullopt; }

  /// Copies the state from the host to the device, for the next run, or back. Every run copies inputs and scalars;
  /// these calls are for parameters. They do nothing if host and device share memory.
  virtual void state_to_device() {}
  virtual void state_to_host() {}
  /// The same for what steps change of parameters and optimizer state, between two steps that were finished: it goes on
  /// beside the next run, whose tasks wait before they change what hasn't left. After finish_state_to_host() the host
  /// has all of it as it was at the start. False, and nothing is begun: no step has run, or host and device share
  /// memory.
  virtual bool start_state_to_host() { return false; }
  virtual void finish_state_to_host() {}

  virtual ExecutorPlace runs_on() const { return {}; }
  /// Bytes on the device of all ranks that share it; 0 where that is the host's memory.
  virtual std::int64_t device_bytes() const { return 0; }
  /// Bytes of the scratch arena and of kernels' private scratch.
  virtual std::int64_t scratch_bytes() const = 0;

  /// Safe to call from any thread.
  virtual ExecutorStatus status() const = 0;
  /// "rank 1: compute0 waits for data to pass … before …; data: in flight …": safe to call from any thread.
  virtual std::string describe() const = 0;
};

/// The graph of the ranks at a coordinate on the axis pipe: how ranks of a pipeline get the graphs of other stages.
using GraphOfStage = std::function<std::shared_ptr<const graph::Graph>(std::int64_t pipe)>;

/// Called once, collectively over the world; the state outlives the result.
using MakeExecutor = std::function<std::unique_ptr<Executor>(comm::World& world, const State& state)>;

}  // namespace weft::execute
