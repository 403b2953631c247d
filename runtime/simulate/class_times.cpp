#include "runtime/simulate/class_times.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "graph/meetings.h"

namespace weft::simulate {
namespace {

/// Where the phases of a class's step end; all at its begin if it has neither forward nor backward work.
struct Phases {
  std::int64_t warm_up, steady, drain;
};

Phases phases_of(const plan::Plan& plan, const plan::StepTrace& step) {
  std::int64_t first_backward = step.end, last_forward = step.begin, last_backward = step.begin;
  for (std::size_t s = 0; s < plan.streams.size(); ++s) {
    if (!plan.streams[s].stream.compute) continue;
    for (std::size_t e = 0; e < plan.streams[s].entries.size(); ++e) {
      const graph::Task& task = plan.graph->task(plan.streams[s].entries[e].task);
      const plan::TaskTime& time = step.times[s][e];
      if (task.stage < 0) continue;
      if (task.phase == graph::Phase::forward) last_forward = std::max(last_forward, time.end);
      if (task.phase != graph::Phase::backward) continue;
      first_backward = std::min(first_backward, time.begin);
      last_backward = std::max(last_backward, time.end);
    }
  }
  const std::int64_t end = std::max(last_forward, last_backward), warm_up = std::min(first_backward, end);
  return {warm_up, std::max(warm_up, last_forward), end};
}

}  // namespace

std::vector<ChannelTimes> channel_times(const plan::Plan& plan, const plan::StepTrace& step) {
  const plan::BusyTimes busy = plan::busy_times(plan, step);
  std::vector<ChannelTimes> channels;
  for (std::size_t i = 0; i < plan.streams.size(); ++i) {
    const plan::Stream& stream = plan.streams[i].stream;
    if (stream.compute || plan.graph->is_local(stream.channel)) continue;
    channels.push_back({stream.name, static_cast<double>(total_length(busy.streams[i])),
                        static_cast<double>(total_length(difference(busy.streams[i], busy.compute)))});
  }
  return channels;
}

AloneTimes alone_times(const graph::Graph& graph, const cost::TaskCosts& costs) {
  AloneTimes alone;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    const graph::Operation& operation = graph.tasks()[i].operation;
    const bool communicates = graph::is_collective(operation);
    if (!communicates && graph::channel_of(operation) != nullptr) continue;  // of a CPU thread, say
    (communicates ? alone.communication_ns : alone.compute_ns) += costs.ns[i];
  }
  return alone;
}

double bubble_share(std::span<const ClassTimes> classes) {
  double idle = 0, all = 0;
  for (const ClassTimes& each : classes) {
    idle += each.idle();
    all += each.idle() + each.compute;
  }
  return all > 0 ? idle / all : 0;
}

std::vector<PlayedClasses::Member> PlayedClasses::members(std::size_t of_class, plan::Position at) const {
  const plan::Plan& own = *plans[of_class];
  const graph::Channel channel = own.streams[at.stream.index()].stream.channel;
  std::vector<Member> found;
  for (const auto& [other, end] : graph::channels_together(*own.graph, of_class, plans.size(), channel)) {
    const std::vector<plan::StreamPlan>& streams = plans[other]->streams;
    const auto stream = std::ranges::find_if(
        streams, [&](const plan::StreamPlan& s) { return !s.stream.compute && s.stream.channel == end; });
    if (stream == streams.end() || at.entry >= stream->entries.size()) continue;
    found.push_back({other, {plan::StreamId(static_cast<std::size_t>(stream - streams.begin())), at.entry}});
  }
  return found;
}

Interval PlayedClasses::flight(std::size_t of_class, plan::Position at) const {
  Interval flight = steps[of_class]->times[at.stream.index()][at.entry];
  for (const Member& member : members(of_class, at)) {
    flight.begin = std::max(flight.begin, steps[member.of_class]->times[member.at.stream.index()][at.entry].begin);
  }
  flight.begin = std::min(flight.begin, flight.end);
  return flight;
}

std::vector<ClassTimes> class_times(const PlayedClasses& played) {
  std::vector<ClassTimes> all(played.plans.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const plan::Plan& plan = *played.plans[k];
    const plan::StepTrace& step = *played.steps[k];
    Intervals computing, communicating;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      const plan::Stream& stream = plan.streams[s].stream;
      if (!stream.compute && plan.graph->is_local(stream.channel)) continue;
      for (std::uint32_t e = 0; e < plan.streams[s].entries.size(); ++e) {
        if (stream.compute) {
          computing.push_back(step.times[s][e]);
        } else {
          communicating.push_back(played.flight(k, {plan::StreamId(s), e}));
        }
      }
    }
    computing = merged(std::move(computing));
    communicating = merged(std::move(communicating));
    const Intervals idle = difference({{step.begin, step.end}}, computing);
    const Phases phases = phases_of(plan, step);
    const auto within = [&](std::int64_t begin, std::int64_t end) {
      return begin >= end ? 0.0 : static_cast<double>(total_length(intersection(idle, {{begin, end}})));
    };
    ClassTimes& times = all[k];
    times.compute = static_cast<double>(total_length(computing));
    times.idle_warm_up = within(step.begin, phases.warm_up);
    times.idle_steady = within(phases.warm_up, phases.steady);
    times.idle_drain = within(phases.steady, phases.drain);
    times.idle_end = within(phases.drain, step.end);
    times.communication = static_cast<double>(total_length(communicating));
    times.exposed = static_cast<double>(total_length(difference(communicating, computing)));
  }
  return all;
}

}  // namespace weft::simulate
