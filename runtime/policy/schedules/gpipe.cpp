#include "runtime/policy/schedules/gpipe.h"

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule GpipePolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(kReasons, shape, rank);
  writer.begin(Part::all_forward);
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) writer.forward();
  writer.begin(Part::all_backward);
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) writer.backward();
  return writer.take();
}

}  // namespace weft::policy
