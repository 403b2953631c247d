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

}  // namespace

simulate::Problem with_traced_costs(simulate::Problem problem, const plan::Plan& plan,
                                    const plan::Recording& recording) {
  cost::ProfileSamples samples;
  for (const plan::RecordedRank& rank : recording.ranks) {
    for (const plan::RecordedStep& step : rank.steps) samples.add(plan, step_trace(plan, step));
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
