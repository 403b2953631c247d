#include "runtime/simulate/joint_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <utility>

#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"

namespace weft::simulate {
namespace {

void make_plans(JointReport& report, const JointProblem& problem) {
  const auto begin = std::chrono::steady_clock::now();
  policy::Decision decision = policy::decide(problem.classes, *report.policy, problem.options, problem.rewrites);
  for (std::size_t k = 0; k < decision.graphs.size(); ++k) {
    report.plans.push_back(std::make_shared<const plan::Plan>(
        plan::make_plan(std::move(decision.graphs[k]), decision.orders[k], report.policy->name())));
    report.memory.push_back(plan::memory_report(*report.plans[k]));
  }
  report.rewrites = std::move(decision.rewrites);
  report.planning_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  const std::vector<plan::Violation> violations = plan::check(report.plan_pointers(), 1);
  if (!violations.empty()) throw std::runtime_error("the plans aren't safe: " + violations.front().message);
}

/// Where the phases of a stage's step end; all at its begin if it has neither forward nor backward work.
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

const plan::StepTrace& step_of_stage(const Simulation& simulation, std::size_t stage, std::size_t stages,
                                     const graph::Grid& grid) {
  const auto rank = graph::rank_of(grid, {.pipe = static_cast<std::int64_t>(stage)});
  const bool alike = simulation.ranks.size() == stages;
  return simulation.ranks.at(alike ? stage : static_cast<std::size_t>(rank)).steps.back();
}

Interval flight_of(std::span<const plan::Plan* const> plans, std::span<const plan::StepTrace* const> steps,
                   std::size_t stage, plan::Position at) {
  const plan::TaskTime own = steps[stage]->times[at.stream.index()][at.entry];
  Interval flight{own.begin, own.end};
  const graph::Channel channel = plans[stage]->streams[at.stream.index()].stream.channel;
  const auto member = [&](std::size_t other, graph::Channel end) {
    for (std::size_t s = 0; s < plans[other]->streams.size(); ++s) {
      const plan::StreamPlan& stream = plans[other]->streams[s];
      if (stream.stream.compute || stream.stream.channel != end || at.entry >= stream.entries.size()) continue;
      flight.begin = std::max(flight.begin, steps[other]->times[s][at.entry].begin);
    }
  };
  if (graph::is_message(channel)) {
    const auto peer =
        graph::peer_stage(channel, static_cast<std::int64_t>(stage), static_cast<std::int64_t>(plans.size()));
    member(static_cast<std::size_t>(peer), graph::other_end(channel));
  } else {
    for (const std::size_t other : graph::classes_of_channel(channel, plans.size())) member(other, channel);
  }
  flight.begin = std::min(flight.begin, flight.end);
  return flight;
}

std::vector<StageTimes> stage_times(std::span<const plan::Plan* const> plans,
                                    std::span<const plan::StepTrace* const> steps) {
  std::vector<StageTimes> all(plans.size());
  for (std::size_t k = 0; k < plans.size(); ++k) {
    const plan::Plan& plan = *plans[k];
    const plan::StepTrace& step = *steps[k];
    Intervals computing, communicating;
    for (std::size_t s = 0; s < plan.streams.size(); ++s) {
      const plan::Stream& stream = plan.streams[s].stream;
      if (!stream.compute && plan.graph->is_local(stream.channel)) continue;
      for (std::uint32_t e = 0; e < plan.streams[s].entries.size(); ++e) {
        const plan::TaskTime& time = step.times[s][e];
        if (stream.compute) {
          computing.push_back({time.begin, time.end});
        } else {
          communicating.push_back(flight_of(plans, steps, k, {plan::StreamId(s), e}));
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
    StageTimes& times = all[k];
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

double JointReport::gap() const {
  if (bounds.best() <= 0) return 0;
  const double gap = step_ns() / bounds.best() - 1;
  return std::abs(gap) < 1e-9 ? 0 : gap;  // the two add the same times in different orders
}

double JointReport::bubble_share() const {
  double idle = 0, all = 0;
  for (const StageTimes& stage : times) {
    idle += stage.idle();
    all += stage.idle() + stage.compute;
  }
  return all > 0 ? idle / all : 0;
}

std::int64_t JointReport::peak_memory_bytes() const {
  std::int64_t most = 0;
  for (const plan::MemoryReport& stage : memory) most = std::max(most, stage.total());
  return most;
}

std::vector<const plan::Plan*> JointReport::plan_pointers() const {
  std::vector<const plan::Plan*> pointers;
  for (const auto& plan : plans) pointers.push_back(plan.get());
  return pointers;
}

std::vector<const plan::StepTrace*> JointReport::steps() const {
  std::vector<const plan::StepTrace*> pointers;
  for (std::size_t k = 0; k < plans.size(); ++k) pointers.push_back(&step(k));
  return pointers;
}

void simulate_again(JointReport& report, const JointProblem& problem) {
  SimulationOptions options = problem.simulation;
  options.grid = report.grid = problem.grid;
  if (options.link_of_channel.empty()) options.link_of_channel = links_of_channels(problem.machine, problem.grid);
  std::vector<std::shared_ptr<const graph::Graph>> graphs;
  report.costs.clear();
  for (const auto& plan : report.plans) {
    graphs.push_back(plan->graph);
    report.costs.push_back(policy::costs_of(*plan->graph, problem.options));
  }
  report.simulation = simulate_together(report.plan_pointers(), report.costs, problem.machine, options);
  report.bounds =
      lower_bounds(graphs, report.costs, problem.machine, problem.options.compute_streams, options.link_of_channel);
  report.times = stage_times(report.plan_pointers(), report.steps());
}

JointReport report_together(const JointProblem& problem, const policy::NamedPolicy& policy) {
  JointReport report;
  report.policy = policy;
  try {
    make_plans(report, problem);
    simulate_again(report, problem);
  } catch (const std::exception& error) {
    report.refusal = error.what();
  }
  return report;
}

}  // namespace weft::simulate
