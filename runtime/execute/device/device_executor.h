// Runs plans on a device: one host thread enqueues the tasks of all of a process' ranks in plan order, and events on
// the device order them where the plan waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/device/device.h"
#include "runtime/execute/device/transport.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/state.h"

namespace weft::execute {

struct DeviceExecutorOptions {
  std::int64_t kept_steps = 1;    // traces kept of each plan
  std::int64_t trace_every = 16;  // one step in this many is traced, with an event before and after each task
  std::int64_t memory_bytes = 0;  // limit of device memory for each rank; 0: all that is free
  bool graphs = false;            // replay a step that isn't traced as one graph
  double release_seconds = 30;    // for the device to end what it has begun, after a failure
  // If a plan's second step takes longer, its steps get marks for the watchdog and aren't started ahead.
  std::int64_t long_step_ns = 100'000'000;
};

/// The ranks of one process that share a device. Each keeps its state and its scratch arena there; collectives and
/// messages between them are copies. Ranks of one pipeline stage have the same plans, others their own. A step ends
/// when all streams of all ranks have ended, so steps don't overlap on the device. The next step may be enqueued
/// earlier, so that the host reads results while it runs.
///
///   auto team = std::make_shared<DeviceTeam>(make_cuda_device(0), grid, 2, options);
///   DeviceExecutor executor(team, world, state);     // on each rank's thread
///   const auto train = executor.load(plan);
///   executor.run(train);
class DeviceTeam {
 public:
  /// `grid`: the process groups of the ranks; without it, every channel is the world. With a `transport`, every rank of
  /// the world has its own team of one rank.
  DeviceTeam(std::unique_ptr<Device> device, int ranks, std::optional<graph::Grid> grid,
             const DeviceExecutorOptions& options, std::unique_ptr<DeviceTransport> transport = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  Device& device();

 private:
  friend class DeviceExecutor;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Makes a team once for all ranks of a local world; every rank calls it and gets the same one.
std::shared_ptr<DeviceTeam> make_team(comm::World& world, const std::function<std::shared_ptr<DeviceTeam>()>& make);

/// One rank's view of its team. Runs of plans with collectives are collective over the world: rank 0 enqueues for all.
/// With a transport load() is collective as well, each rank enqueues its own, and a lost peer ends run() with PeerLost.
/// For a plan with collectives, start() returns the same value on all ranks.
class DeviceExecutor final : public Executor {
 public:
  /// `world` and `state` must outlive the executor. The state's tensors get their places on the device. Throws
  /// UserError if the state exceeds the rank's share of device memory; load() throws it if the state and a plan's
  /// scratch do.
  DeviceExecutor(std::shared_ptr<DeviceTeam> team, comm::World& world, const State& state);
  ~DeviceExecutor() override;

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override;
  bool start(PlanHandle plan, std::int64_t step) override;
  void finish() override;
  const plan::StepTrace& last_trace(PlanHandle plan) const override;
  std::int64_t last_step_ns(PlanHandle plan) const override;
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override;
  const std::optional<NonFiniteResult>& non_finite() const override;
  void state_to_device() override;
  void state_to_host() override;
  ExecutorPlace runs_on() const override;
  std::int64_t device_bytes() const override { return team_->device().allocated_bytes(); }
  std::int64_t scratch_bytes() const override;
  ExecutorStatus status() const override;
  std::string describe() const override;

 private:
  // A step that was started and isn't finished.
  struct UnderWay {
    PlanHandle plan;
    bool alone;
    std::size_t copy;  // of the downloads
  };
  std::int64_t slowest_last_step(PlanHandle plan) const;
  void run_for_all(const std::function<void()>& body);

  std::shared_ptr<DeviceTeam> team_;
  comm::World& world_;
  std::size_t rank_;
  std::deque<UnderWay> under_way_;
};

}  // namespace weft::execute
