// The ranks of a world as if they were on several nodes, for tests of what depends on nodes.
#pragma once

#include "tests/runtime/forwarding_world.h"

namespace weft::testing {

/// Ranks are on nodes in order, `on_node` on each.
class RanksOnNodes final : public ForwardingWorld {
 public:
  RanksOnNodes(comm::World& inner, int on_node) : ForwardingWorld(inner), on_node_(on_node) {}
  int ranks_on_node() const override { return on_node_; }
  int rank_on_node() const override { return rank() % on_node_; }

 private:
  int on_node_;
};

}  // namespace weft::testing
