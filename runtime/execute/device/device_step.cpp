// One step of a team: the order of enqueueing, the wait for its end, and its results.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/execute/device/device_team.h"
#include "runtime/execute/watchdog.h"

namespace weft::execute {

void DeviceTeam::destroy_graphs() {
  for (const Captured& graph : captured) device->destroy(graph.graph);
  captured.clear();
}

// Enqueues the tasks of one step of some ranks, between their inputs and their results. With `timed`, events are
// recorded before and after every task.
void DeviceTeam::enqueue(const RanksOfPlan& of, bool timed) {
  const DeviceStream origin = ranks[of.ranks.front()].compute.front();
  const auto for_other_streams = [&](const auto& body) {
    for (const std::size_t r : of.ranks) {
      Rank& rank = ranks[r];
      const plan::Plan& plan = *rank.plans[of.plan]->plan;
      for (std::size_t s = 0; s < plan.streams.size(); ++s) {
        const DeviceStream stream = rank.stream(plan, plan::StreamId(s));
        if (stream != origin) body(stream, rank.stream_ends[s]);
      }
    }
  };
  device->record(step_begin, origin);
  for_other_streams([&](DeviceStream stream, DeviceEvent) { device->wait(stream, step_begin); });
  enqueue_tasks(of, timed);
  for_other_streams([&](DeviceStream stream, DeviceEvent end) {
    device->record(end, stream);
    device->wait(origin, end);
  });
}

// Each rank in turn enqueues its next task. Ranks of different pipeline stages have different plans: a rank that has
// come to a collective stays there until all of its group have, and then they enqueue it together. So a rank comes to
// one collective after the other, in the order in which the stages' plans are proved to run to their end
// (plan::check(), Kind::one_queue).
void DeviceTeam::enqueue_tasks(const RanksOfPlan& of, bool timed) {
  std::vector<std::size_t> next(ranks.size(), 0);
  std::vector<bool> stays(ranks.size(), false);
  for (Group& group : groups) group.arrived = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const std::size_t r : of.ranks) {
      const DevicePlan& loaded = *ranks[r].plans[of.plan];
      if (stays[r] || next[r] == loaded.steps.size()) continue;
      moved = true;
      const DeviceStep& step = loaded.steps[next[r]];
      if (step.task != nullptr) {
        launch(ranks[r], loaded, next[r]++, timed);
        continue;
      }
      if (step.gathered_later && !timed) {  // a traced step runs each collective, as each task
        ++next[r];
        continue;
      }
      const graph::Channel channel = loaded.plan->streams[step.stream.index()].stream.channel;
      Group& group = groups[group_of[static_cast<std::size_t>(channel)][r]];
      stays[r] = true;
      if (++group.arrived < group.members.size()) continue;
      launch_collective(of.plan, group, next, timed);
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

void DeviceTeam::before(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = rank.stream(*loaded.plan, step.stream);
  if (rank.leaves_from && step.state_parts > 0) state_pieces.until_left(*rank.leaves_from + step.state_parts);
  for (const DeviceEvent event : step.waits) device->wait(stream, event);
  if (timed) device->record(rank.timed_events[2 * i], stream);
}

void DeviceTeam::after(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  const DeviceStream stream = rank.stream(*loaded.plan, step.stream);
  if (timed) device->record(rank.timed_events[2 * i + 1], stream);
  for (const auto& look : step.looks) device->launch(stream, *look);
  const std::string& task = loaded.plan->graph->task(loaded.plan->sequence[i]).name;
  if (step.signal.valid()) {
    device->record(step.signal, stream);
    watch.mark(stream, step.signal, task);
  } else if (watch.marks_all() && step.mark.valid()) {
    device->record(step.mark, stream);
    watch.mark(stream, step.mark, task);
  }
}

void DeviceTeam::launch(Rank& rank, const DevicePlan& loaded, std::size_t i, bool timed) {
  const DeviceStep& step = loaded.steps[i];
  // A trace shows each task, so a traced step runs each.
  if (!timed && step.part_of_fused) return;
  before(rank, loaded, i, timed);
  const DeviceStream stream = rank.stream(*loaded.plan, step.stream);
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

void DeviceTeam::launch_gathers(Rank& rank, const DevicePlan& loaded, const DeviceStep& last) {
  const plan::Stream& stream = loaded.plan->streams[last.stream.index()].stream;
  for (const std::size_t i : last.gathers) before(rank, loaded, i, false);
  transport->enqueue_gathers(*device, stream.channel, rank.stream(*loaded.plan, last.stream), last.gather_calls);
  for (const std::size_t i : last.gathers) after(rank, loaded, i, false);
}

// Of all members, whose next steps it is.
void DeviceTeam::launch_collective(std::size_t plan, Group& group, std::span<const std::size_t> next, bool timed) {
  const std::size_t first = group.members.front();
  const DevicePlan& named = *ranks[first].plans[plan];
  device->push_range(named.plan->graph->task(named.plan->sequence[next[first]]).name);
  if (const DeviceStep& last = named.steps[next[first]]; !timed && !last.gathers.empty()) {
    launch_gathers(ranks[first], named, last);
    device->pop_range();
    return;
  }
  std::vector<GroupMember> members;
  for (const std::size_t r : group.members) {
    const DevicePlan& loaded = *ranks[r].plans[plan];
    const DeviceStep& step = loaded.steps[next[r]];
    before(ranks[r], loaded, next[r], timed);
    members.push_back({ranks[r].stream(*loaded.plan, step.stream), step.call});
  }
  if (transport != nullptr) {
    const plan::StreamId stream = named.steps[next[first]].stream;
    const graph::Channel channel = named.plan->streams[stream.index()].stream.channel;
    transport->enqueue(*device, channel, members.front().stream, members.front().call);
  } else {
    group.on_device->enqueue(*device, members);
  }
  for (const std::size_t r : group.members) after(ranks[r], *ranks[r].plans[plan], next[r], timed);
  device->pop_range();
}

DeviceGraph DeviceTeam::graph_of(const RanksOfPlan& of, bool timed) {
  const auto known =
      std::ranges::find_if(captured, [&](const Captured& graph) { return graph.timed == timed && graph.of == of; });
  if (known != captured.end()) return known->graph;
  // The capture records events of the last step's marks, and a watchdog's query of one would invalidate the capture.
  watch.clear(StepWatch::Marking::none);
  const DeviceStream origin = ranks[of.ranks.front()].compute.front();
  device->begin_capture(origin);
  try {
    enqueue(of, timed);
  } catch (...) {
    device->abandon_capture(origin);  // so that its streams run again
    throw;
  }
  captured.push_back({of, timed, device->end_capture(origin)});
  return captured.back().graph;
}

Started DeviceTeam::start(const RanksOfPlan& of, std::int64_t step) {
  try {
    return enqueue_step(of, step);
  } catch (const std::exception& error) {
    give_up(error.what());
    throw;
  }
}

// The transfers around the tasks aren't part of a captured graph, because their copies change from step to step.
Started DeviceTeam::enqueue_step(const RanksOfPlan& of, std::int64_t step) {
  if (!prepared) prepare();
  Rank& leader = ranks[of.ranks.front()];
  if (leader.under_way.size() == kMostUnderWay) throw std::logic_error("a third step, with none of two finished");
  DevicePlan& first = *leader.plans.at(of.plan);
  // The first step is traced so that there is a trace at once, the second because the first loads kernels meanwhile.
  const std::int64_t every = std::max<std::int64_t>(1, options.trace_every);
  const bool timed = options.kept_steps > 0 && (first.runs < 2 || first.runs % every == every - 1);
  // Libraries may allocate in their first calls, which no capture allows.
  const bool first_run = first.runs == 0;
  // The host waits for parts of the state that leave, between the tasks of a step. All ranks leave at once, so that
  // either all of them replay or none.
  const bool waits_for_state =
      std::ranges::any_of(of.ranks, [&](std::size_t r) { return ranks[r].leaves_from.has_value(); });
  const bool replay = options.graphs && !first_run && !waits_for_state;
  // A long step needs marks that show its progress, and there is one set of marks, so the next step isn't started
  // ahead. A short pause of the device doesn't matter to a long step. The first steps of a plan count as long, as their
  // time is unknown.
  const bool long_step = first.runs < kSettling || first.long_steps;
  const bool possible = transport == nullptr || !transport->needs_host();
  const bool ahead = possible && of.ranks.size() == ranks.size() && !timed && !long_step;
  const DeviceStream origin = leader.compute.front();
  const DeviceGraph graph = replay ? graph_of(of, timed) : DeviceGraph();
  UnderWay& now =
      leader.under_way.emplace_back(UnderWay{of, leader.begun++, steady_now(), !leader.under_way.empty(), 0});
  watch.begin(now.begin, replay ? now.begin + (now.follows ? 3 : 2) * first.last_step_ns : 0);
  for (const std::size_t r : of.ranks) ++ranks[r].plans[of.plan]->runs;
  watch.clear(long_step ? StepWatch::Marking::all : StepWatch::Marking::signals);
  if (transport != nullptr && first.communicates) {
    transport->begin_step(!std::exchange(first.has_run[timed ? 1 : 0], true));
  }
  if (timed) device->record(step_begin_time, origin);
  enqueue_uploads(of, now.copy());
  if (replay) {
    device->launch(origin, graph);
  } else {
    enqueue(of, timed);
  }
  if (waits_for_state) leave_all(of);
  enqueue_downloads(now);
  if (!ahead) {
    await(now);
    if (timed) {
      for (const std::size_t r : of.ranks) {
        const TimedStep done = {step, now.begin, step_begin_time, leader.end_of(now.number), ranks[r].timed_events};
        keep_trace(*ranks[r].plans[of.plan], *device, done, options.kept_steps);
      }
    }
  }
  return {now.copy(), ahead};
}

// What this step doesn't change another may.
void DeviceTeam::leave_all(const RanksOfPlan& of) {
  for (const std::size_t r : of.ranks) {
    Rank& rank = ranks[r];
    if (rank.leaves_from) state_pieces.until_left(*rank.leaves_from + rank.state_parts.size());
    rank.leaves_from.reset();
  }
}

// A copy stream brings the inputs while the step before computes; the step takes them from there.
void DeviceTeam::enqueue_uploads(const RanksOfPlan& of, std::size_t copy) {
  const Rank& leader = ranks[of.ranks.front()];
  for (const std::size_t r : of.ranks) {
    const TransferBlock& block = ranks[r].plans[of.plan]->transfers.uploads;
    collect(block, copy);
    device->copy(leader.inputs, block.copies[copy].staging, block.copies[copy].pinned, block.bytes);
  }
  const DeviceStream origin = leader.compute.front();
  device->record(leader.uploaded, leader.inputs);
  device->wait(origin, leader.uploaded);
  for (const std::size_t r : of.ranks) {
    const TransferBlock& block = ranks[r].plans[of.plan]->transfers.uploads;
    for (const TransferBlock::Part& part : block.parts) {
      device->copy(origin, part.device, block.copies[copy].staging + part.offset, part.bytes);
    }
  }
}

// The results are copied to a staging area, from which a copy stream fetches them while the next step computes.
void DeviceTeam::enqueue_downloads(const UnderWay& step) {
  const RanksOfPlan& of = step.of;
  const Rank& leader = ranks[of.ranks.front()];
  const DeviceStream origin = leader.compute.front();
  const DeviceEvent end = leader.end_of(step.number);
  for (const std::size_t r : of.ranks) {
    const TransferBlock& block = ranks[r].plans[of.plan]->transfers.downloads;
    for (const TransferBlock::Part& part : block.parts) {
      device->copy(origin, block.copies[step.copy()].staging + part.offset, part.device, part.bytes);
    }
  }
  device->record(end, origin);
  device->wait(leader.results, end);
  for (const std::size_t r : of.ranks) {
    const TransferBlock& block = ranks[r].plans[of.plan]->transfers.downloads;
    device->copy(leader.results, block.copies[step.copy()].pinned, block.copies[step.copy()].staging, block.bytes);
  }
  device->record(leader.delivered[step.copy()], leader.results);
}

// A second time, nothing.
void DeviceTeam::await(UnderWay& step) {
  if (step.ns > 0) return;
  const Rank& leader = ranks[step.of.ranks.front()];
  const DeviceEvent delivered = leader.delivered[step.copy()];
  if (transport != nullptr) wait_for(*device, delivered, *transport);
  device->synchronize(delivered);
  // The time at which the host sees the end tells nothing about a step that follows another at once.
  step.ns = step.follows ? device->elapsed_ns(leader.end_of(step.number - 1), leader.end_of(step.number))
                         : steady_now() - step.begin;
  step.ns = std::max<std::int64_t>(step.ns, 1);
  for (const std::size_t r : step.of.ranks) ranks[r].plans[step.of.plan]->last_step_ns = step.ns;
}

void DeviceTeam::finish(std::size_t leader) {
  std::deque<UnderWay>& under_way = ranks[leader].under_way;
  if (under_way.empty()) throw std::logic_error("no step was started");
  try {
    await(under_way.front());
  } catch (const std::exception& error) {
    give_up(error.what());
    throw;
  }
  under_way.pop_front();
  watch.finish(under_way.empty());
}

// Work that is still on the stream must not touch memory that is freed after a failure.
void DeviceTeam::await_after_failure(DeviceStream stream) noexcept {
  try {
    if (stream.valid()) device->synchronize(stream);
  } catch (const std::exception&) {  // the first exception is already being thrown to the caller
  }
}

// After a failure of this rank or of a peer: releases the streams that wait for peers, so that they end. Neither the
// device nor NCCL may answer any more. Then a limit ends the process, whether a watchdog watches or not; until then the
// step counts as running.
void DeviceTeam::give_up(const std::string& cause) {
  if (transport != nullptr) {
    const Watchdog limit = exit_after(options.release_seconds,
                                      fmt::format("rank {}: {}; the device didn't end what it had begun within {:g} s",
                                                  ranks.front().world_rank, cause, options.release_seconds));
    destroy_graphs();
    transport->stop();
    for (const auto* streams : {&ranks.front().compute, &ranks.front().channel}) {
      for (const DeviceStream stream : *streams) await_after_failure(stream);
    }
  }
  watch.stop();
}

// The limit is no bar for a slow copy.
void DeviceTeam::with_state_limit(std::size_t index, const char* direction, const std::function<void()>& body) {
  constexpr double kSlowest = 2e8;  // bytes a second
  const std::lock_guard lock(mutex);
  const Rank& rank = ranks[index];
  const double seconds = options.release_seconds + static_cast<double>(rank.memory.state->bytes()) / kSlowest;
  const Watchdog limit = exit_after(seconds, fmt::format("rank {}: the state's copy {} the device took over {:.0f} s",
                                                         rank.world_rank, direction, seconds));
  try {
    body();
  } catch (...) {
    await_after_failure(state_pieces.stream());
    throw;
  }
}

void DeviceTeam::move_state(std::size_t index, bool to_device) {
  with_state_limit(index, to_device ? "to" : "from", [&] {
    const PlanMemory& memory = ranks[index].memory;
    const std::vector<StatePart> parts =
        parts_of({memory.state->begin(), memory.of_state, memory.state->bytes()}, options.state_piece_bytes);
    if (to_device) return state_pieces.bring(parts);
    state_pieces.take(parts);
    state_pieces.finish();
  });
}

bool DeviceTeam::start_state(std::size_t index) {
  if (!prepared) return false;
  with_state_limit(index, "from", [&] { ranks[index].leaves_from = state_pieces.take(ranks[index].state_parts); });
  return true;
}

void DeviceTeam::finish_state(std::size_t index) {
  with_state_limit(index, "from", [&] {
    state_pieces.finish();
    ranks[index].leaves_from.reset();
  });
}

}  // namespace weft::execute
