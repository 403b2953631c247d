// One step of a team: the order of enqueueing, the wait for its end, and its results.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/execute/device/device_team_impl.h"
#include "runtime/execute/watchdog.h"

namespace weft::execute {
namespace {

// A capture that an exception leaves is abandoned, so that its streams run again.
class Capture {
 public:
  Capture(Device& device, DeviceStream origin) : device_(&device), origin_(origin) { device.begin_capture(origin); }
  ~Capture() {
    if (device_ != nullptr) device_->abandon_capture(origin_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  DeviceGraph end() { return std::exchange(device_, nullptr)->end_capture(origin_); }

 private:
  Device* device_;
  DeviceStream origin_;
};

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

void DeviceTeam::Impl::destroy_graphs() {
  for (const Captured& graph : captured) device->destroy(graph.graph);
  captured.clear();
}

// Enqueues the tasks of one step of some ranks, between their inputs and their results. With `timed`, events are
// recorded before and after every task.
void DeviceTeam::Impl::enqueue(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed) {
  const DeviceStream origin = ranks[of_ranks.front()].compute.front();
  const auto for_other_streams = [&](const auto& body) {
    for (const std::size_t r : of_ranks) {
      const Rank& rank = ranks[r];
      const plan::Plan& plan = *rank.plans[plan_index]->plan;
      for (std::size_t s = 0; s < plan.streams.size(); ++s) {
        const DeviceStream stream = device_stream(rank, plan, plan::StreamId(s));
        if (stream != origin) body(stream, rank.stream_ends[s]);
      }
    }
  };
  device->record(step_begin, origin);
  for_other_streams([&](DeviceStream stream, DeviceEvent) { device->wait(stream, step_begin); });
  enqueue_tasks(plan_index, of_ranks, timed);
  for_other_streams([&](DeviceStream stream, DeviceEvent end) {
    device->record(end, stream);
    device->wait(origin, end);
  });
}

// Each rank in turn enqueues its next task. Ranks of different pipeline stages have different plans: a rank that has
// come to a collective stays there until all of its group have, and then they enqueue it together. So a rank comes to
// one collective after the other, in the order in which the stages' plans are proved to run to their end
// (plan::check(), Kind::one_queue).
void DeviceTeam::Impl::enqueue_tasks(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, bool timed) {
  std::vector<std::size_t> next(ranks.size(), 0);
  std::vector<bool> stays(ranks.size(), false);
  for (Group& group : groups) group.arrived = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::size_t r : of_ranks) {
      const DevicePlan& loaded = *ranks[r].plans[plan_index];
      if (stays[r] || next[r] == loaded.steps.size()) continue;
      moved = true;
      const DeviceStep& step = loaded.steps[next[r]];
      if (step.task != nullptr) {
        launch(ranks[r], loaded, next[r]++, timed);
        continue;
      }
      if (transport != nullptr) {
        launch_collective(plan_index, next[r]++, timed);
        continue;
      }
      const graph::Channel channel = loaded.plan->streams[step.stream.index()].stream.channel;
      Group& group = groups[group_of[static_cast<std::size_t>(channel)][r]];
      stays[r] = true;
      if (++group.arrived < group.members.size()) continue;
      launch_collective(plan_index, group, next, timed);
      group.arrived = 0;
      for (const std::size_t member : group.members) {
        ++next[member];
        stays[member] = false;
      }
    }
  }
  if (std::ranges::find(stays, true) != stays.end()) {
    throw std::logic_error("the ranks of a device wait for each other's collectives");
  }
}

void DeviceTeam::Impl::before(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  for (const DeviceEvent event : step.waits) device->wait(stream, event);
  if (timed) device->record(rank.timed_events[2 * i], stream);
}

void DeviceTeam::Impl::after(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  if (timed) device->record(rank.timed_events[2 * i + 1], stream);
  const std::string& task = loaded.plan->graph->task(loaded.plan->sequence[i]).name;
  if (step.signal.valid()) {
    device->record(step.signal, stream);
    watch.mark(stream, step.signal, task);
  } else if (watch.marks_all() && step.mark.valid()) {
    device->record(step.mark, stream);
    watch.mark(stream, step.mark, task);
  }
}

void DeviceTeam::Impl::launch(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  // A trace shows each task, so a traced step runs each.
  if (!timed && step.part_of_fused) return;
  before(rank, loaded, i, timed);
  const DeviceStream stream = device_stream(rank, *loaded.plan, step.stream);
  const std::string& task = loaded.plan->graph->task(loaded.plan->sequence[i]).name;
  device->push_range(task);
  const bool fused = !timed && step.fused != nullptr;
  device->launch(stream, fused ? *step.fused : *step.task);
  device->pop_range();
  after(rank, loaded, i, timed);
  if (fused && step.fused_signal.valid()) {
    device->record(step.fused_signal, stream);
    watch.mark(stream, step.fused_signal, task);
  }
}

// With a transport, this rank's part.
void DeviceTeam::Impl::launch_collective(std::size_t plan_index, std::size_t i, bool timed) {
  Rank& rank = ranks.front();
  const DevicePlan& loaded = *rank.plans[plan_index];
  const DeviceStep& step = loaded.steps[i];
  const graph::Channel channel = loaded.plan->streams[step.stream.index()].stream.channel;
  device->push_range(loaded.plan->graph->task(loaded.plan->sequence[i]).name);
  before(rank, loaded, i, timed);
  transport->enqueue(*device, channel, device_stream(rank, *loaded.plan, step.stream), step.call);
  after(rank, loaded, i, timed);
  device->pop_range();
}

// Of all members, whose next steps it is.
void DeviceTeam::Impl::launch_collective(std::size_t plan_index, Group& group, std::span<const std::size_t> next,
                                         bool timed) {
  const std::size_t first = group.members.front();
  const plan::Plan& named = *ranks[first].plans[plan_index]->plan;
  device->push_range(named.graph->task(named.sequence[next[first]]).name);
  std::vector<GroupMember> members;
  for (const std::size_t r : group.members) {
    const DevicePlan& loaded = *ranks[r].plans[plan_index];
    const DeviceStep& step = loaded.steps[next[r]];
    before(ranks[r], loaded, next[r], timed);
    members.push_back({device_stream(ranks[r], *loaded.plan, step.stream), step.call});
  }
  group.on_device.enqueue(*device, members);
  for (const std::size_t r : group.members) after(ranks[r], *ranks[r].plans[plan_index], next[r], timed);
  device->pop_range();
}

DeviceGraph DeviceTeam::Impl::graph_of(std::size_t plan_index, const std::vector<std::size_t>& of_ranks) {
  for (const Captured& known : captured) {
    if (known.plan == plan_index && known.ranks == of_ranks) return known.graph;
  }
  const DeviceStream origin = ranks[of_ranks.front()].compute.front();
  // The capture records events of the last step's marks, and a watchdog's query of one would invalidate the capture.
  watch.clear(StepWatch::Marking::none);
  Capture capture(*device, origin);
  enqueue(plan_index, of_ranks, false);
  captured.push_back({plan_index, of_ranks, capture.end()});
  return captured.back().graph;
}

Started DeviceTeam::Impl::start(std::size_t plan_index, const std::vector<std::size_t>& of_ranks, std::int64_t step) {
  try {
    return enqueue_step(plan_index, of_ranks, step);
  } catch (...) {
    give_up(std::current_exception());
    throw;
  }
}

// The transfers around the tasks aren't part of a captured graph, because their copies change from step to step.
Started DeviceTeam::Impl::enqueue_step(std::size_t plan_index, const std::vector<std::size_t>& of_ranks,
                                       std::int64_t step) {
  if (!prepared) prepare();
  Rank& leader = ranks[of_ranks.front()];
  if (leader.under_way.size() == kMostUnderWay) throw std::logic_error("a third step, with none of two finished");
  DevicePlan& first = *leader.plans.at(plan_index);
  // The first step is traced so that there is a trace at once, the second because the first loads kernels meanwhile.
  const std::int64_t every = std::max<std::int64_t>(1, options.trace_every);
  const bool timed = options.kept_steps > 0 && (first.runs < 2 || first.runs % every == every - 1);
  // Libraries may allocate in their first calls, which no capture allows.
  const bool first_run = first.runs == 0, replay = options.graphs && !timed && !first_run;
  // A long step needs marks that show its progress, and there is one set of marks, so the next step isn't started
  // ahead. A short pause of the device doesn't matter to a long step. The first steps of a plan count as long, as their
  // time is unknown.
  const bool long_step = first.runs < kSettling || first.long_steps;
  const bool possible = transport == nullptr || !transport->needs_host();
  const bool ahead = possible && of_ranks.size() == ranks.size() && !timed && !long_step;
  const DeviceStream origin = leader.compute.front();
  const DeviceGraph graph = replay ? graph_of(plan_index, of_ranks) : DeviceGraph();
  UnderWay& now = leader.under_way.emplace_back(
      UnderWay{plan_index, of_ranks, leader.begun++, steady_now(), !leader.under_way.empty(), 0});
  watch.begin(now.begin, replay ? now.begin + (now.follows ? 3 : 2) * first.last_step_ns : 0);
  for (const std::size_t r : of_ranks) ++ranks[r].plans[plan_index]->runs;
  watch.clear(long_step ? StepWatch::Marking::all : StepWatch::Marking::signals);
  if (transport != nullptr && first.communicates) {
    transport->begin_step(!std::exchange(first.has_run[timed ? 1 : 0], true));
  }
  if (timed) device->record(step_begin_time, origin);
  enqueue_uploads(plan_index, of_ranks, now.copy());
  if (replay) {
    device->launch(origin, graph);
  } else {
    enqueue(plan_index, of_ranks, timed);
  }
  enqueue_downloads(plan_index, of_ranks, now);
  if (!ahead) {
    await(now);
    if (timed) {
      for (const std::size_t r : of_ranks) {
        const TimedStep done = {step, now.begin, step_begin_time, leader.end_of(now.number), ranks[r].timed_events};
        keep_trace(*ranks[r].plans[plan_index], *device, done, options.kept_steps);
      }
    }
  }
  return {now.copy(), ahead};
}

// A copy stream brings the inputs while the step before computes; the step takes them from there.
void DeviceTeam::Impl::enqueue_uploads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks,
                                       std::size_t copy) {
  const Rank& leader = ranks[of_ranks.front()];
  for (const std::size_t r : of_ranks) {
    const TransferBlock& block = ranks[r].plans[plan_index]->transfers.uploads;
    collect(block, copy);
    device->copy(leader.inputs, block.copies[copy].staging, block.copies[copy].pinned, block.bytes);
  }
  const DeviceStream origin = leader.compute.front();
  device->record(leader.uploaded, leader.inputs);
  device->wait(origin, leader.uploaded);
  for (const std::size_t r : of_ranks) {
    const TransferBlock& block = ranks[r].plans[plan_index]->transfers.uploads;
    for (const TransferBlock::Part& part : block.parts) {
      device->copy(origin, part.device, block.copies[copy].staging + part.offset, part.bytes);
    }
  }
}

// The results are copied to a staging area, from which a copy stream fetches them while the next step computes.
void DeviceTeam::Impl::enqueue_downloads(std::size_t plan_index, const std::vector<std::size_t>& of_ranks,
                                         const UnderWay& step) {
  const Rank& leader = ranks[of_ranks.front()];
  const DeviceStream origin = leader.compute.front();
  const DeviceEvent end = leader.end_of(step.number);
  for (const std::size_t r : of_ranks) {
    const TransferBlock& block = ranks[r].plans[plan_index]->transfers.downloads;
    for (const TransferBlock::Part& part : block.parts) {
      device->copy(origin, block.copies[step.copy()].staging + part.offset, part.device, part.bytes);
    }
  }
  device->record(end, origin);
  device->wait(leader.results, end);
  for (const std::size_t r : of_ranks) {
    const TransferBlock& block = ranks[r].plans[plan_index]->transfers.downloads;
    device->copy(leader.results, block.copies[step.copy()].pinned, block.copies[step.copy()].staging, block.bytes);
  }
  device->record(leader.delivered[step.copy()], leader.results);
}

// A second time, nothing.
void DeviceTeam::Impl::await(UnderWay& step) {
  if (step.ns > 0) return;
  const Rank& leader = ranks[step.ranks.front()];
  const DeviceEvent delivered = leader.delivered[step.copy()];
  if (transport != nullptr) wait_for(*device, delivered, *transport);
  device->synchronize(delivered);
  // The time at which the host sees the end tells nothing about a step that follows another at once.
  step.ns = step.follows ? device->elapsed_ns(leader.end_of(step.number - 1), leader.end_of(step.number))
                         : steady_now() - step.begin;
  step.ns = std::max<std::int64_t>(step.ns, 1);
  for (const std::size_t r : step.ranks) ranks[r].plans[step.plan]->last_step_ns = step.ns;
}

// Of the oldest step that the rank leads. Its results are in pinned memory then.
void DeviceTeam::Impl::finish(std::size_t leader) {
  std::deque<UnderWay>& under_way = ranks[leader].under_way;
  if (under_way.empty()) throw std::logic_error("no step was started");
  try {
    await(under_way.front());
  } catch (...) {
    give_up(std::current_exception());
    throw;
  }
  under_way.pop_front();
  watch.finish(under_way.empty());
}

// Work that is still on the stream must not touch memory that is freed after a failure.
void DeviceTeam::Impl::await_after_failure(DeviceStream stream) noexcept {
  try {
    if (stream.valid()) device->synchronize(stream);
  } catch (const std::exception&) {  // the first exception is already being thrown to the caller
  }
}

// After a failure of this rank or of a peer: releases the streams that wait for peers, so that they end. Neither the
// device nor NCCL may answer any more. Then a limit ends the process, whether a watchdog watches or not; until then the
// step counts as running.
void DeviceTeam::Impl::give_up(const std::exception_ptr& failure) {
  if (transport != nullptr) {
    const Watchdog limit = exit_after(options.release_seconds,
                                      fmt::format("rank {}: {}; the device didn't end what it had begun within {:g} s",
                                                  ranks.front().world_rank, text_of(failure), options.release_seconds));
    destroy_graphs();
    transport->stop();
    for (const auto* streams : {&ranks.front().compute, &ranks.front().channel}) {
      for (const DeviceStream stream : *streams) await_after_failure(stream);
    }
  }
  watch.stop();
}

// Between steps, where no watchdog looks: the whole state in either direction. The limit is no bar for a slow copy.
void DeviceTeam::Impl::move_state(const Rank& rank, bool to_device) {
  constexpr double kSlowest = 2e8;  // bytes a second
  if (!state_stream.valid()) state_stream = device->add_stream("state", StreamPriority::normal);
  std::byte* const host = rank.state->begin();
  const std::int64_t bytes = rank.state->bytes();
  const double seconds = options.release_seconds + static_cast<double>(bytes) / kSlowest;
  const Watchdog limit = exit_after(seconds, fmt::format("rank {}: the state's copy {} the device took over {:.0f} s",
                                                         rank.world_rank, to_device ? "to" : "from", seconds));
  if (to_device) {
    device->copy(state_stream, rank.device_state, host, bytes);
  } else {
    device->copy(state_stream, host, rank.device_state, bytes);
  }
  try {
    device->synchronize(state_stream);
  } catch (...) {
    await_after_failure(state_stream);
    throw;
  }
}

}  // namespace weft::execute
