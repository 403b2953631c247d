#include "study/search/stage_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/pipeline_layout.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/simulate/report.h"
#include "study/search/small_steps.h"
#include "train/step/planning.h"
#include "train/step/step_config.h"

namespace weft::study {

std::optional<StageSteps::Step> StageSteps::step_by(const policy::NamedPolicy& schedule,
                                                    const std::array<graph::Axis, 4>& order) const {
  const std::int64_t pipe = choice_.grid.pipe, stages = schedule->chunks().stages(pipe);
  train::ResolvedRun whole = run_;
  whole.config = with_choice(std::move(whole.config), choice_);
  whole.config.grid.order = order;
  whole.config.policy = schedule.name;
  whole.config.policy_chunks = schedule->chunks();
  whole.config.memory = 0;  // the limit is compared with the whole step's memory
  whole.policy = schedule;
  const std::int64_t layers = whole.config.model.layers;
  if (stages > layers) return std::nullopt;
  const std::vector<std::int64_t> of_stages =
      ops::balanced_layout(whole.config.model, whole.config.seq_len, pipe, schedule->chunks()).layers;
  const bool small_enough = layers <= 2 * stages;
  const std::int64_t all = small_enough ? layers : stages * *std::ranges::max_element(of_stages);
  const SmallSteps sizes(all, train::accumulation(whole.config), {stages, small_enough ? layers : 2 * stages},
                         {2 * pipe, 3 * pipe});
  std::vector<double> ns, bytes;
  for (const SmallSteps::Size& size : sizes.sizes()) {
    train::ResolvedRun small = whole;
    small.config.model.layers = size.layers;
    small.config.global_batch = size.micro_batches * small.config.micro_batch * small.config.grid.batch_ranks();
    try {
      train::fill_in(small.config, 0);
    } catch (const UserError&) {
      return std::nullopt;  // more stages than layers
    }
    const simulate::Report report = simulate::report_plan(train::planning_problem(small), schedule);
    if (!report.planned()) return std::nullopt;
    ns.push_back(report.step_ns());
    bytes.push_back(static_cast<double>(report.memory_bytes()));
  }
  return Step{sizes.extrapolated(ns), static_cast<std::int64_t>(sizes.extrapolated(bytes))};
}

std::optional<StageSteps::Step> StageSteps::best(const std::array<graph::Axis, 4>& order, std::int64_t limit) const {
  std::optional<Step> best;
  const auto fits = [&](const Step& step) { return limit <= 0 || step.bytes <= limit; };
  for (const policy::NamedPolicy& schedule : schedules_) {
    const std::optional<Step> step = step_by(schedule, order);
    if (!step) continue;
    const bool better = !best || (fits(*step) != fits(*best) ? fits(*step)
                                  : fits(*step)              ? step->ns < best->ns
                                                             : step->bytes < best->bytes);
    if (better) best = step;
  }
  return best;
}

}  // namespace weft::study
