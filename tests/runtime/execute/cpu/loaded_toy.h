// A loaded plan of one rank whose streams a test moves by hand: a, a sum of its result, and b, which reads that.
#pragma once

#include <memory>
#include <vector>

#include "runtime/execute/cpu/cpu_plan.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

///   compute0   a . . . b
///   data         sum
class LoadedToy {
 public:
  /// The communicators, of channel data, outlive it.
  explicit LoadedToy(const execute::CommunicatorSet& communicators)
      : loaded(std::make_shared<const plan::Plan>(policy::compile_plan(graph, *policy::make_policy("program"))),
               communicators, 1) {}

  /// As if compute0 had ended this many entries.
  void computed(std::int64_t entries) {
    loaded.streams[0].finished = entries;
    loaded.streams[0].completed = entries;
  }

  static std::shared_ptr<const graph::Graph> toy() {
    ToyGraph toy;
    const graph::View x = toy.tensor("x", 1, graph::Role::parameter), y = toy.tensor("y", 1, graph::Role::parameter);
    toy.compute("a", {graph::read(x), graph::read(x), graph::write(x)});
    toy.add({"sum",
             graph::AllReduce{graph::Channel::data, 1, 1},
             {graph::read_write(x), graph::write(toy.tensor("w", 0))}});
    toy.compute("b", {graph::read(x), graph::read(x), graph::write(y)});
    return toy.build();
  }

  const std::shared_ptr<const graph::Graph> graph = toy();
  const execute::State state{std::vector<const graph::Graph*>{graph.get()}};
  execute::CpuPlan loaded;
};

}  // namespace weft::testing
