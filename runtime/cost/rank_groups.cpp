#include "runtime/cost/rank_groups.h"

#include <algorithm>
#include <tuple>

namespace weft::cost {

std::vector<RankGroups> groups_within_node(std::int64_t devices, std::size_t most) {
  std::vector<RankGroups> groups;
  for (std::int64_t ranks = 2; ranks < devices; ++ranks) {
    for (std::int64_t stride = 1; ranks * stride <= devices; ++stride) {
      if (devices % (ranks * stride) == 0) groups.push_back({ranks, stride});
    }
  }
  if (groups.size() <= most) return groups;
  const auto is_outside = [&](const RankGroups& each) {
    return each.stride == 1 || each.ranks * each.stride == devices;
  };
  std::stable_partition(groups.begin(), groups.end(), is_outside);
  groups.resize(most);
  std::ranges::sort(groups, {}, [](const RankGroups& each) { return std::tuple(each.ranks, each.stride); });
  return groups;
}

}  // namespace weft::cost
