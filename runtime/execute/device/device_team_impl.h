// What a team of ranks on one device holds, for the files that make it up: device_team.cpp makes plans ready,
// device_step.cpp runs them, device_executor.cpp is what others see of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/execute/device/device_collectives.h"
#include "runtime/execute/device/device_executor.h"
#include "runtime/execute/device/horizontal_fusion.h"
#include "runtime/execute/device/step_marks.h"
#include "runtime/execute/device/transfers.h"

namespace weft {

constexpr std::int64_t kSettling = 2;  // runs of a plan until one knows how long it takes

std::int64_t steady_now();

/// An entry of a plan, ready to be enqueued.
struct DeviceStep {
  StreamId stream;
  std::uint32_t entry = 0;
  std::unique_ptr<DeviceTask> task;  // of a computation
  CollectiveCall call{};             // of a collective
  std::vector<DeviceEvent> waits;
  DeviceEvent signal;          // invalid: no other stream waits
  DeviceEvent mark;            // stands behind a task without a signal, so that one sees how far a long step is
  std::vector<Touch> touches;  // of a computation, while the plan is prepared
  // Of tasks side by side on a stream that the device runs as one: the first has the fused task, whose part the others
  // are.
  std::unique_ptr<DeviceTask> fused;
  DeviceEvent fused_signal;  // of the last of them
  bool part_of_fused = false;
};

/// What start() tells of a step.
struct Started {
  std::size_t copy = 0;  // of the downloads, where its results will be
  bool ahead = false;    // the device has yet to come to its end
};

struct DeviceTeam::Impl {
  static constexpr std::size_t kChannels = static_cast<std::size_t>(Channel::world) + 1;

  struct LoadedPlan {
    std::shared_ptr<const Plan> plan;
    std::vector<DeviceStep> steps;  // in the plan's sequence
    Transfers transfers;
    std::vector<StepTrace> traces;  // the kept ones, oldest first
    std::int64_t runs = 0, last_step_ns = 0;
    bool long_steps = false;           // settled behind the second run
    std::array<bool, 2> has_run = {};  // with every kernel launched: not timed, timed
  };

  static constexpr std::size_t kMostUnderWay = kTransferCopies;

  // A step that was started and isn't finished.
  struct UnderWay {
    std::size_t plan = 0;
    std::vector<std::size_t> ranks;
    std::uint64_t number = 0;  // of those that its first rank leads
    std::int64_t begin = 0;    // when the host came to it, steady nanoseconds
    bool follows = false;      // it was enqueued while the one before was under way
    std::int64_t ns = 0;       // how long it took, once it is awaited

    std::size_t copy() const { return number % kMostUnderWay; }  // of its transfers
  };

  struct Rank {
    const State* state = nullptr;
    std::byte* device_state = nullptr;
    std::byte* arena = nullptr;
    std::vector<std::unique_ptr<LoadedPlan>> plans;
    std::vector<DeviceStream> compute;
    std::vector<DeviceStream> channel = std::vector<DeviceStream>(kChannels);
    std::vector<std::byte*> scratch;  // of each compute stream
    std::vector<std::int64_t> scratch_bytes;
    std::vector<DeviceEvent> events;        // those that order entries; every plan uses them again
    std::vector<DeviceEvent> mark_events;   // the same
    std::vector<DeviceEvent> timed_events;  // two an entry
    std::vector<DeviceEvent> stream_ends;
    std::int64_t arena_bytes = 0, kernel_bytes = 0;
    std::optional<NonFiniteResult> non_finite;
    // Of the steps that this rank leads, its own or those of all ranks:
    DeviceStream inputs, results;                          // copies to the device and back
    DeviceEvent uploaded;                                  // the inputs of the step that is enqueued
    std::array<DeviceEvent, kMostUnderWay + 1> end_times;  // of the last ones, by number
    std::array<DeviceEvent, kMostUnderWay> delivered;      // their results, by copy
    std::deque<UnderWay> under_way;
    std::uint64_t begun = 0;

    DeviceEvent end_of(std::uint64_t step) const { return end_times[step % end_times.size()]; }
  };

  // What one graph replays: the same plan of some ranks.
  struct Captured {
    std::size_t plan = 0;
    std::vector<std::size_t> ranks;
    DeviceGraph graph;
  };

  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceTransport> transport;  // null: the ranks of this team are all there are
  std::vector<ChannelCalls> calls;             // what the plans ask of it
  std::optional<Grid> grid;
  DeviceExecutorOptions options;
  std::vector<Rank> ranks;
  std::vector<std::vector<std::unique_ptr<DeviceGroup>>> groups;  // [channel][group]
  std::vector<std::vector<std::vector<std::size_t>>> members;     // [channel][group]: ranks
  std::vector<Captured> captured;
  DeviceStream state_stream;
  DeviceEvent step_begin, step_begin_time;
  std::optional<Started> started;  // by the last start(), for the ranks that it was made for
  bool prepared = false;
  std::mutex mutex;  // the device is one thread's at a time
  std::exception_ptr failure;
  // What is recorded of the step being enqueued: nothing of a capture, whose events never pass; signals, which stand
  // there in any case; and marks where the step may take long enough for somebody to ask.
  enum class Marking : std::uint8_t { none, signals, all } marking = Marking::none;
  StepMarks marks;
  std::atomic<std::int64_t> begun_at{0};       // of the step that is running, steady nanoseconds
  std::atomic<std::int64_t> replay_due_at{0};  // when a replayed step, which has no marks, should long be over; 0: none
  std::atomic<std::uint64_t> looks_at_replay{0};
  std::atomic<bool> running{false};
  std::atomic<std::uint64_t> completed{0};

  Impl(std::unique_ptr<Device> d, int count, std::optional<Grid> g, const DeviceExecutorOptions& o,
       std::unique_ptr<DeviceTransport> t);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Making ready: device_team.cpp.
  std::vector<std::vector<std::size_t>> groups_on(Channel channel) const;
  DeviceStream stream_of(Rank& rank, std::size_t index, const Stream& stream, std::size_t compute_index);
  DeviceStream device_stream(const Rank& rank, const Plan& plan, StreamId id) const;
  std::byte* place(const Rank& rank, const Plan& plan, const View& view) const;
  void prepare_plan(Rank& rank, LoadedPlan& loaded);
  void prepare();
  void fuse_horizontally(LoadedPlan& loaded) const;
  void fuse(std::span<DeviceStep* const> members) const;
  void add_group(Channel channel);

  // Running: device_step.cpp.
  void mark(DeviceStream stream, DeviceEvent event, const Plan& plan, TaskId task);
  Started start(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step);
  void enqueue_uploads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::size_t copy);
  void enqueue_downloads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, const UnderWay& step);
  void await(UnderWay& step);
  void finish(std::size_t leader);
  void deliver(std::size_t rank, std::size_t plan_index, std::size_t copy) const;
  void enqueue(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed);
  void before(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed);
  void after(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed);
  void launch(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed);
  void launch_collective(std::size_t plan_index, std::size_t i, bool timed);
  DeviceGraph graph_of(std::size_t plan_index, const std::vector<std::size_t>& of_ranks);
  void destroy_graphs();
  void give_up();
  void keep_trace(Rank& rank, LoadedPlan& loaded, std::int64_t step, const UnderWay& done);
  void move_state(const Rank& rank, bool to_device);

  // From any thread: device_executor.cpp.
  ExecutorStatus status();
  std::string describe(std::size_t rank);
};

}  // namespace weft
