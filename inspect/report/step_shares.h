// The shares of a step's time: kinds of computations, exposed communication by kind, and waiting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/operation.h"
#include "inspect/report/report_page.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

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

}  // namespace weft::inspect
