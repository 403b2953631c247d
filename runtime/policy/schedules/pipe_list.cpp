#include "runtime/policy/schedules/pipe_list.h"

#include "runtime/policy/pipeline/chunks_parameter.h"
#include "runtime/policy/pipeline/unit_list.h"

namespace weft::policy {

PipeListPolicy::PipeListPolicy(PolicyParameters& parameters) : chunks_(chunks_parameter(parameters)) {}

PipelineSchedules PipeListPolicy::schedules(const PipelineProgram& program, const PolicyOptions& options) const {
  const UnitModel model(program, options);
  const std::vector<NamedSequences> lists = all_unit_lists(model);
  return chosen_schedules(model, best_of(lists), kReasons, lists.size());
}

}  // namespace weft::policy
