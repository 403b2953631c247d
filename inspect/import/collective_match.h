// Collectives of several ranks that are one and the same, by their group and their number in it, and their time without
// the wait for the last rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/open_graph.h"
#include "graph/rank_classes.h"

namespace weft::inspect {

struct MatchedCollectives {
  /// Tasks of two classes at least, which begin together.
  std::vector<std::vector<graph::ClassTask>> meetings;
  std::int64_t transfers = 0;  // of the meetings: a send with its receive
  std::int64_t unmatched = 0;  // collectives, sends and receives of recorded ranks that met no other
};

/// By the numbers that the profiler gave, where all collectives of a channel have one, else by their order. Kernels
/// that send and receive are matched only if all ranks of a group have equally many of them: ranks of a pipeline don't.
/// Sends and receives whose peer is told are matched by their order between two ranks on a channel. A peer that isn't a
/// member of the group is a place in it.
MatchedCollectives match_collectives(const graph::OpenGraph& graph);

/// The rank that came last waited for nobody, so the shortest of the recorded times is the collective's own.
void set_net_times(graph::OpenGraph& graph, const MatchedCollectives& matched);

/// How much later the clock of each class shows the ends of shared collectives than the first class's, as a median; 0
/// without any. Since a collective ends at about the same time on all ranks, differences of begins follow.
std::vector<double> clock_offsets(const graph::OpenGraph& graph, const MatchedCollectives& matched);

}  // namespace weft::inspect
