#include "runtime/policy/schedules/dual_pipe_v.h"

#include <fmt/format.h>

#include <deque>

#include "base/error.h"
#include "runtime/policy/pipeline/schedule_writer.h"

namespace weft::policy {

namespace {

constexpr std::int32_t kDown = 0, kUp = 1;  // the chunks of a rank

/// The steps of one rank. Gradients of weights that were put off run in the order of their backward passes.
class DualPipeV {
 public:
  DualPipeV(ScheduleWriter& writer, const PipelineShape& shape, std::int32_t rank)
      : writer_(writer), ranks_(shape.ranks), micro_batches_(shape.micro_batches), rank_(rank) {}

  void write() {
    warm_up();
    writer_.begin(Part::main_part);
    for (std::int32_t i = 0; i < micro_batches_ - 2 * ranks_ + rank_ + 1; ++i) {
      if (i == 0 && rank_ == ranks_ - 1) {  // its two chunks follow each other, so that alternating would delay both
        writer_.forward(kDown);
        writer_.backward(kUp);
      } else {
        writer_.forward_beside_backward(kDown, kUp);
      }
      writer_.forward_beside_backward(kUp, kDown);
    }
    cool_down();
  }

 private:
  void warm_up() {
    writer_.begin(Part::warm_up);
    for (std::int32_t i = 0; i < 2 * (ranks_ - rank_ - 1); ++i) writer_.forward(kDown);
    for (std::int32_t i = 0; i < rank_ + 1; ++i) {
      writer_.forward(kDown);
      writer_.forward(kUp);
    }
    for (std::int32_t i = 0; i < ranks_ - rank_ - 1; ++i) {
      divided_backward(kUp);
      put_off_weight();
      writer_.forward(kUp);
    }
  }

  void cool_down() {
    writer_.begin(Part::cool_down);
    for (std::int32_t i = 0; i < ranks_ - rank_ - 1; ++i) {
      writer_.backward(kUp);
      writer_.forward_beside_backward(kUp, kDown);
    }
    // In the second half the gradients of weights are put off: from the backward pass 2·⌊(rank + 1)/2⌋ on, or the next.
    const std::int32_t first_divided = (rank_ + 1) / 2 * 2 + (rank_ % 2 == 0 ? 1 : 0);
    for (std::int32_t i = 0; i < 2 * (rank_ + 1); ++i) {
      const std::int32_t chunk = i % 2 == 0 ? kUp : kDown;
      if (i < first_divided) {
        writer_.backward(chunk);
      } else {
        divided_backward(chunk);
      }
    }
    for (std::int32_t i = 0; i < ranks_ - rank_ - 1; ++i) {
      put_off_weight();
      divided_backward(kDown);
    }
    writer_.begin(Part::at_the_end);
    while (!put_off_.empty()) put_off_weight();
  }

  void divided_backward(std::int32_t chunk) {
    writer_.input(chunk);
    put_off_.push_back(chunk);
  }
  void put_off_weight() {
    writer_.weight(put_off_.front());
    put_off_.pop_front();
  }

  ScheduleWriter& writer_;
  std::int32_t ranks_, micro_batches_, rank_;
  std::deque<std::int32_t> put_off_;  // chunks
};

}  // namespace

RankSchedule DualPipeVPolicy::schedule(const PipelineShape& shape, std::int32_t rank) const {
  if (shape.micro_batches < 2 * shape.ranks) {
    throw UserError(
        fmt::format("policy dualpipe-v: {} micro-batches on {} pipeline ranks", shape.micro_batches, shape.ranks),
        fmt::format("at least {} micro-batches a step, two for each rank", 2 * shape.ranks),
        "raise --global-batch, lower --micro-batch, or choose policy zb-v");
  }
  ScheduleWriter writer(kReasons, shape, rank);
  DualPipeV(writer, shape, rank).write();
  return writer.take();
}

}  // namespace weft::policy
