// Links of channels, for tests of the simulator and of policies.
#pragma once

#include <numeric>
#include <vector>

#include "graph/operation.h"

namespace weft::testing {

/// Every channel has a link of its own.
inline std::vector<int> own_links() {
  std::vector<int> links(graph::kAxisChannels);
  std::iota(links.begin(), links.end(), 0);
  return links;
}

/// All channels share link `link`.
inline std::vector<int> one_link(int link = 0) {
  return std::vector<int>(graph::kAxisChannels, link);
}

}  // namespace weft::testing
