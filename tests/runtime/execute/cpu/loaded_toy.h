// A loaded plan of one rank whose streams a test moves by hand: a, a sum of its result, and b, which reads that.
#pragma once

#include <memory>
#include <vector>

#include "runtime/execute/cpu/cpu_plan.h"
#include "runtime/policy/compile_plan.h"
#include "tests/runtime/toy_graph.h"

namespace weft::testing {

///   compute0   a . . . b
///   data         sum
class LoadedToy {
 public:
  /// The communicators, of channel data, outlive it.
  explicit LoadedToy(const CommunicatorSet& communicators)
      : loaded(std::make_shared<const Plan>(compile_plan(graph, *make_policy("program"))), communicators, 1) {}

  /// As if compute0 had ended so many entries.
  void computed(std::int64_t entries) {
    loaded.streams[0].finished = entries;
    loaded.streams[0].completed = entries;
  }

  static std::shared_ptr<const Graph> toy() {
    ToyGraph toy;
    const View x = toy.tensor("x", 1, Role::parameter), y = toy.tensor("y", 1, Role::parameter);
    toy.compute("a", {read(x), read(x), write(x)});
    toy.add({"sum", AllReduce{Channel::data, 1, 1}, {read_write(x), write(toy.tensor("w", 0))}});
    toy.compute("b", {read(x), read(x), write(y)});
    return toy.build();
  }

  const std::shared_ptr<const Graph> graph = toy();
  const State state{std::vector<const Graph*>{graph.get()}};
  CpuPlan loaded;
};

}  // namespace weft::testing
