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

// What goes to the host and comes back, as parts of a channel's pinned memory.
struct Staging {
  std::int64_t given = 0, taken = 0;        // bytes
  std::int64_t given_at = 0, taken_at = 0;  // where they begin
  std::int64_t table = 0, table_at = 0;     // of an exchange of rows
};

Staging staging_of(const comm::CollectiveCall& call, int rank, int ranks) {
  const std::int64_t bytes = call.bytes_of(call.count), whole = whole_bytes(call, ranks), own = rank * bytes;
  switch (call.kind) {
    case comm::CollectiveKind::all_gather:
      return {.given = bytes, .taken = whole, .given_at = own};
    case comm::CollectiveKind::reduce_scatter:
      return {.given = whole, .taken = bytes, .taken_at = own};
    case comm::CollectiveKind::all_to_all:
      return {.given = whole, .taken = whole, .taken_at = whole};
    case comm::CollectiveKind::exchange_rows: {
      // Whole buffers, as only the table tells how much of them is there.
      const std::int64_t of_tokens = call.table.rows * bytes, of_experts = call.table.most * bytes;
      const std::int64_t given = call.inverse ? of_experts : of_tokens, taken = call.inverse ? of_tokens : of_experts;
      const auto table = ranks * (call.table.experts + 1) * static_cast<std::int64_t>(sizeof(std::int32_t));
      const std::int64_t taken_at = device_aligned(given);
      return {given, taken, 0, taken_at, table, taken_at + device_aligned(taken)};
    }
    case comm::CollectiveKind::all_reduce:
    case comm::CollectiveKind::broadcast:
      break;
  }
  return {.given = bytes, .taken = bytes};
}

std::int64_t payload_bytes(const comm::CollectiveCall& call, int rank, int ranks) {
  const Staging of = staging_of(call, rank, ranks);
  return std::max({of.given_at + of.given, of.taken_at + of.taken, of.table_at + of.table});
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
  std::byte* payload = nullptr;  // as staging_of() divides it
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
          payload = std::max(payload, payload_bytes(call, lane.communicator->rank(), ranks));
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
    check();
    const int rank = lane.communicator->rank();
    const Staging of = staging_of(call, rank, lane.communicator->size());
    const bool broadcasts = call.kind == comm::CollectiveKind::broadcast, sends = broadcasts && call.root == rank;
    std::byte *const given = lane.payload + of.given_at, *const taken = lane.payload + of.taken_at;
    comm::CollectiveCall staged = call;
    staged.in = call.in_place() ? nullptr : given;
    staged.out = taken;
    staged.workspace = lane.workspace.data();
    if (!broadcasts || sends) device.copy(stream, given, call.source_at(0), of.given);
    if (of.table > 0) {
      std::byte* const table = lane.payload + of.table_at;
      device.copy(stream, table, call.table.offsets, of.table);
      staged.table.offsets = reinterpret_cast<const std::int32_t*>(table);
    }
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
    if (call.kind == comm::CollectiveKind::all_gather && call.in == out + of.given_at) {  // the own slice is in place
      const std::int64_t after = of.given_at + of.given;
      device.copy(stream, out, taken, of.given_at);
      device.copy(stream, out + after, taken + after, of.taken - after);
    } else if (!sends) {
      device.copy(stream, out, taken, of.taken);
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
