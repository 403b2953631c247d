// The tables of a report: policies, shares of the step, exposed communication and its causes, bandwidth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "base/text/json_object.h"
#include "graph/graph.h"
#include "graph/grid.h"
#include "graph/operation.h"
#include "inspect/report/report_page.h"
#include "runtime/cost/machine.h"
#include "runtime/plan/recording.h"
#include "runtime/simulate/explain.h"

namespace weft::inspect {

/// Milliseconds with two decimals, of a short step with more: its length isn't nothing.
std::string step_ms_text(double ms);

/// Of a comparison as comparison_json() writes it. Throws UserError on JSON of another shape.
ReportTable policies_table(const DocumentValue& comparison);

/// Communication of the first rank's last step by axis and kind.
ReportTable exposed_table(const plan::Recording& recording, const std::string& view);

/// The groups of an explanation, each with its worst collective and the change that would hide it.
JsonArray causes_json(const graph::Graph& graph, const simulate::Explanation& explanation);
/// The same as a table. Throws UserError on JSON of another shape.
ReportTable causes_table(const DocumentValue& causes, const std::string& view);

/// Tasks of one kind in a step of one rank, in nanoseconds.
struct KindShare {
  graph::KindClass kind = graph::KindClass::gemm;
  std::int64_t tasks = 0;
  std::int64_t busy = 0;  // the sum of their lengths
  double share_ns = 0;    // of the step's time
};

/// The shares and `idle_ns` together are `step_ns`. A moment belongs to the computations that run in it, in equal
/// parts; where none runs, to the communication; else it is idle.
struct StepShares {
  std::vector<KindShare> kinds = {};  // that the step has, in the order of the colours
  double idle_ns = 0, step_ns = 0;
};

StepShares step_shares(const plan::Recording& recording, const plan::RecordedStep& step);

/// Of the first rank's last step, with a bar of its shares above the rows.
ReportTable shares_table(const plan::Recording& recording);

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
