// Writes the schedule of one rank of a pipeline, unit by unit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/policy/pipeline/pipeline.h"

namespace weft::policy {

/// Each chunk of the rank takes its micro-batches in rising order, in each kind of work:
///
///   ScheduleWriter writer(OneForwardOneBackwardPolicy::kReasons, shape, rank);
///   writer.begin(Part::warm_up);
///   writer.forward();                 // micro-batch 0, then 1, …
///   return writer.take();             // with reasons: "1f1b: warm-up, forward 1 of 1"
///
/// `reasons`: of schedule_reasons().
class ScheduleWriter {
 public:
  ScheduleWriter(const plan::ReasonTable& reasons, const PipelineShape& shape, std::int32_t rank);

  /// The part of the schedule to which the next units belong.
  void begin(Part part) { part_ = static_cast<std::uint64_t>(part); }
  void forward(std::int32_t chunk = 0) { add({next(Work::forward, chunk)}); }
  void input(std::int32_t chunk = 0) { add({next(Work::input, chunk)}); }
  void weight(std::int32_t chunk = 0) { add({next(Work::weight, chunk)}); }
  /// The whole backward pass in program order.
  void backward(std::int32_t chunk = 0) { add({next(Work::backward, chunk)}); }
  /// A forward and a whole backward pass whose tasks alternate.
  void forward_beside_backward(std::int32_t forward, std::int32_t backward);

  /// The number of micro-batches of which this work of the chunk is written. A whole backward pass counts as both
  /// parts.
  std::int32_t count(Work work, std::int32_t chunk = 0) const { return counts(chunk)[static_cast<std::size_t>(work)]; }
  /// The schedule so far, without micro-batches that the program doesn't have.
  RankSchedule take();

 private:
  using Counts = std::array<std::int32_t, 3>;  // by work
  const Counts& counts(std::int32_t chunk) const { return counts_[static_cast<std::size_t>(chunk)]; }
  Unit next(Work work, std::int32_t chunk);
  void add(ScheduledUnit scheduled);
  plan::Reason reason_of(const ScheduledUnit& scheduled) const;

  const plan::ReasonTable& reasons_;
  PipelineShape shape_;
  std::int32_t rank_;
  std::uint64_t part_ = 0;      // its word
  std::vector<Counts> counts_;  // by chunk
  RankSchedule schedule_;       // until take() reasons end before the place
};

}  // namespace weft::policy
