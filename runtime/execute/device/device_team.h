// The ranks of one process that share a device: device_team.cpp makes their plans ready, device_step.cpp runs them, and
// device_executor.cpp has each rank's view of its team.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/grid.h"
#include "runtime/execute/device/device_collectives.h"
#include "runtime/execute/device/device_plan.h"
#include "runtime/execute/device/state_pieces.h"
#include "runtime/execute/device/step_watch.h"
#include "runtime/execute/device/transport.h"
#include "runtime/execute/state.h"
#include "runtime/execute/task_arguments.h"

namespace weft::execute {

struct DeviceExecutorOptions {
  std::int64_t kept_steps = 1;    // traces kept of each plan
  std::int64_t trace_every = 16;  // one step in this many is traced, with an event before and after each task
  std::int64_t memory_bytes = 0;  // limit of device memory for each rank; 0: all that is free
  bool graphs = false;            // replay a step that isn't traced as one graph
  bool check_finite = false;      // look for NaN and infinity in all tensors that tasks write, except workspaces
  std::int64_t state_piece_bytes = 32 << 20;  // of the state, which is copied in pieces through pinned memory
  bool group_gathers = false;                 // where a transport carries them: see execute::group_gathers()
  double release_seconds = 30;                // for the device to end what it has begun, after a failure
  // If a plan's second step takes longer, its steps get marks for the watchdog and aren't started ahead.
  std::int64_t long_step_ns = 100'000'000;
};

constexpr std::int64_t kSettling = 2;  // number of a plan's runs after which its time is known

/// start()'s result.
struct Started {
  std::size_t copy = 0;  // of the downloads, where its results will be
  bool ahead = false;    // the device hasn't ended the step yet
};

/// A plan, and the ranks that run it together.
struct RanksOfPlan {
  std::size_t plan = 0;
  std::vector<std::size_t> ranks;
  friend bool operator==(const RanksOfPlan&, const RanksOfPlan&) = default;
};

/// Each rank keeps its state and its scratch arena on the device; collectives and messages between them are copies.
/// Ranks of one pipeline stage have the same plans, others their own. A step ends when all streams of all ranks have
/// ended, so steps don't overlap on the device. The next step may be enqueued earlier, so that the host reads results
/// while it runs.
///
///   auto team = std::make_shared<DeviceTeam>(make_cuda_device(0), grid, 2, options);
///   const auto executor = make_device_executor(team, world, state);     // on each rank's thread
///   const auto train = executor->load(plan);
///   executor->run(train);
struct DeviceTeam {
  static constexpr std::size_t kChannels = graph::kAxisChannels;

  static constexpr std::size_t kMostUnderWay = kTransferCopies;

  // A step that was started and isn't finished.
  struct UnderWay {
    RanksOfPlan of;
    std::uint64_t number = 0;  // among the steps that its first rank leads
    std::int64_t begin = 0;    // when the host came to it, steady nanoseconds
    bool follows = false;      // it was enqueued while the one before was under way
    std::int64_t ns = 0;       // how long it took, once it is awaited

    std::size_t copy() const { return number % kMostUnderWay; }  // of its transfers
  };

  struct Rank {
    int world_rank = 0;
    PlanMemory memory;
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
    std::int64_t arena_bytes = 0, segments_bytes = 0;
    std::vector<StatePart> state_parts;        // that steps change
    std::optional<std::uint64_t> leaves_from;  // they leave, after so many others, and no step has changed them yet
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
    DeviceStream& stream(const plan::Plan& plan, plan::StreamId id) {
      const plan::Stream& of = plan.streams[id.index()].stream;
      return of.compute ? compute[id.index()] : channel[static_cast<std::size_t>(of.channel)];
    }
    DeviceEvent end_of(std::uint64_t step) const { return end_times[step % end_times.size()]; }
  };

  // Ranks of this team that do a channel's collectives together. Messages have a group for each sender.
  struct Group {
    std::vector<std::size_t> members;
    std::optional<DeviceGroup> on_device;  // none: with a transport
    std::size_t arrived = 0;               // number of members that have come to the next collective
  };

  // A captured graph and its content.
  struct Captured {
    RanksOfPlan of;
    bool timed;
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
  StatePieces state_pieces;
  DeviceEvent step_begin, step_begin_time;
  std::optional<Started> started;  // by the last start(), for the ranks that it was made for
  bool prepared = false;
  std::mutex mutex;  // the device is one thread's at a time
  std::exception_ptr failure;
  StepWatch watch;

  /// `of_ranks`: the process groups of the ranks; without it, every channel is the world. With a transport, every rank
  /// of the world has its own team of one rank.
  DeviceTeam(std::unique_ptr<Device> shared, int count, std::optional<graph::Grid> of_ranks,
             const DeviceExecutorOptions& chosen, std::unique_ptr<DeviceTransport> between = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  /// Whether all ranks run the plan together; the same on all of them once all have loaded theirs.
  bool communicates(std::size_t plan) const {
    return std::ranges::any_of(
        ranks, [&](const Rank& rank) { return plan < rank.plans.size() && rank.plans[plan]->communicates; });
  }
  Started start(const RanksOfPlan& of, std::int64_t step);
  /// Of the oldest step that the rank leads. Its results are in pinned memory then.
  void finish(std::size_t leader);
  /// Between steps, where no watchdog looks: the whole state of a rank in either direction.
  void move_state(std::size_t index, bool to_device);
  /// What steps change of it comes to the host beside the next step, which isn't replayed, and has come after
  /// finish_state(). All ranks call it between the same steps. False, and nothing happens: no step has run.
  bool start_state(std::size_t index);
  void finish_state(std::size_t index);
  void with_state_limit(std::size_t index, const char* direction, const std::function<void()>& body);

  // Making ready: device_team.cpp.
  std::byte* allocate(std::int64_t bytes);  // of a rank's state or arena
  void add_stream(std::size_t rank, const plan::Plan& plan, plan::StreamId id);
  void prepare_plan(Rank& rank, DevicePlan& loaded);
  void prepare();
  void add_groups(graph::Channel channel);
  void add_group(const std::vector<std::pair<graph::Channel, std::size_t>>& ends);

  // Running: device_step.cpp.
  Started enqueue_step(const RanksOfPlan& of, std::int64_t step);
  void leave_all(const RanksOfPlan& of);
  void enqueue_uploads(const RanksOfPlan& of, std::size_t copy);
  void enqueue_downloads(const UnderWay& step);
  void await(UnderWay& step);
  void enqueue(const RanksOfPlan& of, bool timed);
  void before(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void after(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void enqueue_tasks(const RanksOfPlan& of, bool timed);
  void launch(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed);
  void launch_collective(std::size_t plan, Group& group, std::span<const std::size_t> next, bool timed);
  void launch_gathers(Rank& rank, const DevicePlan& loaded, const DeviceStep& last);
  DeviceGraph graph_of(const RanksOfPlan& of, bool timed);
  void destroy_graphs();
  void await_after_failure(DeviceStream stream) noexcept;
  void give_up(const std::string& cause);
};

/// Makes a team once for all ranks of a local world; every rank calls it and gets the same one.
std::shared_ptr<DeviceTeam> make_team(comm::World& world, const std::function<std::shared_ptr<DeviceTeam>()>& make);

/// Makes the executor of one rank of a team. Runs of plans with collectives are collective over the world: rank 0
/// enqueues for all. With a transport load() is collective as well, each rank enqueues its own, and a lost peer ends
/// run() with PeerLost. For a plan with collectives, start() returns the same value on all ranks.
///
/// `world` and `state` must outlive the executor. The state's tensors get their places on the device. Throws UserError
/// if the state exceeds the rank's share of device memory; load() throws it if the state and a plan's scratch do.
std::unique_ptr<Executor> make_device_executor(std::shared_ptr<DeviceTeam> team, comm::World& world,
                                               const State& state);

}  // namespace weft::execute
