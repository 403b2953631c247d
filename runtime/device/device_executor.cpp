#include "runtime/device/device_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "runtime/device/device_memory.h"
#include "runtime/device/device_team_impl.h"

namespace weft {

DeviceTeam::DeviceTeam(std::unique_ptr<Device> device, int ranks, std::optional<Grid> grid,
                       const DeviceExecutorOptions& options, std::unique_ptr<DeviceTransport> transport)
    : impl_(std::make_unique<Impl>(std::move(device), ranks, grid, options, std::move(transport))) {}

DeviceTeam::~DeviceTeam() = default;

Device& DeviceTeam::device() {
  return *impl_->device;
}

DeviceExecutor::DeviceExecutor(std::shared_ptr<DeviceTeam> team, World& world, const State& state)
    : team_(std::move(team)),
      world_(world),
      rank_(team_->impl_->transport != nullptr ? 0 : static_cast<std::size_t>(world.rank())) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const std::lock_guard lock(impl.mutex);
  DeviceTeam::Impl::Rank& rank = impl.ranks.at(rank_);
  expect_device_memory(*impl.device, {state.bytes(), 0, impl.options.memory_bytes});
  rank.state = &state;
  rank.device_state = impl.device->allocate(std::max<std::int64_t>(state.bytes(), kDeviceAlignment));
}

DeviceExecutor::~DeviceExecutor() = default;

Executor::PlanHandle DeviceExecutor::load(std::shared_ptr<const Plan> plan) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const std::lock_guard lock(impl.mutex);
  if (impl.prepared) throw std::logic_error("plans are loaded before the first run");
  DeviceTeam::Impl::Rank& rank = impl.ranks[rank_];
  expect_device_memory(*impl.device, {rank.state->bytes(), plan->scratch_bytes, impl.options.memory_bytes});
  for (const StreamPlan& stream : plan->streams) {
    if (impl.transport != nullptr && !stream.stream.compute) impl.transport->join(stream.stream.channel);
  }
  rank.arena_bytes = std::max(rank.arena_bytes, plan->scratch_bytes);
  rank.plans.push_back(std::make_unique<DeviceTeam::Impl::LoadedPlan>());
  rank.plans.back()->plan = std::move(plan);
  return rank.plans.size() - 1;
}

void DeviceExecutor::run(PlanHandle plan, std::int64_t step) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const bool together = !impl.ranks[rank_].plans.at(plan)->plan->collectives.empty() || !impl.prepared;
  if (impl.ranks.size() == 1 || !together) {
    const std::lock_guard lock(impl.mutex);
    impl.run(plan, {rank_}, step);
    return;
  }
  world_.barrier();  // every rank has written its inputs
  if (rank_ == 0) {
    const std::lock_guard lock(impl.mutex);
    std::vector<std::size_t> all(impl.ranks.size());
    for (std::size_t r = 0; r < all.size(); ++r) all[r] = r;
    try {
      impl.run(plan, all, step);
    } catch (...) {
      impl.failure = std::current_exception();
    }
  }
  world_.barrier();
  if (impl.failure == nullptr) return;
  if (rank_ == 0) std::rethrow_exception(impl.failure);
  throw PeerLost("rank 0, which runs the device for all ranks, has failed");
}

const StepTrace& DeviceExecutor::last_trace(PlanHandle plan) const {
  const auto& loaded = *team_->impl_->ranks[rank_].plans.at(plan);
  if (loaded.traces.empty()) throw std::logic_error("no step of this plan was traced");
  return loaded.traces.back();
}

std::int64_t DeviceExecutor::last_step_ns(PlanHandle plan) const {
  return team_->impl_->ranks[rank_].plans.at(plan)->last_step_ns;
}

std::vector<StepTrace> DeviceExecutor::traces(PlanHandle plan) const {
  return team_->impl_->ranks[rank_].plans.at(plan)->traces;
}

const std::optional<NonFiniteResult>& DeviceExecutor::non_finite() const {
  return team_->impl_->ranks[rank_].non_finite;
}

void DeviceExecutor::state_to_device() {
  const std::lock_guard lock(team_->impl_->mutex);
  team_->impl_->move_state(team_->impl_->ranks[rank_], true);
}

void DeviceExecutor::state_to_host() {
  const std::lock_guard lock(team_->impl_->mutex);
  team_->impl_->move_state(team_->impl_->ranks[rank_], false);
}

ExecutorPlace DeviceExecutor::runs_on() const {
  const DeviceTeam::Impl& impl = *team_->impl_;
  return {impl.device->name(), impl.device->identity(),
          impl.transport == nullptr ? "local" : std::string(impl.transport->name())};
}

std::int64_t DeviceExecutor::scratch_bytes() const {
  const DeviceTeam::Impl::Rank& rank = team_->impl_->ranks[rank_];
  return rank.arena_bytes + rank.kernel_bytes;
}

// The watchdog's view of a step: marks, which a captured one doesn't have; it is given twice the time that the last
// took.
ExecutorStatus DeviceTeam::Impl::status() {
  if (steady_now() < replay_due_at.load()) looks_at_replay.fetch_add(1, std::memory_order_relaxed);
  return {running.load(std::memory_order_acquire),
          completed.load(std::memory_order_relaxed) + marks.passed() + looks_at_replay.load(std::memory_order_relaxed)};
}

std::string DeviceTeam::Impl::describe(std::size_t rank) {
  if (!running.load(std::memory_order_acquire)) return "between steps";
  const double seconds = static_cast<double>(steady_now() - begun_at.load()) * 1e-9;
  std::string text = fmt::format("the device is running a step, for {:.1f} s", seconds);
  if (replay_due_at.load() != 0) return text + ", as one captured graph";
  const std::string streams = marks.describe(rank);
  return streams.empty() ? text : text + "; " + streams;
}

ExecutorStatus DeviceExecutor::status() const {
  return team_->impl_->status();
}

std::string DeviceExecutor::describe() const {
  return fmt::format("rank {}: {}", world_.rank(), team_->impl_->describe(rank_));
}

}  // namespace weft
