// Runs plans on a device: one host thread enqueues the tasks of all of a process' ranks in plan order, and events on
// the device order them where the plan waits.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/execute/device/device_team.h"
#include "runtime/execute/executor.h"

namespace weft::execute {

/// One rank's view of its team. Runs of plans with collectives are collective over the world: rank 0 enqueues for all.
/// With a transport load() is collective as well, each rank enqueues its own, and a lost peer ends run() with PeerLost.
/// For a plan with collectives, start() returns the same value on all ranks.
class DeviceExecutor final : public Executor {
 public:
  /// `world` and `state` must outlive the executor. The state's tensors get their places on the device. Throws
  /// UserError if the state exceeds the rank's share of device memory; load() throws it if the state and a plan's
  /// scratch do.
  DeviceExecutor(std::shared_ptr<DeviceTeam> team, comm::World& world, const State& state);

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override;
  bool start(PlanHandle plan, std::int64_t step) override;
  void finish() override;
  const plan::StepTrace& last_trace(PlanHandle plan) const override;
  std::int64_t last_step_ns(PlanHandle plan) const override { return rank().plans.at(plan)->last_step_ns; }
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override { return rank().plans.at(plan)->traces; }
  void state_to_device() override { team_->move_state(rank_, true); }
  void state_to_host() override { team_->move_state(rank_, false); }
  ExecutorPlace runs_on() const override;
  std::int64_t device_bytes() const override { return team_->device->allocated_bytes(); }
  std::int64_t scratch_bytes() const override { return rank().arena_bytes + rank().kernel_bytes(); }
  ExecutorStatus status() const override { return team_->watch.status(); }
  std::string describe() const override;

 private:
  // A step that was started and isn't finished.
  struct UnderWay {
    PlanHandle plan;
    bool alone;
    std::size_t copy;  // of the downloads
  };
  const DeviceTeam::Rank& rank() const { return team_->ranks[rank_]; }
  std::int64_t slowest_last_step(const DevicePlan& loaded) const;
  void run_for_all(const std::function<void()>& body);

  std::shared_ptr<DeviceTeam> team_;
  comm::World& world_;
  std::size_t rank_;
  std::deque<UnderWay> under_way_;
};

}  // namespace weft::execute
