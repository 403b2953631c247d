#include "runtime/policy/schedules/zb_h1.h"

#include <algorithm>

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule ZbH1Policy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(kReasons, shape, rank);
  const std::int32_t warm_up = std::min(shape.micro_batches, shape.ranks - rank - 1);
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < warm_up; ++i) writer.forward();
  writer.begin(Part::steady);
  for (std::int32_t i = warm_up; i < shape.micro_batches; ++i) {
    writer.forward();
    writer.input();
    if (writer.count(Work::input) > rank) writer.weight();
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < warm_up; ++i) {
    writer.input();
    writer.weight();
  }
  writer.begin(Part::at_the_end);
  while (writer.count(Work::weight) < shape.micro_batches) writer.weight();
  return writer.take();
}

}  // namespace weft::policy
