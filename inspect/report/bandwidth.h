// How fast collectives moved their bytes, by axis, beside what the link should carry.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/grid.h"
#include "inspect/report/report_page.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// Collectives of one axis over all ranks and steps of a recording. Bytes count as a rank sends them; times are
/// nanoseconds.
struct AxisBandwidth {
  std::string axis = {};
  std::int64_t ranks = 0, collectives = 0;  // of a group, 0 if not known; of a step
  double bytes = 0, busy_ns = 0;            // of a step of one rank, in the mean
  double achieved = 0;                      // bytes a second, of all of them together
  double largest = 0;  // bytes a second: the median of collectives that send at least half as much as the largest
};

std::vector<AxisBandwidth> bandwidths(const plan::Recording& recording);

/// Bytes a second that a machine's description promises each rank, by the name of the axis.
ReportLinks links_of(const graph::Graph& graph, const cost::Machine& machine, const graph::Grid& grid);

/// With `links` a column of the link's bandwidth, whose head names the machine that it is a model of.
ReportTable bandwidth_table(const plan::Recording& recording, const ReportLinks& links);

}  // namespace weft::inspect
