#include "runtime/policy/pipeline/schedule_writer.h"

#include <map>
#include <utility>

namespace weft::policy {

ScheduleWriter::ScheduleWriter(const plan::ReasonTable& reasons, const PipelineShape& shape, std::int32_t rank)
    : reasons_(reasons), shape_(shape), rank_(rank), counts_(static_cast<std::size_t>(shape.chunks.chunks)) {}

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
  scheduled.reason = reason_of(scheduled);
  schedule_.push_back(std::move(scheduled));
}

plan::Reason ScheduleWriter::reason_of(const ScheduledUnit& scheduled) const {
  const auto chunk = [&](const Unit& unit) {
    return static_cast<std::uint64_t>(1 + graph::PipelineChunks::chunk_of_stage(unit.stage, shape_.ranks));
  };
  const auto work = static_cast<std::uint64_t>(scheduled.unit.work);
  if (scheduled.beside)
    return {
        .table = &reasons_, .code = kUnitsBeside, .numbers = {part_, chunk(scheduled.unit), chunk(*scheduled.beside)}};
  if (shape_.chunks.chunks == 1) return {.table = &reasons_, .code = kUnit, .numbers = {part_, work}};
  return {.table = &reasons_, .code = kUnitOfChunk, .numbers = {part_, chunk(scheduled.unit), work}};
}

RankSchedule ScheduleWriter::take() {
  std::erase_if(schedule_, [&](const ScheduledUnit& each) { return each.unit.micro_batch >= shape_.micro_batches; });
  struct Count {
    std::uint64_t all = 0, seen = 0;
  };
  std::map<std::pair<std::uint16_t, std::array<std::uint64_t, 5>>, Count> counts;
  const auto count_of = [&](const plan::Reason& reason) -> Count& { return counts[{reason.code, reason.numbers}]; };
  for (const ScheduledUnit& each : schedule_) ++count_of(each.reason).all;
  for (ScheduledUnit& each : schedule_) {
    Count& count = count_of(each.reason);
    const std::size_t place = plan::data_of(each.reason).numbers - 2;
    each.reason.numbers[place] = ++count.seen;
    each.reason.numbers[place + 1] = count.all;
  }
  return std::move(schedule_);
}

}  // namespace weft::policy
