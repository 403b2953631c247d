// The bytes that a step sends, by part of the model, axis and kind of collective.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace weft::ops {

/// The part of the model that a collective serves.
enum class ModelPart : std::uint8_t {
  linear,     // the matrices of QKV, attention's output, MLP-up and MLP-down, of experts and their router
  biases,     // biases of the same layers
  attention,  // gradients of key and value heads that ranks share
  norms,      // statistics and parameters
  embedding,
  head,
  loss,
  optimizer,  // the norm of gradients; with ZeRO-1, the new weights
  stages      // messages between pipeline stages
};

std::string_view to_string(ModelPart part);

/// Decided by the task's name: "mb0.L3.mlp.up.bwd.all_reduce_dx" belongs to linear.
ModelPart part_of(const graph::Task& task);

/// The sum of all collectives of one part, channel and kind.
struct Communication {
  ModelPart part;
  graph::Channel channel;
  std::string_view kind;   // kind_name()
  std::int64_t count = 0;  // collectives in a step
  double bytes = 0;        // that one rank sends in a step
};

/// Ordered by part, channel and kind.
std::vector<Communication> communication_of(const graph::Graph& graph);

}  // namespace weft::ops
