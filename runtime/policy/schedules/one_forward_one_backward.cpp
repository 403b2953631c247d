#include "runtime/policy/schedules/one_forward_one_backward.h"

#include <algorithm>

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule OneForwardOneBackwardPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(name(), shape, rank);
  const std::int32_t warm_up = std::min(shape.micro_batches, shape.ranks - rank - 1);
  writer.begin("warm-up");
  for (std::int32_t i = 0; i < warm_up; ++i) writer.forward();
  writer.begin("steady");
  for (std::int32_t i = warm_up; i < shape.micro_batches; ++i) {
    writer.forward();
    writer.backward();
  }
  writer.begin("cool-down");
  for (std::int32_t i = 0; i < warm_up; ++i) writer.backward();
  return writer.take();
}

}  // namespace weft::policy
