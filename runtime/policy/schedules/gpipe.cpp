#include "runtime/policy/schedules/gpipe.h"

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule GpipePolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(name(), shape, rank);
  writer.begin("all forward first");
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) writer.forward();
  writer.begin("all backward last");
  for (std::int32_t i = 0; i < shape.micro_batches; ++i) writer.backward();
  return writer.take();
}

}  // namespace weft::policy
