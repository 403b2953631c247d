// The order of a recorded queue says that tasks ran one after the other, and not that they had to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/open_graph.h"

namespace weft::graph {

/// Which recorded order of a device's work holds under every policy. Edges of other sources than `stream` always hold,
/// and so does the order of a CPU thread's calls; but for `known`.
enum class KeptOrder : std::uint8_t {
  all,           // every edge of source `stream`
  known,         // the order of tasks whose data aren't known, among each other and with all others. Waits between two
                 // tasks of known data don't hold either: they are for data that edges tell, or for order alone
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
/// (Chakra's traces of tensors), and all order of streams is nothing but order. So is the order of two tasks with
/// OpenTask::data_known. Under `known`, a class without such tasks keeps all of its order.
std::vector<HeldEdge> held_edges(const OpenClass& step, KeptOrder kept);

/// Edges of recorded order that policies needn't keep.
struct FreeOrder {
  std::int64_t known = 0;     // the data of both tasks are known
  std::int64_t assumed = 0;   // nothing tells whether one of them needs the other
  std::int64_t recorded = 0;  // all, with those that hold
};
FreeOrder free_order(const OpenClass& step, KeptOrder kept);

/// Whether the class has edges that `computations` or `none` leave out.
bool has_stream_order(const OpenClass& step);

/// Whether edges tell which computation needs which.
bool knows_data(const OpenClass& step);

/// The order of one stream: an edge of source `stream` between tasks of a device.
bool is_stream_order(const OpenClass& step, const OpenEdge& edge);

/// Such an edge, or a wait of another source than `given` and `data` between two tasks of known data.
bool is_recorded_order(const OpenClass& step, const OpenEdge& edge);

/// An edge of source `stream` from a task to a later one of its stream. Tasks that overlapped are only issued in order.
OpenEdge stream_order_edge(const OpenClass& step, std::uint32_t from, std::uint32_t to);

}  // namespace weft::graph
