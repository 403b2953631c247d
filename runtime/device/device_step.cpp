// One step of a team: what is enqueued in which order, how its end is awaited, and what is kept of it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/device/device_team_impl.h"

namespace weft {
namespace {

constexpr std::int64_t kLongStep = 100'000'000;

}  // namespace

std::int64_t steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void DeviceTeam::Impl::destroy_graphs() {
  for (const Captured& graph : captured) device->destroy(graph.graph);
  captured.clear();
}

// Enqueues one step of some ranks, from the uploads to the downloads. With `timed`, an event stands before and behind
// every task.
void DeviceTeam::Impl::enqueue(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed) {
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

void DeviceTeam::Impl::before(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  for (const DeviceEvent event : step.waits) device->wait(stream, event);
  if (timed) device->record(rank.timed_events[2 * i], stream);
}

void DeviceTeam::Impl::after(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  if (timed) device->record(rank.timed_events[2 * i + 1], stream);
  const TaskId task = loaded.plan->sequence[i];
  if (step.signal.valid()) {
    device->record(step.signal, stream);
    mark(stream, step.signal, *loaded.plan, task);
  } else if (marking == Marking::all && step.mark.valid()) {
    device->record(step.mark, stream);
    mark(stream, step.mark, *loaded.plan, task);
  }
}

void DeviceTeam::Impl::mark(DeviceStream stream, DeviceEvent event, const Plan& plan, TaskId task) {
  if (marking != Marking::none) marks.add(stream, event, plan.graph->task(task).name);
}

void DeviceTeam::Impl::launch(Rank& rank, const LoadedPlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  // A trace shows each task, so a traced step runs each.
  if (!timed && step.part_of_merged) return;
  before(rank, loaded, i, timed);
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  device->push_range(loaded.plan->graph->task(loaded.plan->sequence[i]).name);
  const bool merged = !timed && step.merged != nullptr;
  device->launch(stream, merged ? *step.merged : *step.task);
  device->pop_range();
  after(rank, loaded, i, timed);
  if (merged && step.merged_signal.valid()) {
    device->record(step.merged_signal, stream);
    mark(stream, step.merged_signal, *loaded.plan, loaded.plan->sequence[i]);
  }
}

// All ranks take part: plans with collectives are run by all of them together.
void DeviceTeam::Impl::launch_collective(std::size_t plan_index, std::size_t i, bool timed) {
  const LoadedPlan& of_first = *ranks.front().plans[plan_index];
  const Channel channel = of_first.plan->streams[of_first.steps[i].stream.index()].stream.channel;
  const auto c = static_cast<std::size_t>(channel);
  device->push_range(of_first.plan->graph->task(of_first.plan->sequence[i]).name);
  if (transport != nullptr) {
    before(ranks.front(), of_first, i, timed);
    const DeviceStep& step = of_first.steps[i];
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

DeviceGraph DeviceTeam::Impl::graph_of(std::size_t plan_index, const std::vector<std::size_t>& of_ranks) {
  for (const Captured& known : captured) {
    if (known.plan == plan_index && known.ranks == of_ranks) return known.graph;
  }
  const DeviceStream origin = ranks[of_ranks.front()].compute.front();
  device->begin_capture(origin);
  enqueue(plan_index, of_ranks, false);
  captured.push_back({plan_index, of_ranks, device->end_capture(origin)});
  return captured.back().graph;
}

void DeviceTeam::Impl::run(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step) {
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
  marks.begin_step();
  marking = Marking::none;
  // Libraries may allocate in their first calls, which no capture allows.
  const bool replay = options.graphs && !timed && first.runs > 0;
  const DeviceGraph graph = replay ? graph_of(plan_index, of_ranks) : DeviceGraph();
  const std::int64_t begin = steady_now();
  begun_at.store(begin);
  replay_due_at.store(replay ? begin + 2 * first.last_step_ns : 0);
  running.store(true, std::memory_order_release);
  // How long a plan's first step takes, nobody knows.
  marking = first.runs == 0 || first.last_step_ns > kLongStep ? Marking::all : Marking::signals;
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
    running.store(false, std::memory_order_release);
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
void DeviceTeam::Impl::give_up() {
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

void DeviceTeam::Impl::keep_trace(Rank& rank, LoadedPlan& loaded, std::int64_t step, std::int64_t begin) {
  StepTrace trace;
  trace.step = step;
  trace.begin = begin;
  trace.end = begin + std::max<std::int64_t>(device->elapsed_ns(step_begin_time, step_end_time), 1);
  for (const StreamPlan& stream : loaded.plan->streams) trace.times.emplace_back(stream.entries.size());
  for (std::size_t i = 0; i < loaded.steps.size(); ++i) {
    const DeviceStep& of = loaded.steps[i];
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
void DeviceTeam::Impl::move_state(const Rank& rank, bool to_device) {
  if (!state_stream.valid()) state_stream = device->add_stream("state", StreamPriority::normal);
  std::byte* const host = rank.state->begin();
  if (to_device) {
    device->copy(state_stream, rank.device_state, host, rank.state->bytes());
  } else {
    device->copy(state_stream, host, rank.device_state, rank.state->bytes());
  }
  device->synchronize(state_stream);
}

}  // namespace weft
