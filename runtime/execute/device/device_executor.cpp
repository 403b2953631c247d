// The executor of one rank on a device. One host thread enqueues the tasks of all ranks of a process in plan order, and
// events on the device order the tasks where the plan waits.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <exception>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/device_memory.h"
#include "runtime/execute/device/device_team.h"

namespace weft::execute {
namespace {

class DeviceExecutor final : public Executor {
 public:
  DeviceExecutor(std::shared_ptr<DeviceTeam> team, comm::World& world, const State& state)
      : team_(std::move(team)),
        world_(world),
        rank_(team_->transport != nullptr ? 0 : static_cast<std::size_t>(world.rank())) {
    const std::lock_guard lock(team_->mutex);
    DeviceTeam::Rank& rank = team_->ranks.at(rank_);
    expect_device_memory(*team_->device, {state.bytes(), 0, team_->options.memory_bytes});
    rank.world_rank = world.rank();
    rank.memory.state = &state;
    rank.memory.of_state = team_->allocate(state.bytes());
  }

  PlanHandle load(std::shared_ptr<const plan::Plan> plan) override {
    const std::lock_guard lock(team_->mutex);
    if (team_->prepared) throw std::logic_error("plans are loaded before the first run");
    DeviceTeam::Rank& rank = team_->ranks[rank_];
    std::vector<graph::Channel> channels = channels_of(*plan);
    rank.channels.insert(channels.begin(), channels.end());
    std::int64_t buffers = 0;
    if (team_->transport != nullptr) {
      channels = channels_of_all(world_, channels);
      for (const graph::Channel channel : channels) team_->transport->join(channel);
      for (const graph::Channel channel : rank.channels) buffers += team_->transport->device_bytes(channel);
      if (team_->transport->sends_segments())
        rank.segments_bytes = std::max(rank.segments_bytes, row_segments_bytes(*plan));
      buffers += rank.segments_bytes;
    }
    rank.arena_bytes = std::max(rank.arena_bytes, plan->scratch_bytes);
    count_kernel_scratch(*plan, *team_->device, rank.scratch_bytes);
    expect_device_memory(*team_->device, {rank.memory.state->bytes(), rank.arena_bytes, team_->options.memory_bytes,
                                          buffers, rank.kernel_bytes()});
    rank.plans.push_back(std::make_unique<DevicePlan>());
    rank.plans.back()->plan = std::move(plan);
    rank.plans.back()->communicates = !channels.empty();
    return rank.plans.size() - 1;
  }

  bool start(PlanHandle plan, std::int64_t step) override {
    DevicePlan& loaded = *team_->ranks[rank_].plans.at(plan);
    const bool alone = team_->ranks.size() == 1 || (team_->prepared && !team_->communicates(plan));
    if (loaded.runs == kSettling) loaded.long_steps = slowest_last_step(loaded) > team_->options.long_step_ns;
    Started started;
    if (alone) {
      const std::lock_guard lock(team_->mutex);
      started = team_->start({plan, {rank_}}, step);
    } else {
      run_for_all([&] {
        std::vector<std::size_t> all(team_->ranks.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        team_->started = team_->start({plan, all}, step);
      });
      started = *team_->started;
    }
    under_way_.push_back({plan, alone, started.copy});
    return started.ahead;
  }

  void finish() override {
    if (under_way_.empty()) throw std::logic_error("no step was started");
    const UnderWay oldest = under_way_.front();
    under_way_.pop_front();
    if (oldest.alone) {
      const std::lock_guard lock(team_->mutex);
      team_->finish(rank_);
    } else {
      run_for_all([&] { team_->finish(0); });
    }
    const DevicePlan& loaded = *rank().plans[oldest.plan];
    deliver(loaded.transfers.downloads, oldest.copy);
    non_finite_ = loaded.finite.first(*loaded.plan);
  }

  const plan::StepTrace& last_trace(PlanHandle plan) const override {
    const DevicePlan& loaded = *rank().plans.at(plan);
    if (loaded.traces.empty()) throw std::logic_error("no step of this plan was traced");
    return loaded.traces.back();
  }

  std::int64_t last_step_ns(PlanHandle plan) const override { return rank().plans.at(plan)->last_step_ns; }
  std::vector<plan::StepTrace> traces(PlanHandle plan) const override { return rank().plans.at(plan)->traces; }
  void state_to_device() override { team_->move_state(rank_, true); }
  void state_to_host() override { team_->move_state(rank_, false); }
  bool start_state_to_host() override { return team_->start_state(rank_); }
  void finish_state_to_host() override { team_->finish_state(rank_); }
  ExecutorPlace runs_on() const override {
    return {team_->device->name(), team_->device->identity(),
            team_->transport == nullptr ? "local" : std::string(team_->transport->name())};
  }

  std::optional<NonFiniteResult> non_finite() const override { return non_finite_; }
  std::int64_t device_bytes() const override { return team_->device->allocated_bytes(); }
  std::int64_t scratch_bytes() const override { return rank().arena_bytes + rank().kernel_bytes(); }
  ExecutorStatus status() const override { return team_->watch.status(); }
  std::string describe() const override {
    return fmt::format("rank {}: {}", world_.rank(), team_->watch.describe(rank_));
  }

 private:
  // A step that was started and isn't finished.
  struct UnderWay {
    PlanHandle plan;
    bool alone;
    std::size_t copy;  // of the downloads
  };

  const DeviceTeam::Rank& rank() const { return team_->ranks[rank_]; }

  // Ranks with their own devices must agree on the steps that they start ahead.
  std::int64_t slowest_last_step(const DevicePlan& loaded) const {
    if (team_->transport == nullptr || !loaded.communicates) return loaded.last_step_ns;
    const auto all = world_.all_gather(static_cast<std::uint64_t>(loaded.last_step_ns));
    return static_cast<std::int64_t>(std::ranges::max(all));
  }

  // Rank 0 runs `body` between two barriers: the other ranks have written their inputs, and don't read the team's data
  // meanwhile.
  void run_for_all(const std::function<void()>& body) {
    world_.barrier();
    if (rank_ == 0) {
      const std::lock_guard lock(team_->mutex);
      try {
        body();
      } catch (...) {
        team_->failure = std::current_exception();
      }
    }
    world_.barrier();
    if (team_->failure == nullptr) return;
    if (rank_ == 0) std::rethrow_exception(team_->failure);
    throw comm::PeerLost("rank 0, which runs the device for all ranks, has failed");
  }

  std::shared_ptr<DeviceTeam> team_;
  comm::World& world_;
  std::size_t rank_;
  std::deque<UnderWay> under_way_;
  std::optional<NonFiniteResult> non_finite_;  // of the last step that was finished
};

}  // namespace

std::unique_ptr<Executor> make_device_executor(std::shared_ptr<DeviceTeam> team, comm::World& world,
                                               const State& state) {
  return std::make_unique<DeviceExecutor>(std::move(team), world, state);
}

}  // namespace weft::execute
