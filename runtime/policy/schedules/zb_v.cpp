#include "runtime/policy/schedules/zb_v.h"

#include <algorithm>

#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule ZbVPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(kReasons, shape, rank);
  const std::int32_t ranks = shape.ranks, micro_batches = std::max(shape.micro_batches, 2 * ranks - 1);
  const auto input_and_weight = [&](std::int32_t chunk) {
    writer.input(chunk);
    writer.weight(chunk);
  };
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) writer.forward(0);
  for (std::int32_t i = 0; i < rank; ++i) {
    writer.forward(1);
    writer.forward(0);
  }
  for (std::int32_t i = 0; i < ranks - rank; ++i) {
    writer.forward(1);
    input_and_weight(1);
  }
  writer.begin(Part::steady);
  while (writer.count(Work::forward, 1) < micro_batches) {
    if (writer.count(Work::forward, 0) < micro_batches) writer.forward(0);
    input_and_weight(0);
    writer.forward(1);
    input_and_weight(1);
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < rank; ++i) {
    writer.input(0);
    writer.input(1);
  }
  for (std::int32_t i = 0; i < ranks - rank; ++i) input_and_weight(0);
  writer.begin(Part::at_the_end);
  for (const std::int32_t chunk : {1, 0}) {
    while (writer.count(Work::weight, chunk) < micro_batches) writer.weight(chunk);
  }
  return writer.take();
}

}  // namespace weft::policy
