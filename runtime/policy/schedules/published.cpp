#include "runtime/policy/schedules/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "base/error.h"

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
    const std::size_t place = plan::numbers_in_text(each.reason) - 2;
    each.reason.numbers[place] = ++count.seen;
    each.reason.numbers[place + 1] = count.all;
  }
  return std::move(schedule_);
}

namespace {

void gpipe(ScheduleWriter& writer) {
  writer.begin(Part::all_forward);
  for (std::int32_t i = 0; i < writer.shape().micro_batches; ++i) writer.forward();
  writer.begin(Part::all_backward);
  for (std::int32_t i = 0; i < writer.shape().micro_batches; ++i) writer.backward();
}

// The forward passes before the first backward pass of the rank, and their number.
std::int32_t warm_up(ScheduleWriter& writer) {
  const std::int32_t passes = std::min(writer.shape().micro_batches, writer.shape().ranks - writer.rank() - 1);
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < passes; ++i) writer.forward();
  return passes;
}

void one_forward_one_backward(ScheduleWriter& writer) {
  const std::int32_t micro_batches = writer.shape().micro_batches, ahead = warm_up(writer);
  writer.begin(Part::steady);
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    writer.forward();
    writer.backward();
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < ahead; ++i) writer.backward();
}

void interleaved(ScheduleWriter& writer) {
  const PipelineShape& shape = writer.shape();
  const std::int32_t ranks = shape.ranks, chunks = static_cast<std::int32_t>(shape.chunks.chunks);
  if (shape.micro_batches % ranks != 0) {
    const std::int32_t more = (shape.micro_batches / ranks + 1) * ranks;
    throw UserError(
        fmt::format("policy interleaved: {} micro-batches on {} pipeline ranks", shape.micro_batches, ranks),
        fmt::format("a multiple of {} micro-batches a step", ranks),
        fmt::format("choose --global-batch and --micro-batch so that there are {}, or policy 1f1b", more));
  }
  const std::int32_t passes = shape.micro_batches * chunks;
  const std::int32_t warm_up = std::min(passes, 2 * (ranks - writer.rank() - 1) + (chunks - 1) * ranks);
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
}

void zb_h1(ScheduleWriter& writer) {
  const std::int32_t micro_batches = writer.shape().micro_batches, ahead = warm_up(writer);
  writer.begin(Part::steady);
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    writer.forward();
    writer.input();
    if (writer.count(Work::input) > writer.rank()) writer.weight();
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < ahead; ++i) {
    writer.input();
    writer.weight();
  }
  writer.begin(Part::at_the_end);
  while (writer.count(Work::weight) < micro_batches) writer.weight();
}

void zb_v(ScheduleWriter& writer) {
  const std::int32_t ranks = writer.shape().ranks, rank = writer.rank(),
                     micro_batches = std::max(writer.shape().micro_batches, 2 * ranks - 1);
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
}

void dual_pipe_v(ScheduleWriter& writer) {
  constexpr std::int32_t kDown = 0, kUp = 1;  // the chunks of a rank
  const std::int32_t ranks = writer.shape().ranks, micro_batches = writer.shape().micro_batches, rank = writer.rank(),
                     behind = ranks - rank - 1;
  if (micro_batches < 2 * ranks) {
    throw UserError(fmt::format("policy dualpipe-v: {} micro-batches on {} pipeline ranks", micro_batches, ranks),
                    fmt::format("at least {} micro-batches a step, two for each rank", 2 * ranks),
                    "raise --global-batch, lower --micro-batch, or choose policy zb-v");
  }
  std::deque<std::int32_t> put_off;  // gradients of weights, by chunk, in the order of their backward passes
  const auto divided_backward = [&](std::int32_t chunk) {
    writer.input(chunk);
    put_off.push_back(chunk);
  };
  const auto put_off_weight = [&] {
    writer.weight(put_off.front());
    put_off.pop_front();
  };
  writer.begin(Part::warm_up);
  for (std::int32_t i = 0; i < 2 * behind; ++i) writer.forward(kDown);
  for (std::int32_t i = 0; i < rank + 1; ++i) {
    writer.forward(kDown);
    writer.forward(kUp);
  }
  for (std::int32_t i = 0; i < behind; ++i) {
    divided_backward(kUp);
    put_off_weight();
    writer.forward(kUp);
  }
  writer.begin(Part::main_part);
  for (std::int32_t i = 0; i < micro_batches - 2 * ranks + rank + 1; ++i) {
    if (i == 0 && behind == 0) {  // its two chunks follow each other, so that alternating would delay both
      writer.forward(kDown);
      writer.backward(kUp);
    } else {
      writer.forward_beside_backward(kDown, kUp);
    }
    writer.forward_beside_backward(kUp, kDown);
  }
  writer.begin(Part::cool_down);
  for (std::int32_t i = 0; i < behind; ++i) {
    writer.backward(kUp);
    writer.forward_beside_backward(kUp, kDown);
  }
  // In the second half the gradients of weights are put off: from the backward pass 2·⌊(rank + 1)/2⌋ on, or the next.
  const std::int32_t first_divided = (rank + 1) / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
  for (std::int32_t i = 0; i < 2 * (rank + 1); ++i) {
    const std::int32_t chunk = i % 2 == 0 ? kUp : kDown;
    if (i < first_divided) {
      writer.backward(chunk);
    } else {
      divided_backward(chunk);
    }
  }
  for (std::int32_t i = 0; i < behind; ++i) {
    put_off_weight();
    divided_backward(kDown);
  }
  writer.begin(Part::at_the_end);
  while (!put_off.empty()) put_off_weight();
}

constexpr graph::PipelineChunks kOneChunk, kTwoInLoop{2, graph::ChunkPlacement::loop},
    kTwoInV{2, graph::ChunkPlacement::v};

constexpr std::array kPublished = {
    PublishedSchedule{schedule_reasons("gpipe"), kOneChunk, false, gpipe},
    PublishedSchedule{schedule_reasons("1f1b"), kOneChunk, false, one_forward_one_backward},
    PublishedSchedule{schedule_reasons("interleaved"), kTwoInLoop, true, interleaved},
    PublishedSchedule{schedule_reasons("zb-h1"), kOneChunk, false, zb_h1},
    PublishedSchedule{schedule_reasons("zb-v"), kTwoInV, false, zb_v},
    PublishedSchedule{schedule_reasons("dualpipe-v"), kTwoInV, false, dual_pipe_v},
};

}  // namespace

std::span<const PublishedSchedule> published_schedules() {
  return kPublished;
}

PublishedPolicy::PublishedPolicy(const PublishedSchedule& schedule, graph::PipelineChunks chunks)
    : schedule_(schedule) {
  chunks_ = chunks;
}

PublishedPolicy::PublishedPolicy(const PublishedSchedule& schedule, PolicyParameters& parameters)
    : PublishedPolicy(schedule, schedule.chunks) {
  if (schedule.takes_chunks) chunks_.chunks = parameters.integer("chunks", chunks_.chunks, 2, 1000);
}

RankSchedule PublishedPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  ScheduleWriter writer(schedule_.reasons, shape, rank);
  schedule_.write(writer);
  return writer.take();
}

PipelineSchedules PublishedPolicy::schedules(const PipelineProgram& program, const PolicyOptions&) const {
  PipelineSchedules schedules;
  for (std::int32_t rank = 0; rank < program.shape.ranks; ++rank)
    schedules.ranks.push_back(schedule(program.shape, rank));
  return schedules;
}

std::vector<PublishedPolicy> published_policies(const graph::PipelineChunks& chunks) {
  std::vector<PublishedPolicy> policies;
  for (const PublishedSchedule& each : kPublished) {
    const bool any_number = each.takes_chunks && chunks.chunks > 1 && chunks.placement == each.chunks.placement;
    if (any_number || each.chunks == chunks) policies.emplace_back(each, chunks);
  }
  return policies;
}

}  // namespace weft::policy
