#include "runtime/policy/schedules/one_forward_one_backward.h"

#include <algorithm>

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule OneForwardOneBackwardPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(kReasons, shape, rank);
  const std::int32_t warm_up = std::min(shape.micro_batches, shape.ranks - rank - 1);
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < warm_up; ++i) writer.forward();
  writer.begin(Part::steady);
  for (std::int32_t i = warm_up; i < shape.micro_batches; ++i) {
    writer.forward();
    writer.backward();
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < warm_up; ++i) writer.backward();
  return writer.take();
}

}  // namespace weft::policy
