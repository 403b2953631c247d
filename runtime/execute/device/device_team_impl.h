// The data of a team of ranks on one device, for the files of its implementation: device_team.cpp makes plans ready,
// device_step.cpp runs them, device_executor.cpp has the public interface.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/device/device_collectives.h"
#include "runtime/execute/device/device_executor.h"
#include "runtime/execute/device/device_plan.h"
#include "runtime/execute/device/step_watch.h"

namespace weft::execute {

constexpr std::int64_t kSettling = 2;  // number of a plan's runs after which its time is known

/// start()'s result.
struct Started {
  std::size_t copy = 0;  // of the downloads, where its results will be
  bool ahead = false;    // the device hasn't ended the step yet
};

struct DeviceTeam::Impl {
  static constexpr std::size_t kChannels = graph::kAxisChannels;

  static constexpr std::size_t kMostUnderWay = kTransferCopies;

  // A step that was started and isn't finished.
  struct UnderWay {
    std::size_t plan = 0;
    std::vector<std::size_t> ranks;
    std::uint64_t number = 0;  // among the steps that its first rank leads
    std::int64_t begin = 0;    // when the host came to it, steady nanoseconds
    bool follows = false;      // it was enqueued while the one before was under way
    std::int64_t ns = 0;       // how long it took, once it is awaited

    std::size_t copy() const { return number % kMostUnderWay; }  // of its transfers
  };

  struct Rank {
    int world_rank = 0;
    const State* state = nullptr;
    std::byte* device_state = nullptr;
    std::byte* arena = nullptr;
    std::vector<std::unique_ptr<DevicePlan>> plans;
    std::set<graph::Channel> channels;  // of the plans
    std::vector<DeviceStream> compute;
    std::vector<DeviceStream> channel = std::vector<DeviceStream>(kChannels);
    std::vector<std::byte*> scratch;          // of each compute stream
    std::vector<std::int64_t> scratch_bytes;  // the same, known when a plan is loaded
    std::vector<DeviceEvent> events;          // events that order entries, reused by every plan
    std::vector<DeviceEvent> mark_events;     // the same
    std::vector<DeviceEvent> timed_events;    // two an entry
    std::vector<DeviceEvent> stream_ends;
    std::int64_t arena_bytes = 0;
    std::optional<NonFiniteResult> non_finite;
    // For the steps that this rank leads, its own or those of all ranks:
    DeviceStream inputs, results;                          // copies to the device and back
    DeviceEvent uploaded;                                  // the inputs of the step that is enqueued
    std::array<DeviceEvent, kMostUnderWay + 1> end_times;  // of the last ones, by number
    std::array<DeviceEvent, kMostUnderWay> delivered;      // their results, by copy
    std::deque<UnderWay> under_way;
    std::uint64_t begun = 0;

    std::int64_t kernel_bytes() const {
      std::int64_t sum = 0;
      for (const std::int64_t bytes : scratch_bytes) sum += device_aligned(bytes);
      return sum;
    }
    DeviceEvent end_of(std::uint64_t step) const { return end_times[step % end_times.size()]; }
  };

  // Ranks of this team that do a channel's collectives together. Messages have a group for each sender.
  struct Group {
    std::vector<std::size_t> members;
    DeviceGroup on_device;
    std::size_t arrived = 0;  // number of members that have come to the next collective
  };

  // The content of one captured graph: one plan on some ranks.
  struct Captured {
    std::size_t plan = 0;
    std::vector<std::size_t> ranks;
    DeviceGraph graph;
  };

  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceTransport> transport;  // null: the ranks of this team are all there are
  std::vector<ChannelCalls> calls;             // the plans' calls of it
  std::optional<graph::Grid> grid;
  DeviceExecutorOptions options;
  std::vector<Rank> ranks;
  std::vector<Group> groups;
  std::vector<std::vector<std::size_t>> group_of;  // [channel][rank]: index among the groups; empty: not used
  std::vector<Captured> captured;
  DeviceStream state_stream;
  DeviceEvent step_begin, step_begin_time;
  std::optional<Started> started;  // by the last start(), for the ranks that it was made for
  bool prepared = false;
  std::mutex mutex;  // the device is one thread's at a time
  std::exception_ptr failure;
  StepWatch watch;

  Impl(std::unique_ptr<Device> d, int count, std::optional<graph::Grid> g, const DeviceExecutorOptions& o,
       std::unique_ptr<DeviceTransport> t);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Whether all ranks run the plan together; the same on all of them once all have loaded theirs.
  bool communicates(std::size_t plan) const {
    return std::ranges::any_of(
        ranks, [&](const Rank& rank) { return plan < rank.plans.size() && rank.plans[plan]->communicates; });
  }

  // Making ready: device_team.cpp.
  DeviceStream stream_of(Rank& rank, std::size_t index, const plan::Stream& stream, std::size_t compute_index);
  DeviceStream device_stream(const Rank& rank, const plan::Plan& plan, plan::StreamId id) const;
  std::byte* place(const Rank& rank, const plan::Plan& plan, const graph::View& view) const;
  void prepare_plan(Rank& rank, DevicePlan& loaded);
  void prepare();
  void add_groups(graph::Channel channel);
  void add_group(const std::vector<std::pair<graph::Channel, std::size_t>>& ends);

  // Running: device_step.cpp.
  Started start(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step);
  Started enqueue_step(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step);
  void enqueue_uploads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::size_t copy);
  void enqueue_downloads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, const UnderWay& step);
  void await(UnderWay& step);
  void finish(std::size_t leader);
  void enqueue(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed);
  void before(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void after(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void enqueue_tasks(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed);
  void launch(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void launch_collective(std::size_t plan_index, std::size_t i, bool timed);
  void launch_collective(std::size_t plan_index, Group& group, std::span<const std::size_t> next, bool timed);
  DeviceGraph graph_of(std::size_t plan_index, const std::vector<std::size_t>& of_ranks);
  void destroy_graphs();
  void await_after_failure(DeviceStream stream) noexcept;
  void give_up(const std::exception_ptr& failure);
  void move_state(const Rank& rank, bool to_device);
};

}  // namespace weft::execute
