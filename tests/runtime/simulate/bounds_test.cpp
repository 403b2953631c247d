#include "runtime/simulate/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "runtime/simulate/simulator.h"
#include "tests/runtime/all_orders.h"
#include "tests/runtime/links.h"
#include "tests/runtime/random_graph.h"
#include "tests/runtime/toy_graph.h"

namespace weft::simulate {
namespace {

using testing::ToyGraph;

/// The shortest step of any plan, by trying all topological orders and all choices of compute streams: each stream and
/// each link does one task at a time, in that order. Independent of the simulator.
class Exhaustive {
 public:
  Exhaustive(const graph::Graph& graph, const cost::TaskCosts& costs, std::size_t streams, std::vector<int> links)
      : graph_(graph), costs_(costs), streams_(streams), links_(std::move(links)) {
    end_.resize(graph.tasks().size(), -1);
    free_.resize(streams + graph::kAxisChannels, 0);
    extend(0, 0);
  }
  double best() const { return best_; }

 private:
  void extend(std::size_t placed, double makespan) {
    if (makespan >= best_) return;
    if (placed == end_.size()) {
      best_ = makespan;
      return;
    }
    for (std::size_t task = 0; task < end_.size(); ++task) {
      if (end_[task] >= 0) continue;
      double ready = 0;
      for (const graph::Edge& edge : graph_.in_edges(graph::TaskId(task))) {
        if (edge.distance != 0) continue;
        ready = end_[edge.from.index()] < 0 ? std::numeric_limits<double>::infinity()
                                            : std::max(ready, end_[edge.from.index()]);
      }
      if (ready == std::numeric_limits<double>::infinity()) continue;
      const graph::Channel* channel = graph::channel_of(graph_.tasks()[task].operation);
      const std::size_t first =
          channel == nullptr ? 0 : streams_ + static_cast<std::size_t>(links_.at(static_cast<std::size_t>(*channel)));
      const std::size_t last = channel == nullptr ? streams_ : first + 1;
      for (std::size_t resource = first; resource < last; ++resource) {
        const double before = free_[resource];
        end_[task] = std::max(ready, before) + costs_.ns[task];
        free_[resource] = end_[task];
        extend(placed + 1, std::max(makespan, end_[task]));
        free_[resource] = before;
        end_[task] = -1;
      }
    }
  }

  const graph::Graph& graph_;
  const cost::TaskCosts& costs_;
  std::size_t streams_;
  std::vector<int> links_;
  std::vector<double> end_, free_;
  double best_ = std::numeric_limits<double>::infinity();
};

cost::TaskCosts small_random_costs(const graph::Graph& graph, testing::Draws& draws) {
  cost::TaskCosts costs;
  for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
    costs.ns.push_back(draws.chance(10) ? 0 : static_cast<double>(draws.between(1, 20)));
    costs.cpu_ns.push_back(0);
  }
  return costs;
}

/// Parts of the collectives' times for which their bytes occupy a link.
std::vector<double> random_link_times(const cost::TaskCosts& costs, testing::Draws& draws) {
  std::vector<double> link_ns = costs.ns;
  for (double& ns : link_ns) ns = draws.chance(20) ? 0 : ns * static_cast<double>(draws.between(1, 4)) / 4;
  return link_ns;
}

TEST(Bounds, AreNeverAboveTheOptimumOfSmallGraphs) {
  int attained = 0, graphs = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.tasks = static_cast<std::size_t>(draws.between(3, 7));
    size.tensors = static_cast<std::size_t>(draws.between(4, 8));
    size.channels = static_cast<std::size_t>(draws.between(1, 2));
    size.collective_percent = 40;
    const auto graph = testing::random_graph(seed, size);
    const cost::TaskCosts costs = small_random_costs(*graph, draws);
    const int streams = static_cast<int>(draws.between(1, 2));
    const std::vector<int> links = draws.chance(50) ? testing::own_links() : testing::one_link();
    const double optimum = Exhaustive(*graph, costs, static_cast<std::size_t>(streams), links).best();
    const Bounds bounds = lower_bounds({&graph, 1}, {&costs, 1}, {}, streams, links);
    for (const double bound : {bounds.critical_path, bounds.work, bounds.one_machine, bounds.energy, bounds.best()}) {
      EXPECT_LE(bound, optimum + 1e-9) << seed;
    }
    // With links of their own, the simulator's best plan is among the tried plans: no plan beats them.
    const plan::Plan plan =
        plan::make_plan(graph, testing::RandomPolicy(seed).order(*graph, {.compute_streams = streams}), "random");
    SimulationOptions options;
    options.link_of_channel = links;
    const double step = testing::simulate_plan(plan, costs, {}, options).step_ns;
    EXPECT_GE(step, bounds.best() - 1e-9) << seed;
    if (links.back() == 5) {
      EXPECT_GE(step, optimum - 1e-9) << seed;
    }
    ++graphs;
    attained += bounds.best() >= optimum - 1e-9 ? 1 : 0;
  }
  EXPECT_GE(attained, graphs * 3 / 4) << attained << " of " << graphs;
}

/// The shortest simulated step of all topological orders on one compute stream.
double shortest_simulated(const std::shared_ptr<const graph::Graph>& graph, const cost::TaskCosts& costs,
                          const cost::Machine& machine, const std::vector<int>& links) {
  SimulationOptions options;
  options.link_of_channel = links;
  return testing::least_of_all_orders(*graph, [&](const plan::Order& order) {
    return testing::simulate_plan(plan::make_plan(graph, order, "tried"), costs, machine, options).step_ns;
  });
}

TEST(Bounds, ContentionIsNeverAboveTheOptimumOfSmallGraphs) {
  int attained = 0, above_the_others = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    testing::Draws draws(seed);
    testing::RandomGraphOptions size;
    size.tasks = static_cast<std::size_t>(draws.between(3, 6));
    size.tensors = static_cast<std::size_t>(draws.between(4, 8));
    size.channels = static_cast<std::size_t>(draws.between(1, 3));
    size.collective_percent = 45;
    const auto graph = testing::random_graph(seed, size);
    cost::TaskCosts costs = small_random_costs(*graph, draws);
    if (draws.chance(50)) costs.link_ns = random_link_times(costs, draws);
    const std::vector<int> links = draws.chance(50) ? testing::own_links() : testing::one_link();
    cost::Machine machine;
    machine.slowdowns = {{"add", "all_reduce", draws.chance(50) ? 1.25 : 3.0}};
    const Bounds bounds = lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, links);
    const double optimum = shortest_simulated(graph, costs, machine, links);
    EXPECT_LE(bounds.best(), optimum * (1 + 1e-9)) << seed;
    attained += bounds.contention >= optimum * (1 - 1e-9) ? 1 : 0;
    above_the_others += bounds.contention > std::max(bounds.one_machine, bounds.energy) ? 1 : 0;
  }
  EXPECT_GE(attained, 3);
  EXPECT_GE(above_the_others, 10);
}

TEST(Bounds, LatenciesOfChannelsThatShareALinkOverlap) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8, graph::Role::parameter), q = toy.tensor("q", 8, graph::Role::parameter),
                    r = toy.tensor("r", 8, graph::Role::parameter);
  toy.collective("x", graph::Channel::x, {graph::read_write(p)});
  toy.collective("y", graph::Channel::y, {graph::read_write(q)});
  toy.collective("d", graph::Channel::data, {graph::read_write(r)});
  const auto graph = toy.build();
  cost::TaskCosts costs{{10, 20, 30}, {0, 0, 0}, {}, {0, 0, 0}};
  const std::vector<int> one_link = testing::one_link();
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 1, one_link).best(), 30);
  EXPECT_EQ(shortest_simulated(graph, costs, {}, one_link), 30);
  costs.link_ns = {8, 16, 24};
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 1, one_link).best(), 48);
  costs.link_ns = {};
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 1, one_link).best(), 60);
  EXPECT_EQ(shortest_simulated(graph, costs, {}, one_link), 60);
}

TEST(Bounds, ContentionCountsWhatLinksTakeFromComputations) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8, graph::Role::parameter), q = toy.tensor("q", 8, graph::Role::parameter),
                    r = toy.tensor("r", 8, graph::Role::parameter);
  toy.compute("a", {graph::read_write(p)});
  toy.collective("x", graph::Channel::x, {graph::read_write(q)});
  toy.collective("d", graph::Channel::data, {graph::read_write(r)});
  const auto graph = toy.build();
  const cost::TaskCosts costs{{100, 20, 30}, {0, 0, 0}};
  cost::Machine machine;
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, {}).contention, 0);
  machine.slowdowns = {{"", "", 2}};
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, {}).contention, 115);              // at one time
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, {0, 0, 0, 0, 0, 0}).best(), 125);  // one after the other
  EXPECT_EQ(shortest_simulated(graph, costs, machine, {0, 0, 0, 0, 0, 0}), 125);
}

struct Costed {
  std::shared_ptr<const graph::Graph> graph;
  cost::TaskCosts costs;
};

// Three gradients, each summed once it is there; b between them.
Costed backward_pass() {
  ToyGraph toy;
  Costed result;
  for (const char* name : {"0", "1", "2"}) {
    const graph::View gradient = toy.tensor(std::string("g") + name, 8);
    toy.compute(std::string("b") + name, {graph::write(gradient)});
    toy.collective(std::string("r") + name, graph::Channel::data, {graph::read_write(gradient)});
  }
  result.graph = toy.build();
  result.costs.ns = {2, 10, 3, 10, 4, 10};
  result.costs.cpu_ns.assign(6, 0);
  return result;
}

TEST(Bounds, OneMachineSeesHeadsAndTails) {
  const Costed pass = backward_pass();
  const Bounds bounds = lower_bounds({&pass.graph, 1}, {&pass.costs, 1}, {}, 1, {});
  EXPECT_EQ(bounds.critical_path, 14);
  EXPECT_EQ(bounds.work, 30);
  EXPECT_EQ(bounds.one_machine, 32);  // no sum before the shortest computation
  EXPECT_EQ(bounds.best(), 32);
  EXPECT_EQ(bounds.energy, 0);
  EXPECT_EQ(Exhaustive(*pass.graph, pass.costs, 1, {0, 1, 2, 3, 4, 5}).best(), 32);
}

TEST(Bounds, StreamsShareTheComputations) {
  ToyGraph toy;
  for (const char* name : {"a", "b", "c", "d"})
    toy.compute(name, {graph::write(toy.tensor(std::string("of ") + name, 8))});
  const auto graph = toy.build();
  const cost::TaskCosts costs{{5, 5, 5, 5}, {0, 0, 0, 0}};
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 1, {}).best(), 20);
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 2, {}).best(), 10);
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, {}, 8, {}).best(), 5);
}

TEST(Bounds, EnergyCountsTheCoresThatTransportsTake) {
  ToyGraph toy;
  const graph::View p = toy.tensor("p", 8), q = toy.tensor("q", 8, graph::Role::parameter);
  toy.compute("a", {graph::write(p)});
  toy.collective("c", graph::Channel::data, {graph::read_write(q)});
  const auto graph = toy.build();
  const cost::TaskCosts costs{{30, 20}, {0, 20}};
  cost::Machine machine;
  machine.cores = 2;
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, {}).best(), 30);
  machine.shared_cores = true;
  EXPECT_EQ(lower_bounds({&graph, 1}, {&costs, 1}, machine, 1, {}).energy, 40);
  const plan::Plan plan = testing::plan_in(graph, "a c");
  EXPECT_EQ(testing::simulate_plan(plan, costs, machine, {}).step_ns, 40);
}

TEST(Bounds, RefuseCostsOfAnotherGraph) {
  const Costed pass = backward_pass();
  const cost::TaskCosts none;
  EXPECT_THROW(lower_bounds({&pass.graph, 1}, {}, {}, 1, {}), std::logic_error);
  EXPECT_THROW(lower_bounds({&pass.graph, 1}, {&none, 1}, {}, 1, {}), std::logic_error);
  EXPECT_THROW(lower_bounds({&pass.graph, 1}, {&pass.costs, 1}, {}, 0, {}), std::logic_error);
}

}  // namespace
}  // namespace weft::simulate
