#include "runtime/execute/device/staged_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/buffer.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/slices.h"
#include "runtime/execute/channel_groups.h"

namespace weft::execute {
namespace {

constexpr std::size_t kChannels = graph::kAxisChannels;
constexpr std::int64_t kFlagBytes = 64;  // a cache line of its own for each number that streams wait for

// Of the whole vector: all ranks' slices.
std::int64_t payload_bytes(const comm::CollectiveCall& call, int ranks) {
  return call.bytes_of(comm::full_length(call, ranks));
}

// Every other rank's contribution to the own slice.
std::int64_t workspace_bytes(const comm::CollectiveCall& call, int ranks) {
  return call.sums() ? call.bytes_of((ranks - 1) * comm::slice_length(call, ranks)) : 0;
}

// A collective that the progress thread has to do.
struct Posted {
  comm::CollectiveCall call;  // addresses are pinned memory
  DeviceEvent ready;          // passes when the rank's data are there
  std::uint32_t sequence = 0;
};

// One channel.
struct Lane {
  std::unique_ptr<comm::Communicator> communicator;
  std::byte* payload = nullptr;  // the whole vector; slices are in place
  Buffer workspace;
  std::atomic<std::uint32_t>* finished = nullptr;  // in pinned memory: collectives that are complete
  // The thread that enqueues:
  std::vector<DeviceEvent> events;  // one for each collective of a step
  std::size_t next_event = 0;
  std::uint32_t enqueued = 0;
  // Under the mutex:
  std::deque<Posted> posted;  // the first one may be in flight
  // The progress thread:
  bool in_flight = false;
};

}  // namespace

struct StagedTransport::Impl {
  comm::World& world;
  std::optional<graph::Grid> grid;
  Device* device = nullptr;
  std::array<Lane, kChannels> lanes;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  bool blocks = false;  // enqueue() waits for the collective, so that no stream has to
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  std::thread thread;

  Impl(comm::World& w, std::optional<graph::Grid> g) : world(w), grid(g) {}

  Lane& lane(graph::Channel channel) { return lanes[static_cast<std::size_t>(channel)]; }

  void run() {
    try {
      for (comm::Backoff backoff; wait_for_work();) {
        bool moved = false;
        for (Lane& of : lanes) moved = advance(of) || moved;
        if (moved) {
          backoff = comm::Backoff();
        } else {
          backoff.pause();
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      failed.store(true, std::memory_order_release);
    }
  }

  // Between steps the thread sleeps. False: it is to end.
  bool wait_for_work() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      return stopping || std::ranges::any_of(lanes, [](const Lane& of) { return !of.posted.empty(); });
    });
    return !stopping;
  }

  // Whether the lane's first collective has begun or ended.
  bool advance(Lane& of) {
    Posted first;
    {
      const std::lock_guard lock(mutex);
      if (of.posted.empty()) return false;
      first = of.posted.front();
    }
    const bool begins = !of.in_flight;
    if (begins) {
      if (!device->passed(first.ready)) return false;
      of.communicator->start(first.call);
      of.in_flight = true;
    }
    if (!of.communicator->progress()) return begins;
    of.in_flight = false;
    {
      const std::lock_guard lock(mutex);
      of.posted.pop_front();
    }
    of.finished->store(first.sequence, std::memory_order_release);
    return true;
  }
};

StagedTransport::StagedTransport(comm::World& world, std::optional<graph::Grid> grid)
    : impl_(std::make_unique<Impl>(world, grid)) {}

StagedTransport::~StagedTransport() {
  stop();
}

void StagedTransport::join(graph::Channel channel) {
  if (impl_->lane(channel).communicator != nullptr) return;
  for (const GroupSplit& split : splits_of(impl_->grid, channel, impl_->world.rank())) {
    auto group = impl_->world.split(split.color);
    if (split.channel) impl_->lane(*split.channel).communicator = std::move(group);
  }
}

void StagedTransport::prepare(Device& device, std::span<const ChannelCalls> plans) {
  impl_->device = &device;
  std::byte* const flags = device.allocate_pinned(kFlagBytes * static_cast<std::int64_t>(kChannels));
  for (std::size_t c = 0; c < kChannels; ++c) {
    Lane& lane = impl_->lanes[c];
    lane.finished = new (flags + kFlagBytes * static_cast<std::int64_t>(c)) std::atomic<std::uint32_t>(0);
    if (lane.communicator == nullptr) continue;
    const int ranks = lane.communicator->size();
    std::int64_t payload = kFlagBytes, workspace = kFlagBytes;
    std::size_t calls = 0;
    for (const ChannelCalls& plan : plans) {
      if (static_cast<std::size_t>(plan.channel) != c) continue;
      calls = std::max(calls, plan.calls.size());
      for (const comm::CollectiveCall& call : plan.calls) {
        payload = std::max(payload, payload_bytes(call, ranks));
        workspace = std::max(workspace, workspace_bytes(call, ranks));
      }
    }
    lane.payload = device.allocate_pinned(payload);
    lane.workspace = Buffer(workspace);
    while (lane.events.size() < calls) lane.events.push_back(device.add_event(false));
  }
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void StagedTransport::begin_step(bool loads) {
  impl_->blocks = loads;
}

void StagedTransport::enqueue(Device& device, graph::Channel channel, DeviceStream stream,
                              const comm::CollectiveCall& call) {
  Lane& lane = impl_->lane(channel);
  if (lane.events.empty())
    throw std::logic_error(fmt::format("{}: not one of the calls prepared", comm::describe(call)));
  check();
  const int rank = lane.communicator->rank(), ranks = lane.communicator->size();
  const std::int64_t bytes = call.bytes_of(call.count), whole = payload_bytes(call, ranks);
  std::byte* const own_slice = lane.payload + rank * bytes;  // of a vector of as many slices as ranks
  comm::CollectiveCall staged = call;
  staged.out = lane.payload;
  staged.workspace = lane.workspace.data();
  switch (call.kind) {
    case comm::CollectiveKind::all_reduce:
      device.copy(stream, lane.payload, call.out, bytes);
      break;
    case comm::CollectiveKind::reduce_scatter:
      device.copy(stream, lane.payload, call.in, whole);
      staged.in = lane.payload;
      staged.out = own_slice;
      break;
    case comm::CollectiveKind::all_gather:
      device.copy(stream, own_slice, call.in, bytes);
      staged.in = own_slice;
      break;
    case comm::CollectiveKind::broadcast:
      if (call.root == rank) device.copy(stream, lane.payload, call.out, bytes);
      break;
  }
  const DeviceEvent ready = lane.events[lane.next_event++ % lane.events.size()];
  device.record(ready, stream);
  const std::uint32_t sequence = ++lane.enqueued;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) throw std::logic_error("a collective on a transport that was stopped");
    // Its event would be recorded again before the progress thread has seen the first record.
    if (lane.posted.size() == lane.events.size())
      throw std::logic_error("more collectives than a plan was said to have");
    lane.posted.push_back({staged, ready, sequence});
  }
  impl_->changed.notify_one();
  if (impl_->blocks) {
    for (comm::Backoff backoff; lane.finished->load(std::memory_order_acquire) != sequence; backoff.pause()) {
      check();
      device.done(ready);  // throws where the device has failed
    }
  } else {
    device.wait_value(stream, lane.finished, sequence);
  }
  auto* const out = static_cast<std::byte*>(call.out);
  switch (call.kind) {
    case comm::CollectiveKind::all_reduce:
      device.copy(stream, out, lane.payload, bytes);
      break;
    case comm::CollectiveKind::reduce_scatter:
      device.copy(stream, out, own_slice, bytes);
      break;
    case comm::CollectiveKind::all_gather:
      if (call.in == out + rank * bytes) {  // the own slice is in place
        device.copy(stream, out, lane.payload, rank * bytes);
        device.copy(stream, out + (rank + 1) * bytes, own_slice + bytes, (ranks - rank - 1) * bytes);
      } else {
        device.copy(stream, out, lane.payload, whole);
      }
      break;
    case comm::CollectiveKind::broadcast:
      if (call.root != rank) device.copy(stream, out, lane.payload, bytes);
      break;
  }
}

void StagedTransport::check() {
  // The progress thread polls its communicators, but none may be in flight while its own device is late.
  impl_->world.expect_peers();
  if (!impl_->failed.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(impl_->mutex);
  std::rethrow_exception(impl_->failure);
}

void StagedTransport::stop() noexcept {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_one();
  if (impl_->thread.joinable()) impl_->thread.join();
  // Peers read the pinned memory until the communicators are gone; then the streams may write there again.
  for (Lane& lane : impl_->lanes) lane.communicator.reset();
  for (Lane& lane : impl_->lanes) {
    if (lane.finished != nullptr) lane.finished->store(lane.enqueued, std::memory_order_release);
  }
}

}  // namespace weft::execute
