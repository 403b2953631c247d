// Branch and bound on a bound: where a window leaves a gap, tasks that share a queue are put in either order, until the
// least bound of all cases reaches a step that is known. Then this step is optimal.
#pragma once

#include <cstddef>

#include "graph/open_graph.h"
#include "runtime/simulate/certify/certificate.h"

namespace weft::simulate {

/// A certificate of the same graph whose bound is at least as high. Splits the case of least bound, `splits` times at
/// most, until no case is below `step_ns`, the best step that is known, or none can be split. Of several pairs of
/// tasks, it takes the one that raises the lower of its two cases most.
///
/// On graphs whose collectives slow nothing down and share no link, cases with all queues in order are as long as their
/// longest path, so that enough splits prove the optimum. Otherwise a case is still bounded by windows, a relaxation.
GraphCertificate split_into_cases(const graph::OpenGraph& open, GraphCertificate root, double step_ns,
                                  std::size_t splits);

}  // namespace weft::simulate
