#include "runtime/policy/schedules/interleaved.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

RankSchedule InterleavedPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  const std::int32_t ranks = shape.ranks, chunks = static_cast<std::int32_t>(chunks_);
  if (shape.micro_batches % ranks != 0) {
    const std::int32_t more = (shape.micro_batches / ranks + 1) * ranks;
    throw UserError(
        fmt::format("policy interleaved: {} micro-batches on {} pipeline ranks", shape.micro_batches, ranks),
        fmt::format("a multiple of {} micro-batches a step", ranks),
        fmt::format("choose --global-batch and --micro-batch so that there are {}, or policy 1f1b", more));
  }
  ScheduleWriter writer(kReasons, shape, rank);
  const std::int32_t passes = shape.micro_batches * chunks;
  const std::int32_t warm_up = std::min(passes, 2 * (ranks - rank - 1) + (chunks - 1) * ranks);
  const auto chunk_of = [&](std::int32_t pass) { return pass / ranks % chunks; };
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < warm_up; ++i) writer.forward(chunk_of(i));
  writer.begin(Part::steady);
  for (std::int32_t i = warm_up; i < passes; ++i) {
    writer.forward(chunk_of(i));
    writer.backward(chunks - 1 - chunk_of(i - warm_up));
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = passes - warm_up; i < passes; ++i) writer.backward(chunks - 1 - chunk_of(i));
  return writer.take();
}

}  // namespace weft::policy
