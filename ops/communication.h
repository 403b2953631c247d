// What a step sends: by part of the model, axis and kind of collective.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace weft::ops {

/// What a collective serves.
enum class ModelPart : std::uint8_t {
  linear,     // the matrices of QKV, attention's output, MLP-up and MLP-down
  biases,     // their biases
  attention,  // gradients of key and value heads that ranks share
  norms,      // statistics and parameters
  embedding,
  head,
  loss,
  optimizer  // the gradient's norm; with ZeRO-1, the new weights
};

std::string_view to_string(ModelPart part);

/// By its name: "mb0.L3.mlp.up.bwd.all_reduce_dx" is linear's.
ModelPart part_of(const graph::Task& task);

/// Collectives of one part, channel and kind together.
struct Communication {
  ModelPart part;
  graph::Channel channel;
  std::string_view kind;   // kind_name()
  std::int64_t count = 0;  // collectives a step
  double bytes = 0;        // that one rank sends a step
};

/// Ordered by part, channel and kind.
std::vector<Communication> communication_of(const graph::Graph& graph);

}  // namespace weft::ops
