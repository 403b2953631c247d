#include "study/traced_costs.h"

#include <memory>
#include <utility>

#include "runtime/cost/profile.h"

namespace weft::study {
namespace {

plan::StepTrace step_trace(const plan::Plan& plan, const plan::RecordedStep& step) {
  plan::StepTrace trace{.step = step.step, .begin = step.begin, .end = step.end, .times = {}};
  for (const plan::StreamPlan& stream : plan.streams) trace.times.emplace_back(stream.entries.size());
  for (std::size_t i = 0; i < plan.sequence.size(); ++i) {
    const plan::Position& at = plan.position[plan.sequence[i].index()];
    trace.times[at.stream.index()][at.entry] = step.times[i];
  }
  return trace;
}

/// Adds a step of one rank of each class.
void add_step(cost::ProfileSamples& samples, std::span<const plan::Plan* const> plans,
              const std::vector<plan::StepTrace>& steps) {
  simulate::PlayedClasses played{.plans = {plans.begin(), plans.end()}};
  for (const plan::StepTrace& step : steps) played.steps.push_back(&step);
  for (std::size_t k = 0; k < plans.size(); ++k) {
    plan::StepTrace own = steps[k];
    for (std::size_t s = 0; s < own.times.size(); ++s) {
      if (!graph::is_message(plans[k]->streams[s].stream.channel)) continue;
      for (std::uint32_t e = 0; e < own.times[s].size(); ++e) {
        own.times[s][e].begin = played.flight(k, {plan::StreamId(s), e}).begin;
      }
    }
    samples.add(*plans[k], own);
  }
}

}  // namespace

simulate::Problem with_traced_costs(simulate::Problem problem, std::span<const plan::Plan* const> plans,
                                    std::span<const plan::Recording> recordings) {
  cost::ProfileSamples samples;
  const std::vector<plan::RecordedRank>& ranks = recordings.front().ranks;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t step = 0; step < ranks[rank].steps.size(); ++step) {
      std::vector<plan::StepTrace> steps;
      for (std::size_t k = 0; k < plans.size(); ++k) {
        steps.push_back(step_trace(*plans[k], recordings[k].ranks.at(rank).steps.at(step)));
      }
      add_step(samples, plans, steps);
    }
  }
  cost::Profile profile;
  profile.machine = "this run";
  profile.grid = problem.grid;
  profile.entries = samples.entries();
  problem.options.cost_model = cost::profiled_costs(std::move(profile), problem.options.cost_model);
  problem.machine.shared_cores = false;
  problem.machine.slowdowns.clear();
  problem.options.machine = std::make_shared<const cost::Machine>(problem.machine);
  return problem;
}

}  // namespace weft::study
