// The properties of a collective on which ranks must agree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "graph/graph.h"

namespace weft::plan {

/// If members of a process group start collectives with different signatures at the same position, they hang or mix up
/// bytes.
struct CollectiveSignature {
  std::string_view task;
  std::string_view kind;  // "all_reduce", …
  graph::Channel channel = graph::Channel::world;
  DType dtype = DType::f32;
  std::int64_t count = 0;
  friend bool operator==(const CollectiveSignature&, const CollectiveSignature&) = default;
};

/// Views into `graph`. The task must be a collective: throws std::logic_error otherwise.
CollectiveSignature signature_of(const graph::Graph& graph, graph::TaskId collective);

/// "L0.mlp.up.fwd.all_reduce (all_reduce of 1024 f32 on x)".
std::string to_string(const CollectiveSignature& signature);

}  // namespace weft::plan
