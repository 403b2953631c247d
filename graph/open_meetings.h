// Tasks of several classes of an open graph that are one and the same: the two ends of a message, and a collective's
// parts on the ranks that join it.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "graph/open_graph.h"

namespace weft::graph {

/// The number of the channel's group that a rank of the class is in, by its place among the class's ranks; -1 if none
/// is known.
std::int64_t group_of(const OpenChannel& channel, const OpenClass& step, std::size_t place = 0);

struct OpenMeetings {
  /// Tasks of two classes at least, which begin together; of a message its send first, else by class.
  std::vector<std::vector<ClassTask>> all;
  std::int64_t transfers = 0;  // of them: a send with its receive
  std::int64_t unmatched = 0;  // collectives, sends and receives of several classes' groups that met no other
};

/// Sends and receives by the number that they share; else, where their peer is told, by their order between two ranks
/// on a channel. A peer that isn't a member of the group is a place in it. Collectives of a group with ranks of several
/// classes by the numbers that a profiler gave, where all of a channel have one, else by their order. Kernels that send
/// and receive are matched only if all ranks of a group have equally many of them: ranks of a pipeline don't.
OpenMeetings find_meetings(const OpenGraph& graph);

/// Takes those away that could never take place, since classes reach them in contrary orders: always the first of them
/// that stands in the way.
void drop_impossible(const OpenGraph& graph, OpenMeetings& meetings);

}  // namespace weft::graph
