// Groups of a job's ranks at equal distances: the groups that one axis of a grid forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/grid.h"

namespace weft::cost {

/// All groups of `ranks` ranks that stand `stride` apart.
///
///   RankGroups{2, 4} of eight ranks: {0, 4}, {1, 5}, {2, 6}, {3, 7}
struct RankGroups {
  std::int64_t ranks = 1, stride = 1;

  /// A grid of `job_ranks` ranks in which the groups are the groups of kChannel.
  graph::Grid grid(std::int64_t job_ranks) const {
    return {.x = stride, .y = ranks, .z = job_ranks / (stride * ranks)};
  }
  static constexpr graph::Channel kChannel = graph::Channel::y;

  friend bool operator==(const RankGroups&, const RankGroups&) = default;
};

/// The groups of two ranks or more that an axis can form within a node of `devices` ranks beside other axes, by ranks
/// and stride. Of more than `most` the groups of innermost and outermost axes go first.
std::vector<RankGroups> groups_within_node(std::int64_t devices, std::size_t most = 12);

}  // namespace weft::cost
