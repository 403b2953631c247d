// The order of a recorded queue says that tasks ran one after the other, and not that they had to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/open_graph.h"

namespace weft::graph {

/// Which recorded order within the streams of a device holds under every policy. Edges of all other sources always
/// hold, and so does the order of a CPU thread's calls.
enum class KeptOrder : std::uint8_t {
  all,           // every edge of source `stream`
  computations,  // of computations and copies, except between different micro-batches; collectives may change places
  none           // no edge of source `stream`
};

std::string_view to_string(KeptOrder kept);
std::optional<KeptOrder> find_kept_order(std::string_view name);

struct HeldEdge {
  OpenEdge edge;
  bool only_order = false;  // it says nothing about data
};

/// The edges of a class that hold. Without data edges, computations of one stream and micro-batch count as a chain of
/// data: only the order of collectives, and the order between micro-batches, is order and nothing else. Tasks without a
/// micro-batch belong to all. Once most computations have a given edge from other work of the device, data are known
/// (Chakra's traces of tensors), and all order of streams is nothing but order.
std::vector<HeldEdge> held_edges(const OpenClass& step, KeptOrder kept);

/// Whether the class has edges that `computations` or `none` leave out.
bool has_stream_order(const OpenClass& step);

/// Whether edges tell which computation needs which.
bool knows_data(const OpenClass& step);

}  // namespace weft::graph
