// Collectives through pinned memory and a thread that runs them on the host; see make_staged_transport().
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

#include "base/buffer.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/transport.h"

namespace weft::execute {
namespace {

constexpr std::size_t kChannels = graph::kAxisChannels;
constexpr std::int64_t kFlagBytes = 64;  // a cache line of its own for each number that streams wait for

// Of the whole vector: all ranks' slices.
std::int64_t whole_bytes(const comm::CollectiveCall& call, int ranks) {
  return call.bytes_of(comm::full_length(call, ranks));
}

// An all_to_all has two vectors, the given one and the taken one.
std::int64_t payload_bytes(const comm::CollectiveCall& call, int ranks) {
  return whole_bytes(call, ranks) * (call.kind == comm::CollectiveKind::all_to_all ? 2 : 1);
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
  comm::Communicator* communicator = nullptr;
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

class StagedTransport final : public DeviceTransport {
 public:
  StagedTransport(comm::World& world, std::optional<graph::Grid> grid) : world_(world), grid_(grid) {}
  ~StagedTransport() override { StagedTransport::stop(); }
  StagedTransport(const StagedTransport&) = delete;
  StagedTransport& operator=(const StagedTransport&) = delete;

  std::string_view name() const override { return "staged"; }
  // The numbers that streams wait for rise with every collective, but a graph would wait for the same numbers again.
  // Between steps MPI is the caller's.
  bool needs_host() const override { return true; }
  void join(graph::Channel channel) override { communicators_.join(world_, grid_, channel); }

  void prepare(Device& device, std::span<const ChannelCalls> plans) override {
    device_ = &device;
    std::byte* const flags = device.allocate_pinned(kFlagBytes * static_cast<std::int64_t>(kChannels));
    for (std::size_t c = 0; c < kChannels; ++c) {
      Lane& lane = lanes_[c];
      lane.finished = new (flags + kFlagBytes * static_cast<std::int64_t>(c)) std::atomic<std::uint32_t>(0);
      lane.communicator = communicators_.on(static_cast<graph::Channel>(c));
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
    thread_ = std::thread([this] { run(); });
  }

  void begin_step(bool loads) override { blocks_ = loads; }

  void enqueue(Device& device, graph::Channel channel, DeviceStream stream, const comm::CollectiveCall& call) override {
    Lane& lane = lanes_[static_cast<std::size_t>(channel)];
    if (lane.events.empty())
      throw std::logic_error(fmt::format("{}: not one of the calls prepared", comm::describe(call)));
    if (call.kind == comm::CollectiveKind::exchange_rows)
      throw std::logic_error("the staged transport has no exchange_rows");
    check();
    const int rank = lane.communicator->rank(), ranks = lane.communicator->size();
    const std::int64_t bytes = call.bytes_of(call.count), whole = whole_bytes(call, ranks);
    const bool gathers = call.kind == comm::CollectiveKind::all_gather;
    const bool scatters = call.kind == comm::CollectiveKind::reduce_scatter;
    const bool exchanges = call.kind == comm::CollectiveKind::all_to_all;
    const bool broadcasts = call.kind == comm::CollectiveKind::broadcast, sends = broadcasts && call.root == rank;
    std::byte* const own_slice = lane.payload + rank * bytes;  // of a vector of as many slices as ranks
    std::byte* const given = gathers ? own_slice : lane.payload;
    std::byte* const taken = exchanges ? lane.payload + whole : scatters ? own_slice : lane.payload;
    comm::CollectiveCall staged = call;
    staged.in = call.in_place() ? nullptr : given;
    staged.out = taken;
    staged.workspace = lane.workspace.data();
    if (!broadcasts || sends) device.copy(stream, given, call.source_at(0), scatters || exchanges ? whole : bytes);
    const DeviceEvent ready = lane.events[lane.next_event++ % lane.events.size()];
    device.record(ready, stream);
    const std::uint32_t sequence = ++lane.enqueued;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) throw std::logic_error("a collective on a transport that was stopped");
      // Its event would be recorded again before the progress thread has seen the first record.
      if (lane.posted.size() == lane.events.size())
        throw std::logic_error("more collectives than a plan was said to have");
      lane.posted.push_back({staged, ready, sequence});
    }
    changed_.notify_one();
    if (blocks_) {
      for (comm::Backoff backoff; lane.finished->load(std::memory_order_acquire) != sequence; backoff.pause()) {
        check();
        device.done(ready);  // throws where the device has failed
      }
    } else {
      device.wait_value(stream, lane.finished, sequence);
    }
    auto* const out = static_cast<std::byte*>(call.out);
    if (gathers && call.in == out + rank * bytes) {  // the own slice is in place
      device.copy(stream, out, lane.payload, rank * bytes);
      device.copy(stream, out + (rank + 1) * bytes, own_slice + bytes, (ranks - rank - 1) * bytes);
    } else if (!sends) {
      device.copy(stream, out, taken, gathers || exchanges ? whole : bytes);
    }
  }

  void check() override {
    // The progress thread polls its communicators, but none may be in flight while its own device is late.
    world_.expect_peers();
    if (!failed_.load(std::memory_order_acquire)) return;
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(failure_);
  }

  void stop() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    // Peers read the pinned memory until the communicators are gone; then the streams may write there again.
    communicators_ = CommunicatorSet();
    for (Lane& lane : lanes_) {
      if (lane.finished != nullptr) lane.finished->store(lane.enqueued, std::memory_order_release);
    }
  }

 private:
  void run() {
    try {
      for (comm::Backoff backoff; wait_for_work();) {
        bool moved = false;
        for (Lane& of : lanes_) moved = advance(of) || moved;
        if (moved) {
          backoff = comm::Backoff();
        } else {
          backoff.pause();
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      failed_.store(true, std::memory_order_release);
    }
  }

  // Between steps the thread sleeps. False: it is to end.
  bool wait_for_work() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopping_ || std::ranges::any_of(lanes_, [](const Lane& of) { return !of.posted.empty(); });
    });
    return !stopping_;
  }

  // Whether the lane's first collective has begun or ended.
  bool advance(Lane& of) {
    Posted first;
    {
      const std::lock_guard lock(mutex_);
      if (of.posted.empty()) return false;
      first = of.posted.front();
    }
    const bool begins = !of.in_flight;
    if (begins) {
      if (!device_->passed(first.ready)) return false;
      of.communicator->start(first.call);
      of.in_flight = true;
    }
    if (!of.communicator->progress()) return begins;
    of.in_flight = false;
    {
      const std::lock_guard lock(mutex_);
      of.posted.pop_front();
    }
    of.finished->store(first.sequence, std::memory_order_release);
    return true;
  }

  comm::World& world_;
  std::optional<graph::Grid> grid_;
  Device* device_ = nullptr;
  CommunicatorSet communicators_;
  std::array<Lane, kChannels> lanes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool blocks_ = false;  // enqueue() waits for the collective, so that no stream has to
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<DeviceTransport> make_staged_transport(comm::World& world, std::optional<graph::Grid> grid) {
  return std::make_unique<StagedTransport>(world, grid);
}

}  // namespace weft::execute
