#include "runtime/execute/device/device_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/device_memory.h"
#include "runtime/execute/device/device_team_impl.h"

namespace weft::execute {

DeviceTeam::DeviceTeam(std::unique_ptr<Device> device, int ranks, std::optional<graph::Grid> grid,
                       const DeviceExecutorOptions& options, std::unique_ptr<DeviceTransport> transport)
    : impl_(std::make_unique<Impl>(std::move(device), ranks, grid, options, std::move(transport))) {}

DeviceTeam::~DeviceTeam() = default;

Device& DeviceTeam::device() {
  return *impl_->device;
}

std::shared_ptr<DeviceTeam> make_team(comm::World& world, const std::function<std::shared_ptr<DeviceTeam>()>& make) {
  // Ranks of one process: the first makes the team and hands its address round.
  std::shared_ptr<DeviceTeam> own;
  std::exception_ptr failure;
  if (world.rank() == 0) {
    try {
      own = make();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const void* shared = own != nullptr ? &own : nullptr;
  std::vector<std::byte> address(sizeof(void*));
  std::memcpy(address.data(), &shared, address.size());
  world.broadcast(address, 0);
  std::memcpy(&shared, address.data(), sizeof(void*));
  if (failure != nullptr) std::rethrow_exception(failure);
  if (shared == nullptr) throw comm::PeerLost("rank 0 has no device");
  std::shared_ptr<DeviceTeam> team = *static_cast<const std::shared_ptr<DeviceTeam>*>(shared);
  world.barrier();  // rank 0's stays until all have it
  return team;
}

DeviceExecutor::DeviceExecutor(std::shared_ptr<DeviceTeam> team, comm::World& world, const State& state)
    : team_(std::move(team)),
      world_(world),
      rank_(team_->impl_->transport != nullptr ? 0 : static_cast<std::size_t>(world.rank())) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const std::lock_guard lock(impl.mutex);
  DeviceTeam::Impl::Rank& rank = impl.ranks.at(rank_);
  expect_device_memory(*impl.device, {state.bytes(), 0, impl.options.memory_bytes});
  rank.world_rank = world.rank();
  rank.state = &state;
  rank.device_state = impl.device->allocate(std::max<std::int64_t>(state.bytes(), kDeviceAlignment));
}

DeviceExecutor::~DeviceExecutor() = default;

Executor::PlanHandle DeviceExecutor::load(std::shared_ptr<const plan::Plan> plan) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const std::lock_guard lock(impl.mutex);
  if (impl.prepared) throw std::logic_error("plans are loaded before the first run");
  DeviceTeam::Impl::Rank& rank = impl.ranks[rank_];
  std::vector<graph::Channel> channels;
  for (const plan::StreamPlan& stream : plan->streams) {
    if (!stream.stream.compute) channels.push_back(stream.stream.channel);
  }
  rank.channels.insert(channels.begin(), channels.end());
  std::int64_t buffers = 0;
  if (impl.transport != nullptr) {
    channels = channels_of_all(world_, channels);
    for (const graph::Channel channel : channels) impl.transport->join(channel);
    for (const graph::Channel channel : rank.channels) buffers += impl.transport->device_bytes(channel);
  }
  rank.arena_bytes = std::max(rank.arena_bytes, plan->scratch_bytes);
  count_kernel_scratch(*plan, *impl.device, rank.scratch_bytes);
  expect_device_memory(
      *impl.device, {rank.state->bytes(), rank.arena_bytes, impl.options.memory_bytes, buffers, rank.kernel_bytes()});
  rank.plans.push_back(std::make_unique<DevicePlan>());
  rank.plans.back()->plan = std::move(plan);
  rank.plans.back()->communicates = !channels.empty();
  return rank.plans.size() - 1;
}

bool DeviceExecutor::start(PlanHandle plan, std::int64_t step) {
  DeviceTeam::Impl& impl = *team_->impl_;
  auto& loaded = *impl.ranks[rank_].plans.at(plan);
  const bool alone = impl.ranks.size() == 1 || (impl.prepared && !impl.communicates(plan));
  if (loaded.runs == kSettling) loaded.long_steps = slowest_last_step(plan) > impl.options.long_step_ns;
  Started started;
  if (alone) {
    const std::lock_guard lock(impl.mutex);
    started = impl.start(plan, {rank_}, step);
  } else {
    run_for_all([&] {
      std::vector<std::size_t> all(impl.ranks.size());
      for (std::size_t r = 0; r < all.size(); ++r) all[r] = r;
      impl.started = impl.start(plan, all, step);
    });
    started = *impl.started;
  }
  under_way_.push_back({plan, alone, started.copy});
  return started.ahead;
}

void DeviceExecutor::finish() {
  DeviceTeam::Impl& impl = *team_->impl_;
  if (under_way_.empty()) throw std::logic_error("no step was started");
  const UnderWay oldest = under_way_.front();
  under_way_.pop_front();
  if (oldest.alone) {
    const std::lock_guard lock(impl.mutex);
    impl.finish(rank_);
  } else {
    run_for_all([&] { impl.finish(0); });
  }
  deliver(impl.ranks[rank_].plans[oldest.plan]->transfers.downloads, oldest.copy);
}

// Ranks with their own devices must agree on the steps that they start ahead.
std::int64_t DeviceExecutor::slowest_last_step(PlanHandle plan) const {
  const DeviceTeam::Impl& impl = *team_->impl_;
  const auto& loaded = *impl.ranks[rank_].plans[plan];
  if (impl.transport == nullptr || !loaded.communicates) return loaded.last_step_ns;
  const auto all = world_.all_gather(static_cast<std::uint64_t>(loaded.last_step_ns));
  return static_cast<std::int64_t>(std::ranges::max(all));
}

// Rank 0 runs `body` between two barriers: the other ranks have written their inputs, and don't read the team's data
// meanwhile.
void DeviceExecutor::run_for_all(const std::function<void()>& body) {
  DeviceTeam::Impl& impl = *team_->impl_;
  world_.barrier();
  if (rank_ == 0) {
    const std::lock_guard lock(impl.mutex);
    try {
      body();
    } catch (...) {
      impl.failure = std::current_exception();
    }
  }
  world_.barrier();
  if (impl.failure == nullptr) return;
  if (rank_ == 0) std::rethrow_exception(impl.failure);
  throw comm::PeerLost("rank 0, which runs the device for all ranks, has failed");
}

const plan::StepTrace& DeviceExecutor::last_trace(PlanHandle plan) const {
  const auto& loaded = *team_->impl_->ranks[rank_].plans.at(plan);
  if (loaded.traces.empty()) throw std::logic_error("no step of this plan was traced");
  return loaded.traces.back();
}

std::int64_t DeviceExecutor::last_step_ns(PlanHandle plan) const {
  return team_->impl_->ranks[rank_].plans.at(plan)->last_step_ns;
}

std::vector<plan::StepTrace> DeviceExecutor::traces(PlanHandle plan) const {
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
  return rank.arena_bytes + rank.kernel_bytes();
}

ExecutorStatus DeviceExecutor::status() const {
  return team_->impl_->watch.status();
}

std::string DeviceExecutor::describe() const {
  return fmt::format("rank {}: {}", world_.rank(), team_->impl_->watch.describe(rank_));
}

}  // namespace weft::execute
