// The least time and memory of a training step of many layers and micro-batches, under any order of its graph. They are
// computed from graphs of few layers and micro-batches, because layers and micro-batches are alike.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/simulate/report.h"
#include "study/search/choice.h"
#include "train/config/resolved_run.h"

namespace weft::study {

/// Lower bounds for every plan of a step, and the sums of which they are made.
struct StepNeeds {
  double least_ns = 0;           // of a step
  std::int64_t least_bytes = 0;  // of state, and of what has to be kept at the end of a forward pass
  std::int64_t tasks = 0;        // of a rank's graph
  double compute_ns = 0;         // Σ of the computations alone
  std::array<double, graph::kAxisChannels> sent_ns{};  // by channel: Σ of its collectives alone
};

/// A quantity of the step that grows by equal amounts with each layer after the first and each micro-batch after the
/// first: f(l, m) = f11 + (l − 1)(f21 − f11) + (m − 1)(f12 − f11) + (l − 1)(m − 1)(f22 − f21 − f12 + f11).
struct Growing {
  std::array<double, 4> at{};  // of one layer and micro-batch; of two layers; of two micro-batches; of two of both

  double of(std::int64_t layers, std::int64_t micro_batches) const;
};

/// Steps of one choice, whose axes may be ordered in any way. Of a choice with pipeline stages, the whole model on the
/// ranks of one stage, with groups of ranks as they lie in the choice's grid.
class StepFamily {
 public:
  /// `run` is filled in, but for its grid and its micro-batch. Lowers up to four small graphs.
  StepFamily(const train::ResolvedRun& run, const Choice& choice);

  /// With the grid's axes in this order.
  StepNeeds needs(const std::array<graph::Axis, 4>& order) const;

  /// The run of `layers` layers and `micro_batches` micro-batches, with the grid's axes in this order.
  train::ResolvedRun run_of(std::int64_t layers, std::int64_t micro_batches,
                            const std::array<graph::Axis, 4>& order) const;
  /// run_of() with one stage, whose graph is that of all layers.
  train::ResolvedRun one_stage_run_of(std::int64_t layers, std::int64_t micro_batches,
                                      const std::array<graph::Axis, 4>& order) const;
  std::int64_t layers() const { return run_.config.model.layers; }
  std::int64_t micro_batches() const;

 private:
  train::ResolvedRun run_;                     // of the choice
  std::shared_ptr<const graph::Graph> kinds_;  // one task of each signature
  std::vector<Growing> counts_;                // by task of kinds_: how many there are of its signature
  Growing state_bytes_, kept_bytes_;
};

}  // namespace weft::study
