// AxoNN's model of communication, by which the reference system chooses its grid: Singh et al., SC '24, section 5;
// examples/comm_model.py of Megatron-AxoNN.
#pragma once

#include <cstdint>
#include <functional>

#include "graph/grid.h"
#include "ops/model_config.h"

namespace weft::study {

/// The sizes that the model looks at.
struct AxonnStep {
  const ops::ModelConfig& model;
  graph::Grid grid;
  std::int64_t sequences = 1, seq_len = 1;  // of all ranks; tokens of each
  std::int64_t micro_batches = 1;
  bool recompute = false;
};

/// Bytes a second of a ring of the axis' groups, while all of them send.
using AxisBandwidth = std::function<double(graph::Axis axis)>;

/// Seconds that the model predicts for the communication of one step: the bytes that a layer's
/// four products gather, scatter and reduce, divided by each axis' bandwidth. It leaves out computations, overlap,
/// latency, and embedding and head. The published script swaps the sizes of the second product of the MLP; here they
/// are right.
///
///   weights over z   n·A·(z−1)/z · in·out/(x·y) · 2 gathered, A·(…) scattered; n = 2 with recomputation, else 1
///   outputs over x   R·2(x−1)/x · rows·out/y · 2   (x and y change places in transposed products); R = 2 likewise
///   inputs over y    2(y−1)/y · rows·in/x · 2
///   gradients        2(d−1)/d · in·out/(x·y·z) · 4
double axonn_seconds(const AxonnStep& step, const AxisBandwidth& bandwidth);

}  // namespace weft::study
