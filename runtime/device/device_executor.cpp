#include "runtime/device/device_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "graph/groups.h"
#include "runtime/device/device_collectives.h"
#include "runtime/device/neighbours.h"
#include "runtime/device/transfers.h"
#include "runtime/task_arguments.h"

namespace weft {
namespace {

constexpr std::int64_t kAlignment = 256;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

constexpr std::size_t kChannels = static_cast<std::size_t>(Channel::world) + 1;

// An entry of a plan, ready to be enqueued.
struct Step {
  StreamId stream;
  std::uint32_t entry = 0;
  std::unique_ptr<DeviceTask> task;  // of a computation
  CollectiveCall call{};             // of a collective
  std::vector<DeviceEvent> waits;
  DeviceEvent signal;          // invalid: no other stream waits
  std::vector<Touch> touches;  // of a computation, while the plan is prepared
  // Of neighbours on a stream that the device runs as one: the first has the merged task, which all others are part of.
  std::unique_ptr<DeviceTask> merged;
  DeviceEvent merged_signal;  // of the last of them
  bool part_of_merged = false;
};

}  // namespace

struct DeviceTeam::Impl {
  struct LoadedPlan {
    std::shared_ptr<const Plan> plan;
    std::vector<Step> steps;  // in the plan's sequence
    Transfers transfers;
    std::vector<StepTrace> traces;  // the kept ones, oldest first
    std::int64_t runs = 0, last_step_ns = 0;
    std::array<bool, 2> has_run = {};  // with every kernel launched: not timed, timed
  };

  struct Rank {
    const State* state = nullptr;
    std::byte* device_state = nullptr;
    std::map<std::string, std::byte*> pinned;  // of the state's tensors that travel, by name
    std::byte* arena = nullptr;
    std::vector<std::unique_ptr<LoadedPlan>> plans;
    std::vector<DeviceStream> compute;
    std::vector<DeviceStream> channel = std::vector<DeviceStream>(kChannels);
    std::vector<std::byte*> scratch;  // of each compute stream
    std::vector<std::int64_t> scratch_bytes;
    std::vector<DeviceEvent> events;        // those that order entries; every plan uses them again
    std::vector<DeviceEvent> timed_events;  // two an entry
    std::vector<DeviceEvent> stream_ends;
    std::int64_t arena_bytes = 0, kernel_bytes = 0;
    std::optional<NonFiniteResult> non_finite;
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
  DeviceEvent step_begin, step_begin_time, step_end_time;
  bool prepared = false;
  std::mutex mutex;  // the device is one thread's at a time
  std::exception_ptr failure;
  std::atomic<bool> running{false};
  std::atomic<std::uint64_t> completed{0};

  Impl(std::unique_ptr<Device> d, int count, std::optional<Grid> g, const DeviceExecutorOptions& o,
       std::unique_ptr<DeviceTransport> t)
      : device(std::move(d)), transport(std::move(t)), grid(g), options(o), ranks(static_cast<std::size_t>(count)) {
    if (transport != nullptr && count != 1) throw std::logic_error("a transport is one rank's");
    if (transport != nullptr && options.graphs && !transport->can_be_captured()) {
      throw std::logic_error(fmt::format("{} collectives in a graph", transport->name()));
    }
    step_begin = device->add_event(false);
    step_begin_time = device->add_event(true);
    step_end_time = device->add_event(true);
    groups.resize(kChannels);
    members.resize(kChannels);
  }

  // A transport's communicators must outlive the graphs that hold its collectives.
  ~Impl() { destroy_graphs(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void destroy_graphs() {
    for (const Captured& graph : captured) device->destroy(graph.graph);
    captured.clear();
  }

  std::vector<std::vector<std::size_t>> groups_on(Channel channel) const {
    std::vector<std::vector<std::size_t>> result;
    if (!grid) {
      result.emplace_back();
      for (std::size_t r = 0; r < ranks.size(); ++r) result.back().push_back(r);
      return result;
    }
    for (const auto& group : groups_of(*grid, channel)) result.emplace_back(group.begin(), group.end());
    return result;
  }

  DeviceStream stream_of(Rank& rank, std::size_t index, const Stream& stream, std::size_t compute_index) {
    const std::string name = fmt::format("rank{}.{}", index, stream.name);
    if (stream.compute) {
      while (rank.compute.size() <= compute_index) {
        rank.compute.push_back(device->add_stream(name, StreamPriority::normal));
        rank.scratch_bytes.push_back(0);
      }
      return rank.compute[compute_index];
    }
    DeviceStream& found = rank.channel[static_cast<std::size_t>(stream.channel)];
    if (!found.valid()) found = device->add_stream(name, StreamPriority::high);
    return found;
  }

  DeviceStream device_stream(const Rank& rank, const Plan& plan, StreamId id) const {
    const Stream& stream = plan.streams[id.index()].stream;
    return stream.compute ? rank.compute[id.index()] : rank.channel[static_cast<std::size_t>(stream.channel)];
  }

  std::byte* place(const Rank& rank, const Plan& plan, const View& view) const {
    const Tensor& tensor = plan.graph->tensor(view.tensor);
    if (!is_state(tensor.role)) return rank.arena + plan.offset[view.tensor.index()];
    return rank.device_state + rank.state->offset(tensor.name);
  }

  void prepare_plan(Rank& rank, LoadedPlan& loaded) {
    const Plan& plan = *loaded.plan;
    std::vector<std::vector<DeviceEvent>> event_of(plan.streams.size());
    std::size_t used = 0;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) event_of[s].resize(plan.streams[s].entries.size());
    const std::size_t first_channel = calls.size();
    for (std::size_t c = 0; c < kChannels; ++c) calls.push_back({static_cast<Channel>(c), {}});
    for (const StreamPlan& stream : plan.streams) {
      for (const Entry& entry : stream.entries) {
        for (const Wait& wait : entry.waits) {
          DeviceEvent& event = event_of[wait.stream.index()][wait.entry];
          if (wait.distance > 0 || event.valid()) continue;  // steps don't overlap
          if (used == rank.events.size()) rank.events.push_back(device->add_event(false));
          event = rank.events[used++];
        }
      }
    }
    for (const TaskId id : plan.sequence) {
      const Position at = plan.position[id.index()];
      const StreamPlan& stream = plan.streams[at.stream.index()];
      const Task& task = plan.graph->task(id);
      Step step;
      step.stream = at.stream;
      step.entry = at.entry;
      std::vector<cpu::Matrix> arguments;
      for (const Access& access : task.accesses) {
        arguments.push_back(matrix_of(*plan.graph, access.view, place(rank, plan, access.view)));
      }
      if (stream.stream.compute) {
        step.touches = touches_of(task, arguments);
        step.task = device->prepare(*plan.graph, task, std::move(arguments));
        auto& bytes = rank.scratch_bytes[at.stream.index()];
        bytes = std::max(bytes, step.task->scratch_bytes());
      } else {
        step.call = collective_call(*plan.graph, task, arguments);
        calls[first_channel + static_cast<std::size_t>(stream.stream.channel)].calls.push_back(step.call);
      }
      for (const Wait& wait : stream.entries[at.entry].waits) {
        if (wait.distance == 0) step.waits.push_back(event_of[wait.stream.index()][wait.entry]);
      }
      step.signal = event_of[at.stream.index()][at.entry];
      loaded.steps.push_back(std::move(step));
    }
    loaded.transfers = find_transfers(*plan.graph, *rank.state, rank.device_state, *device, rank.pinned);
  }

  void prepare() {
    for (std::size_t index = 0; index < ranks.size(); ++index) {
      Rank& rank = ranks[index];
      if (rank.state == nullptr) throw std::logic_error("every rank of a team joins it before the first run");
      rank.arena = device->allocate(std::max<std::int64_t>(rank.arena_bytes, kAlignment));
      std::size_t most_entries = 0, most_streams = 0;
      for (auto& loaded : rank.plans) {
        std::size_t compute_index = 0, entries = 0;
        for (const StreamPlan& stream : loaded->plan->streams) {
          stream_of(rank, index, stream.stream, compute_index);
          compute_index += stream.stream.compute ? 1 : 0;
          entries += stream.entries.size();
          if (!stream.stream.compute && transport == nullptr) add_group(stream.stream.channel);
        }
        most_entries = std::max(most_entries, entries);
        most_streams = std::max(most_streams, loaded->plan->streams.size());
        prepare_plan(rank, *loaded);
      }
      for (const std::int64_t bytes : rank.scratch_bytes) {
        rank.scratch.push_back(device->allocate(std::max<std::int64_t>(aligned(bytes), kAlignment)));
        rank.kernel_bytes += aligned(bytes);
      }
      for (auto& loaded : rank.plans) {
        for (Step& step : loaded->steps) {
          if (step.task != nullptr) step.task->bind(rank.scratch[step.stream.index()]);
        }
        merge_neighbours(*loaded);
      }
      if (options.kept_steps > 0) {
        for (std::size_t i = 0; i < 2 * most_entries; ++i) rank.timed_events.push_back(device->add_event(true));
      }
      for (std::size_t i = 0; i < most_streams; ++i) rank.stream_ends.push_back(device->add_event(false));
    }
    if (transport != nullptr) transport->prepare(*device, calls);
    prepared = true;
  }

  // Lets the device run neighbours of a stream as one task, where it has one that is faster.
  void merge_neighbours(LoadedPlan& loaded) const {
    const Plan& plan = *loaded.plan;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      if (!plan.streams[s].stream.compute) continue;
      std::vector<Step*> steps;
      std::vector<Neighbour> entries;
      for (Step& step : loaded.steps) {
        if (step.stream != StreamId(s)) continue;
        const TaskId task = plan.streams[s].entries[step.entry].task;
        steps.push_back(&step);
        entries.push_back({plan.graph->task(task).operation.index(), !step.waits.empty(), step.signal.valid(),
                           std::exchange(step.touches, {})});
      }
      for (const NeighbourRun& run : runs_of_neighbours(entries)) {
        const std::span<Step* const> members(steps.begin() + static_cast<std::ptrdiff_t>(run.begin),
                                             run.end - run.begin);
        merge(members);
      }
    }
  }

  void merge(std::span<Step* const> members) const {
    std::vector<const DeviceTask*> parts;
    for (const Step* step : members) parts.push_back(step->task.get());
    Step& first = *members.front();
    first.merged = device->merge(parts);
    if (first.merged == nullptr) return;
    first.merged_signal = members.back()->signal;
    for (Step* step : members.subspan(1)) step->part_of_merged = true;
  }

  void add_group(Channel channel) {
    const auto c = static_cast<std::size_t>(channel);
    if (!groups[c].empty()) return;
    members[c] = groups_on(channel);
    for (const auto& group : members[c]) groups[c].push_back(std::make_unique<DeviceGroup>(*device, group.size()));
  }

  // Enqueues one step of some ranks, from the uploads to the downloads. With `timed`, an event stands before and behind
  // every task.
  void enqueue(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed) {
    const DeviceStream origin = ranks[of_ranks.front()].compute.front();
    device->record(step_begin, origin);
    for (const std::size_t r : of_ranks) {
      Rank& rank = ranks[r];
      LoadedPlan& loaded = *rank.plans[plan_index];
      const DeviceStream first = rank.compute.front();
      if (first != origin) device->wait(first, step_begin);
      for (const Transfer& upload : loaded.transfers.uploads)
        device->copy(first, upload.device, upload.pinned, upload.bytes);
      // The first compute stream has the inputs; the others wait for it.
      device->record(rank.stream_ends[0], first);
      for (std::size_t s = 0; s < loaded.plan->streams.size(); ++s) {
        const DeviceStream stream = device_stream(rank, *loaded.plan, StreamId(s));
        if (stream != first) device->wait(stream, rank.stream_ends[0]);
      }
    }
    const std::size_t steps = ranks[of_ranks.front()].plans[plan_index]->steps.size();
    for (std::size_t i = 0; i < steps; ++i) {
      if (ranks[of_ranks.front()].plans[plan_index]->steps[i].task != nullptr) {
        for (const std::size_t r : of_ranks) launch(ranks[r], *ranks[r].plans[plan_index], i, timed);
      } else {
        launch_collective(plan_index, i, timed);
      }
    }
    for (const std::size_t r : of_ranks) {
      Rank& rank = ranks[r];
      LoadedPlan& loaded = *rank.plans[plan_index];
      const DeviceStream first = rank.compute.front();
      for (std::size_t s = 0; s < loaded.plan->streams.size(); ++s) {
        const DeviceStream stream = device_stream(rank, *loaded.plan, StreamId(s));
        if (stream == first) continue;
        device->record(rank.stream_ends[s], stream);
        device->wait(first, rank.stream_ends[s]);
      }
      for (const Transfer& result : loaded.transfers.downloads)
        device->copy(first, result.pinned, result.device, result.bytes);
      if (first == origin) continue;
      device->record(rank.stream_ends[0], first);
      device->wait(origin, rank.stream_ends[0]);
    }
  }

  void before(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
    const Step& step = loaded.steps[i];
    const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
    for (const DeviceEvent event : step.waits) device->wait(stream, event);
    if (timed) device->record(rank.timed_events[2 * i], stream);
  }

  void after(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
    const Step& step = loaded.steps[i];
    const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
    if (timed) device->record(rank.timed_events[2 * i + 1], stream);
    if (step.signal.valid()) device->record(step.signal, stream);
  }

  void launch(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
    const Step& step = loaded.steps[i];
    // A trace shows each task, so a traced step runs each.
    if (!timed && step.part_of_merged) return;
    before(rank, loaded, i, timed);
    const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
    device->push_range(loaded.plan->graph->task(loaded.plan->sequence[i]).name);
    const bool merged = !timed && step.merged != nullptr;
    device->launch(stream, merged ? *step.merged : *step.task);
    device->pop_range();
    after(rank, loaded, i, timed);
    if (merged && step.merged_signal.valid()) device->record(step.merged_signal, stream);
  }

  // All ranks take part: plans with collectives are run by all of them together.
  void launch_collective(std::size_t plan_index, std::size_t i, bool timed) {
    const LoadedPlan& of_first = *ranks.front().plans[plan_index];
    const Channel channel = of_first.plan->streams[of_first.steps[i].stream.index()].stream.channel;
    const auto c = static_cast<std::size_t>(channel);
    device->push_range(of_first.plan->graph->task(of_first.plan->sequence[i]).name);
    if (transport != nullptr) {
      before(ranks.front(), of_first, i, timed);
      const Step& step = of_first.steps[i];
      transport->enqueue(*device, channel, device_stream(ranks.front(), *of_first.plan, step.stream), step.call);
      after(ranks.front(), of_first, i, timed);
    }
    for (std::size_t g = 0; g < groups[c].size(); ++g) {
      std::vector<GroupMember> group;
      for (const std::size_t r : members[c][g]) {
        const LoadedPlan& loaded = *ranks[r].plans[plan_index];
        before(ranks[r], loaded, i, timed);
        group.push_back({device_stream(ranks[r], *loaded.plan, loaded.steps[i].stream), loaded.steps[i].call});
      }
      groups[c][g]->enqueue(*device, group);
      for (const std::size_t r : members[c][g]) after(ranks[r], *ranks[r].plans[plan_index], i, timed);
    }
    device->pop_range();
  }

  DeviceGraph graph_of(std::size_t plan_index, const std::vector<std::size_t>& of_ranks) {
    for (const Captured& known : captured) {
      if (known.plan == plan_index && known.ranks == of_ranks) return known.graph;
    }
    const DeviceStream origin = ranks[of_ranks.front()].compute.front();
    device->begin_capture(origin);
    enqueue(plan_index, of_ranks, false);
    captured.push_back({plan_index, of_ranks, device->end_capture(origin)});
    return captured.back().graph;
  }

  void run(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step) {
    if (!prepared) prepare();
    LoadedPlan& first = *ranks[of_ranks.front()].plans.at(plan_index);
    // The first step is traced so that there is a trace at once, the second because the first loads kernels meanwhile.
    const std::int64_t every = std::max<std::int64_t>(1, options.trace_every);
    const bool timed = options.kept_steps > 0 && (first.runs < 2 || first.runs % every == every - 1);
    const DeviceStream origin = ranks[of_ranks.front()].compute.front();
    for (const std::size_t r : of_ranks) {
      for (const Transfer& upload : ranks[r].plans[plan_index]->transfers.uploads) {
        std::memcpy(upload.pinned, upload.host, static_cast<std::size_t>(upload.bytes));
      }
    }
    // Libraries may allocate in their first calls, which no capture allows.
    const bool replay = options.graphs && !timed && first.runs > 0;
    const DeviceGraph graph = replay ? graph_of(plan_index, of_ranks) : DeviceGraph();
    running.store(true, std::memory_order_release);
    const std::int64_t begin = steady_now();
    try {
      if (transport != nullptr) transport->begin_step(!std::exchange(first.has_run[timed ? 1 : 0], true));
      device->record(step_begin_time, origin);
      if (replay) {
        device->launch(origin, graph);
      } else {
        enqueue(plan_index, of_ranks, timed);
      }
      device->record(step_end_time, origin);
      if (transport != nullptr) wait_for(*device, origin, *transport);
    } catch (...) {
      give_up();
      throw;
    }
    device->synchronize(origin);
    running.store(false, std::memory_order_release);
    completed.fetch_add(1, std::memory_order_relaxed);
    for (const std::size_t r : of_ranks) {
      LoadedPlan& loaded = *ranks[r].plans[plan_index];
      for (const Transfer& result : loaded.transfers.downloads) {
        std::memcpy(result.host, result.pinned, static_cast<std::size_t>(result.bytes));
      }
      loaded.last_step_ns = steady_now() - begin;
      ++loaded.runs;
      if (timed) keep_trace(ranks[r], loaded, step, begin);
    }
  }

  // A peer is lost, and streams may wait for it: they are let go, and come to their end.
  void give_up() {
    if (transport == nullptr) return;
    destroy_graphs();
    transport->stop();
    for (const auto* streams : {&ranks.front().compute, &ranks.front().channel}) {
      for (const DeviceStream stream : *streams) {
        try {
          if (stream.valid()) device->synchronize(stream);
        } catch (const std::exception&) {  // what came first is on its way to the caller
        }
      }
    }
  }

  void keep_trace(Rank& rank, LoadedPlan& loaded, std::int64_t step, std::int64_t begin) {
    StepTrace trace;
    trace.step = step;
    trace.begin = begin;
    trace.end = begin + std::max<std::int64_t>(device->elapsed_ns(step_begin_time, step_end_time), 1);
    for (const StreamPlan& stream : loaded.plan->streams) trace.times.emplace_back(stream.entries.size());
    for (std::size_t i = 0; i < loaded.steps.size(); ++i) {
      const Step& of = loaded.steps[i];
      TaskTime& time = trace.times[of.stream.index()][of.entry];
      time.begin = begin + device->elapsed_ns(step_begin_time, rank.timed_events[2 * i]);
      time.end = begin + device->elapsed_ns(step_begin_time, rank.timed_events[2 * i + 1]);
    }
    if (static_cast<std::int64_t>(loaded.traces.size()) == options.kept_steps) {
      loaded.traces.erase(loaded.traces.begin());
    }
    loaded.traces.push_back(std::move(trace));
  }

  // Between steps: the whole state in either direction.
  void move_state(const Rank& rank, bool to_device) {
    if (!state_stream.valid()) state_stream = device->add_stream("state", StreamPriority::normal);
    std::byte* const host = rank.state->begin();
    if (to_device) {
      device->copy(state_stream, rank.device_state, host, rank.state->bytes());
    } else {
      device->copy(state_stream, host, rank.device_state, rank.state->bytes());
    }
    device->synchronize(state_stream);
  }
};

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
  rank.state = &state;
  rank.device_state = impl.device->allocate(std::max<std::int64_t>(state.bytes(), kAlignment));
}

DeviceExecutor::~DeviceExecutor() = default;

Executor::PlanHandle DeviceExecutor::load(std::shared_ptr<const Plan> plan) {
  DeviceTeam::Impl& impl = *team_->impl_;
  const std::lock_guard lock(impl.mutex);
  if (impl.prepared) throw std::logic_error("plans are loaded before the first run");
  DeviceTeam::Impl::Rank& rank = impl.ranks[rank_];
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

std::int64_t DeviceExecutor::scratch_bytes() const {
  const DeviceTeam::Impl::Rank& rank = team_->impl_->ranks[rank_];
  return rank.arena_bytes + rank.kernel_bytes;
}

ExecutorStatus DeviceExecutor::status() const {
  return {team_->impl_->running.load(std::memory_order_acquire), team_->impl_->completed.load()};
}

std::string DeviceExecutor::describe() const {
  const bool running = team_->impl_->running.load(std::memory_order_acquire);
  return fmt::format("rank {}: {}", world_.rank(), running ? "the device is running a step" : "between steps");
}

}  // namespace weft
