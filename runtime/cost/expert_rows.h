// Uneven loads of experts: which share of a layer's rows each expert gets, and how many rows that makes on the most
// loaded rank, whose times costs then count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/operation.h"

namespace weft::cost {

/// The share of each of `experts` experts, whose popularity falls as 1 / (e + 1)^exponent for e = 0, 1, … A token takes
/// an expert once, so none gets more than 1 / choices; the excess goes to the others in proportion. The shares
/// add up to 1. `choices`: experts that a token takes, at most `experts`.
std::vector<double> zipf_shares(std::int64_t experts, std::int64_t choices, double exponent);

/// λ: the rows of the most loaded of `ranks` ranks, each of which has as many neighbouring experts, as a multiple of
/// the mean; from 1 to `ranks`. `loads`: of each expert, in any unit; not all are 0.
double most_loaded(std::span<const double> loads, std::int64_t ranks);

/// By how much the rows that experts' ranks exchange and multiply are multiplied. With `segments` exchanges send as
/// many as a rank has place for, as NCCL's transport does.
struct RowFactors {
  double usual = 1;                 // of tasks without a factor of their layer
  std::vector<double> layers = {};  // by layer
  bool segments = false;

  double of(std::int32_t layer) const {
    const auto at = static_cast<std::size_t>(layer);
    return layer >= 0 && at < layers.size() ? layers[at] : usual;
  }
  /// The operation that costs count in place of a task's; none: its own.
  std::optional<graph::Operation> counted(const graph::Task& task) const;
  /// ", experts' rows × 1.44, rows sent in whole segments"; "" where nothing changes.
  std::string text() const;
};

/// An operation on rows that ranks exchange, or on exchanged rows, with `factor` times as many of them as with equal
/// shares, as far as there is place; any other operation as it is.
graph::Operation with_rows(graph::Operation operation, double factor);

}  // namespace weft::cost
