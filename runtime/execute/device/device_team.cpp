// Making the plans of a team ready: streams, places in memory, tasks, events, and tasks that run as one.
#include "runtime/execute/device/device_team.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "graph/grid.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/task_arguments.h"
#include "runtime/execute/watchdog.h"

namespace weft::execute {
namespace {

constexpr std::size_t kTasksToAMark = 4;

}  // namespace

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
  const auto addresses = world.all_gather(std::bit_cast<std::uintptr_t>(own != nullptr ? &own : nullptr));
  if (failure != nullptr) std::rethrow_exception(failure);
  if (addresses.front() == 0) throw comm::PeerLost("rank 0 has no device");
  std::shared_ptr<DeviceTeam> team = *std::bit_cast<const std::shared_ptr<DeviceTeam>*>(addresses.front());
  world.barrier();  // rank 0's stays until all have it
  return team;
}

DeviceTeam::DeviceTeam(std::unique_ptr<Device> shared, int count, std::optional<graph::Grid> of_ranks,
                       const DeviceExecutorOptions& chosen, std::unique_ptr<DeviceTransport> between)
    : device(std::move(shared)),
      transport(std::move(between)),
      grid(of_ranks),
      options(chosen),
      ranks(static_cast<std::size_t>(count)),
      group_of(kChannels),
      state_pieces(*device),
      watch(*device) {
  if (transport != nullptr && count != 1) throw std::logic_error("a transport is one rank's");
  if (transport != nullptr && options.graphs && transport->needs_host()) {
    throw std::logic_error(fmt::format("{} collectives in a graph", transport->name()));
  }
  step_begin = device->add_event(false);
  step_begin_time = device->add_event(true);
}

// A transport's communicators must outlive the graphs that hold its collectives, and the device the tasks. The end of
// either waits for the device.
DeviceTeam::~DeviceTeam() {
  const Watchdog limit = exit_after(
      options.release_seconds,
      fmt::format("rank {}: the device's end took over {:g} s", ranks.front().world_rank, options.release_seconds));
  destroy_graphs();
  ranks.clear();
  transport.reset();
  device.reset();
}

void DeviceTeam::add_stream(std::size_t rank, const plan::Plan& plan, plan::StreamId id) {
  const plan::Stream& stream = plan.streams[id.index()].stream;
  Rank& of = ranks[rank];
  if (stream.compute && id.index() == of.compute.size()) of.compute.emplace_back();
  DeviceStream& added = of.stream(plan, id);
  if (added.valid()) return;
  added = device->add_stream(fmt::format("rank{}.{}", rank, stream.name),
                             stream.compute ? StreamPriority::normal : StreamPriority::high);
  watch.add_stream(added, rank, stream.name);
}

std::byte* DeviceTeam::allocate(std::int64_t bytes) {
  bytes = std::max(bytes, kDeviceAlignment);
  return transport != nullptr ? transport->allocate(*device, bytes) : device->allocate(bytes);
}

void DeviceTeam::prepare_plan(Rank& rank, DevicePlan& loaded) {
  const plan::Plan& plan = *loaded.plan;
  std::vector<std::vector<DeviceEvent>> event_of(plan.streams.size());
  std::size_t used = 0, marked = 0;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) event_of[s].resize(plan.streams[s].entries.size());
  const std::size_t first_channel = calls.size();
  for (std::size_t c = 0; c < kChannels; ++c) calls.push_back({static_cast<graph::Channel>(c), {}});
  for (const plan::StreamPlan& stream : plan.streams) {
    for (const plan::Entry& entry : stream.entries) {
      for (const plan::Wait& wait : entry.waits) {
        DeviceEvent& event = event_of[wait.stream.index()][wait.entry];
        if (wait.distance > 0 || event.valid()) continue;  // steps don't overlap
        if (used == rank.events.size()) rank.events.push_back(device->add_event(false));
        event = rank.events[used++];
      }
    }
  }
  for (const graph::TaskId id : plan.sequence) {
    const plan::Position at = plan.position[id.index()];
    const plan::StreamPlan& stream = plan.streams[at.stream.index()];
    const graph::Task& task = plan.graph->task(id);
    DeviceStep step;
    step.stream = at.stream;
    step.entry = at.entry;
    std::vector<cpu::Matrix> arguments = rank.memory.arguments(plan, task);
    if (stream.stream.compute) {
      step.touches = touches_of(task, arguments);
      step.task = device->prepare(task, std::move(arguments), rank.scratch[at.stream.index()]);
    } else {
      const graph::Channel channel = stream.stream.channel;
      const int place = graph::is_message(channel) ? place_in_pair(grid.value(), channel, rank.world_rank) : 0;
      step.call = collective_call(task, arguments, place);
      step.touches = touches_of(task, arguments);
      calls[first_channel + static_cast<std::size_t>(channel)].calls.push_back(step.call);
    }
    for (const plan::Wait& wait : stream.entries[at.entry].waits) {
      if (wait.distance == 0) step.waits.push_back(event_of[wait.stream.index()][wait.entry]);
    }
    step.signal = event_of[at.stream.index()][at.entry];
    if (!step.signal.valid() && (step.task == nullptr || loaded.steps.size() % kTasksToAMark == 0)) {
      if (marked == rank.mark_events.size()) rank.mark_events.push_back(device->add_event(false));
      step.mark = rank.mark_events[marked++];
    }
    loaded.steps.push_back(std::move(step));
  }
  if (options.check_finite) add_finite_checks(loaded, rank.memory, *device);
  loaded.transfers = find_transfers(*plan.graph, *rank.memory.state, rank.memory.of_state, *device, &loaded.finite);
  if (transport != nullptr && options.group_gathers) group_gathers(loaded);
  fuse_horizontally(loaded, *device);
}

void DeviceTeam::prepare() {
  for (std::size_t index = 0; index < ranks.size(); ++index) {
    Rank& rank = ranks[index];
    if (rank.memory.state == nullptr) throw std::logic_error("every rank of a team joins it before the first run");
    rank.memory.arena = allocate(rank.arena_bytes);
    for (const std::int64_t bytes : rank.scratch_bytes) {
      rank.scratch.push_back(device->allocate(std::max<std::int64_t>(device_aligned(bytes), kDeviceAlignment)));
    }
    std::size_t most_entries = 0, most_streams = 0;
    for (auto& loaded : rank.plans) {
      const plan::Plan& plan = *loaded->plan;
      for (std::size_t s = 0; s < plan.streams.size(); ++s) {
        add_stream(index, plan, plan::StreamId(s));
        if (!plan.streams[s].stream.compute) add_groups(plan.streams[s].stream.channel);
      }
      most_entries = std::max(most_entries, plan.sequence.size());
      most_streams = std::max(most_streams, plan.streams.size());
      prepare_plan(rank, *loaded);
    }
    rank.state_parts = find_state_parts(rank.plans, rank.memory, options.state_piece_bytes);
    if (options.kept_steps > 0) {
      for (std::size_t i = 0; i < 2 * most_entries; ++i) rank.timed_events.push_back(device->add_event(true));
    }
    for (std::size_t i = 0; i < most_streams; ++i) rank.stream_ends.push_back(device->add_event(false));
    rank.inputs = device->add_stream(fmt::format("rank{}.inputs", index), StreamPriority::normal);
    rank.results = device->add_stream(fmt::format("rank{}.results", index), StreamPriority::normal);
    rank.uploaded = device->add_event(false);
    for (DeviceEvent& end : rank.end_times) end = device->add_event(true);
    for (DeviceEvent& delivered : rank.delivered) delivered = device->add_event(false);
  }
  if (transport != nullptr) transport->prepare(*device, calls);
  device->settle();
  prepared = true;
}

// The members of a group, each by its end of it, in the group's order.
void DeviceTeam::add_group(const std::vector<std::pair<graph::Channel, std::size_t>>& ends) {
  Group& group = groups.emplace_back();
  for (const auto& [channel, rank] : ends) {
    std::vector<std::size_t>& of_rank = group_of[static_cast<std::size_t>(channel)];
    of_rank.resize(ranks.size());
    of_rank[rank] = groups.size() - 1;
    group.members.push_back(rank);
  }
  if (transport == nullptr) group.on_device.emplace(*device, ends.size());
}

// Of a message channel those of both ends: each rank's as a sender, and so its as a receiver. With a transport, this
// rank alone stands for its group.
void DeviceTeam::add_groups(graph::Channel channel) {
  if (!group_of[static_cast<std::size_t>(channel)].empty()) return;
  std::vector<std::pair<graph::Channel, std::size_t>> ends;
  if (transport == nullptr && graph::is_message(channel)) {
    const graph::Channel send = is_send(channel) ? channel : graph::other_end(channel);
    for (std::size_t sender = 0; sender < ranks.size(); ++sender) {
      const auto receiver =
          static_cast<std::size_t>(graph::peer_rank(grid.value(), send, static_cast<std::int64_t>(sender)));
      ends = {{send, sender}, {graph::other_end(send), receiver}};
      if (receiver < sender) std::swap(ends.front(), ends.back());  // as place_in_pair() numbers them
      add_group(ends);
    }
  } else if (transport == nullptr && grid) {
    for (const std::vector<std::int64_t>& group : graph::groups_of(*grid, channel)) {
      ends.clear();
      for (const std::int64_t rank : group) ends.emplace_back(channel, static_cast<std::size_t>(rank));
      add_group(ends);
    }
  } else {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) ends.emplace_back(channel, rank);
    add_group(ends);
  }
}

}  // namespace weft::execute
