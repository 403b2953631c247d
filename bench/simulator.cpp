// The number of tasks a second that the simulator processes, on one core.
//
// The step is a chain of layers (layers_graph.h) in program order, on one compute stream and three channels.
// First one rank represents all ranks, with separate links. Then links are shared, with a slowdown and shared cores, so
// that rates change at every event. Then all 64 ranks of a grid run, with noise. An event is the end of a task on one
// rank.
#include "runtime/simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "bench/layers_graph.h"
#include "bench/program.h"
#include "runtime/policy/catalog/policies.h"

namespace weft::bench {
namespace {

void measure(const std::string& what, const plan::Plan& plan, const cost::TaskCosts& costs,
             const cost::Machine& machine, const simulate::SimulationOptions& options, int repeats) {
  std::vector<double> rates;
  const plan::Plan* const one = &plan;
  std::int64_t events = 0;
  for (int i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    events = simulate::simulate({&one, 1}, {&costs, 1}, machine, options).events;
    rates.push_back(static_cast<double>(events) / watch.seconds());
  }
  std::sort(rates.begin(), rates.end());
  fmt::print("{:<34} {:>9} events  {:>7.2f} million a second (median), {:.2f} (best)\n", what, events,
             rates[rates.size() / 2] * 1e-6, rates.back() * 1e-6);
}

int run(int layers, int repeats) {
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
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  int layers = 4000, repeats = 20;
  CLI::App app("the tasks a second that the simulator processes", "bench_simulator");
  app.add_option("LAYERS", layers, "of the step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("REPEATS", repeats, "simulations a line")->check(CLI::PositiveNumber)->capture_default_str();
  return weft::bench::main_of(app, argc, argv, [&] { return weft::bench::run(layers, repeats); });
}
