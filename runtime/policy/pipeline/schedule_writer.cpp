#include "runtime/policy/pipeline/schedule_writer.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace weft::policy {

ScheduleWriter::ScheduleWriter(std::string_view policy, const PipelineShape& shape, std::int32_t rank)
    : policy_(policy), shape_(shape), rank_(rank), counts_(static_cast<std::size_t>(shape.chunks.chunks)) {}

Unit ScheduleWriter::next(Work work, std::int32_t chunk) {
  Counts& counts = counts_[static_cast<std::size_t>(chunk)];
  const auto of = [&](Work part) -> std::int32_t& { return counts[static_cast<std::size_t>(part)]; };
  const std::int32_t micro_batch = of(work == Work::backward ? Work::input : work)++;
  if (work == Work::backward) ++of(Work::weight);
  return {work, micro_batch, shape_.stage_on(rank_, chunk)};
}

void ScheduleWriter::forward_beside_backward(std::int32_t forward, std::int32_t backward) {
  const Unit unit = next(Work::forward, forward);
  add({unit, next(Work::backward, backward)});
}

void ScheduleWriter::add(ScheduledUnit scheduled) {
  scheduled.reason = part_;
  schedule_.push_back(std::move(scheduled));
}

std::string ScheduleWriter::label(const ScheduledUnit& scheduled) const {
  const auto text = [&](const Unit& unit) {
    if (shape_.chunks.chunks == 1) return std::string(to_string(unit.work));
    return fmt::format("chunk {} {}", 1 + graph::PipelineChunks::chunk_of_stage(unit.stage, shape_.ranks),
                       to_string(unit.work));
  };
  std::string label = fmt::format("{}: {}, {}", policy_, scheduled.reason, text(scheduled.unit));
  if (scheduled.beside) label += " beside " + text(*scheduled.beside);
  return label;
}

RankSchedule ScheduleWriter::take() {
  std::erase_if(schedule_, [&](const ScheduledUnit& each) { return each.unit.micro_batch >= shape_.micro_batches; });
  struct Count {
    int all = 0, seen = 0;
  };
  std::map<std::string, Count> counts;
  for (ScheduledUnit& each : schedule_) {
    each.reason = label(each);
    ++counts[each.reason].all;
  }
  for (ScheduledUnit& each : schedule_) {
    Count& count = counts[each.reason];
    each.reason += fmt::format(" {} of {}", ++count.seen, count.all);
  }
  return std::move(schedule_);
}

}  // namespace weft::policy
