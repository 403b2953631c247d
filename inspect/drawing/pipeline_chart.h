// A pipeline's step as papers draw it: a row a stage, a box for each piece of work on a micro-batch, bubbles between.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/grid.h"
#include "inspect/drawing/picture.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/trace.h"
#include "runtime/simulate/report.h"

namespace weft::inspect {

/// `input` is the part of the backward work that the previous stage waits for, `weight` the rest, and `backward` both
/// where they aren't told apart. `other`: updates, and computations in no micro-batch.
enum class PipelineWork : std::uint8_t { forward, backward, input, weight, other };

/// Computations of one kind of work on one micro-batch, without a gap.
struct PipelineBox {
  PipelineWork work = PipelineWork::other;
  std::int32_t micro_batch = -1, stage = -1;  // the virtual stage
  std::int64_t begin = 0, end = 0;            // since the step's begin
  friend bool operator==(const PipelineBox&, const PipelineBox&) = default;
};

/// A step of a pipeline.
struct PipelineChart {
  std::string title = {};
  simulate::PlayedClasses played = {};
  std::vector<std::string> ranks = {};          // of a picture, by stage: "ranks 0, 2"; empty: not told
  std::vector<std::int64_t> memory_bytes = {};  // state and scratch by stage; empty: not told
  double bound_ns = 0;                          // no policy is faster on these graphs; 0: not known
};

/// The chart of a report with plans, whose ranks a grid with as many stages names. The report must outlive it.
PipelineChart pipeline_chart(const simulate::Report& report, const graph::Grid& grid = {});

/// By row, in order of time.
std::vector<std::vector<PipelineBox>> pipeline_boxes(const PipelineChart& chart);

/// Charts below each other on one time axis. Forward work is blue, backward work green and its weights' part orange,
/// darker with each chunk of a rank; the number on a box is the micro-batch. At each row's end stand the share of the
/// step in which the rank doesn't compute and its memory. Equal input gives equal bytes.
Picture pipeline_picture(std::span<const PipelineChart> charts);

/// The same for terminals, `columns` characters wide in all (at least 60). A character stands for the work that took
/// most of its time: F forward, B backward or its input's part, W its weights' part, U other; small letters of every
/// other micro-batch; . for a bubble.
///
///   stage 0 |FfFf....BWbw|  31 %  12.3 MiB
///   stage 1 |..FBWfbw....|  31 %  11.0 MiB
std::string pipeline_text(const PipelineChart& chart, int columns = 100);

}  // namespace weft::inspect
