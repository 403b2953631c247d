// From an open graph to a graph that policies order: opaque tasks with their edges, queues and memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "graph/open_graph.h"
#include "graph/stream_order.h"

namespace weft::graph {

/// The graph of one class by itself, which waits for no other. Tasks keep their order and names. A task runs
/// - on the stream of its channel, if it communicates; a send or receive without a channel, on a queue of its stream's
///   name;
/// - on a queue of its thread's name, if it belongs to the host; on one of its stream's name, if it is a copy and that
///   stream only copies; these queues are local (ChannelInfo);
/// - else on the compute streams of the policy.
/// Channels of a graph that Weft wrote are Weft's own, by their names. An edge with after_begin_ns counts as one that
/// waits for the end of the launch. Of the order of recorded streams, `kept` holds (held_edges()). A tensor takes its
/// bytes rounded up to two. A task without a phase is of the forward phase; one without ns takes as long as it was
/// recorded to take. Throws UserError if the open graph fails check(), or needs more queues than a graph can have.
Graph opaque_graph(const OpenGraph& open, std::size_t class_index, KeptOrder kept = KeptOrder::known);

/// The same of all classes as one step. Tasks that are one and the same (find_meetings()) have one number
/// (Opaque::meeting) and take the first one's time. They run on queues of their own, one for each set of classes and
/// each direction of messages, so that what meets nobody holds nobody up.
std::vector<std::shared_ptr<const Graph>> opaque_graphs(const OpenGraph& open, KeptOrder kept = KeptOrder::known);

/// The class by which drawings colour an operation: that of Weft's own operation of the name, else by words in it
/// ("gemm", "AllReduce", "memcpy"), else by the task's kind.
KindClass drawn_as(const OpenTask& task);

}  // namespace weft::graph
