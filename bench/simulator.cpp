// The number of tasks a second that the simulator processes, on one core.
//
//   bench_simulator [LAYERS [REPEATS]]     default: 4000 layers, 20 repeats
//
// The step is a chain of layers like a training step: gathered weights, a product, a sum over x, an activation, and a
// sum of a gradient over data that no task waits for. It is in program order on one compute stream and three channels.
// First one rank represents all ranks, with separate links. Then links are shared, with a slowdown and shared cores, so
// that rates change at every event. Then all 64 ranks of a grid run, with noise. An event is the end of a task on one
// rank.
#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/policy/catalog/policies.h"

namespace weft::bench {
namespace {

std::shared_ptr<const graph::Graph> layers_graph(int layers) {
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  const auto tensor = [&](std::string name, std::int64_t elements, graph::Role role) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {elements}, role}));
  };
  graph::View x = tensor("x", 64, graph::Role::parameter);
  for (int i = 0; i < layers; ++i) {
    const std::string layer = fmt::format("L{}.", i);
    const graph::View part = tensor(layer + "part", 32, graph::Role::parameter),
                      weights = tensor(layer + "w", 64, graph::Role::gathered);
    const graph::View y = tensor(layer + "y", 64, graph::Role::activation),
                      z = tensor(layer + "z", 64, graph::Role::activation);
    const graph::View gradient = tensor(layer + "g", 64, graph::Role::gradient);
    builder.add_task({layer + "gather",
                      graph::AllGather{graph::Channel::z_gather, 2, 32},
                      {graph::read(part), graph::write(weights)}});
    builder.add_task(
        {layer + "product", graph::Gemm{8, 8, 8}, {graph::read(x), graph::read(weights), graph::write(y)}});
    builder.add_task({layer + "sum", graph::AllReduce{graph::Channel::x, 2, 64}, {graph::read_write(y)}});
    builder.add_task({layer + "act", graph::GeluForward{64}, {graph::read(y), graph::write(z)}});
    builder.add_task({layer + "dw", graph::Gemm{8, 8, 8}, {graph::read(y), graph::read(z), graph::write(gradient)}});
    builder.add_task({layer + "reduce", graph::AllReduce{graph::Channel::data, 2, 64}, {graph::read_write(gradient)}});
    x = z;
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

void measure(const std::string& what, const plan::Plan& plan, const cost::TaskCosts& costs,
             const cost::Machine& machine, const simulate::SimulationOptions& options, int repeats) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates;
  const plan::Plan* const one = &plan;
  std::int64_t events = 0;
  for (int i = 0; i < repeats; ++i) {
    const Clock::time_point begin = Clock::now();
    events = simulate::simulate({&one, 1}, {&costs, 1}, machine, options).events;
    rates.push_back(static_cast<double>(events) / std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(rates.begin(), rates.end());
  fmt::print("{:<34} {:>9} events  {:>7.2f} million a second (median), {:.2f} (best)\n", what, events,
             rates[rates.size() / 2] * 1e-6, rates.back() * 1e-6);
}

void run(int layers, int repeats) {
  const auto graph = layers_graph(layers);
  const plan::Plan plan =
      plan::make_plan(graph, policy::make_policy("program")->orders({&graph, 1}, {}).front(), "program");
  cost::TaskCosts costs;
  for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
    costs.ns.push_back(1000 + static_cast<double>(i * 7919 % 1000));
    costs.cpu_ns.push_back(graph::is_collective(graph->tasks()[i].operation) ? costs.ns.back() / 2 : 0);
  }
  cost::Machine machine;
  simulate::SimulationOptions options;
  options.grid.x = options.grid.z = options.grid.data = 4;
  options.link_of_channel.resize(graph::kAxisChannels);
  std::iota(options.link_of_channel.begin(), options.link_of_channel.end(), 0);
  options.traced_ranks = 1;
  measure("one rank, links apart", plan, costs, machine, options, repeats);
  machine.shared_cores = true;
  machine.slowdowns = {{"gemm", "", 1.2}};
  options.link_of_channel.assign(graph::kAxisChannels, 0);
  measure("one rank, everything shared", plan, costs, machine, options, repeats);
  options.noise = 0.1;
  measure("64 ranks with noise", plan, costs, machine, options, std::max(1, repeats / 10));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  const int layers = argc > 1 ? std::atoi(argv[1]) : 4000, repeats = argc > 2 ? std::atoi(argv[2]) : 20;
  if (layers < 1 || repeats < 1) {
    fmt::print(stderr, "usage: bench_simulator [LAYERS [REPEATS]]\n");
    return 2;
  }
  try {
    weft::bench::run(layers, repeats);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_simulator: {}\n", error.what());
    return 3;
  }
  return 0;
}
