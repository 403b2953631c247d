// One step made by hand, on two ranks: while the second product is computed, the first one's result is summed over
// both.
#include <weft/graph/graph.h>
#include <weft/runtime/comm/launch.h>
#include <weft/runtime/cost/cost_model.h>
#include <weft/runtime/execute/cpu/cpu_executor.h>
#include <weft/runtime/plan/checker.h>
#include <weft/runtime/policy/catalog/policies.h>
#include <weft/runtime/simulate/simulator.h>

#include <array>
#include <cstdio>

using namespace weft;

int main() {
  constexpr std::int64_t n = 768;
  graph::GraphBuilder builder;
  const auto matrix = [&](const char* name, std::int64_t rows, graph::Role role) {
    return whole(builder, builder.add_tensor({name, DType::f32, {rows, n}, role}));
  };
  const graph::View w = matrix("w", n, graph::Role::parameter), sent = matrix("sent", n / 2, graph::Role::workspace);
  const graph::View a = matrix("a", n, graph::Role::activation), b = matrix("b", n, graph::Role::activation);
  builder.add_task({"a.gemm", graph::Gemm{n, n, n}, {read(w), read(w), write(a)}});
  builder.add_task({"a.sum", graph::AllReduce{graph::Channel::data, 2, n * n}, {read_write(a), write(sent)}});
  builder.add_task({"b.gemm", graph::Gemm{n, n, n}, {read(w), read(w), write(b)}});
  const auto graph = std::make_shared<const graph::Graph>(std::move(builder).build());
  const auto policy = policy::make_policy("critical-path");
  const auto plan =
      std::make_shared<plan::Plan>(plan::make_plan(graph, policy->orders({&graph, 1}, {}).front(), policy->name()));
  if (!plan::check_plan(*plan).empty()) return 1;
  simulate::SimulationOptions options;
  options.grid.data = 2;
  const plan::Plan* const plans[] = {plan.get()};  // by rank class: here there is one
  const cost::TaskCosts costs[] = {cost::default_cost_model().costs(*graph)};
  const auto simulated = simulate::simulate(plans, costs, {}, options);
  std::printf("simulated %.2f ms\n", simulated.step_ns / 1e6);
  return comm::run_ranks(2, [&](comm::World& world) {
    const execute::State state(std::array{graph});
    const auto executor =
        execute::make_cpu_executor(state, {world, std::vector{graph::Channel::data}}, {.rank = world.rank()});
    const auto step = executor->load(plan);
    for (int i = 0; i < 5; ++i) executor->run(step, i);
    const plan::OverlapSummary ran = summarize(*plan, executor->last_trace(step));
    std::printf("rank %d %.2f ms, %.0f %% overlap\n", world.rank(), ran.step / 1e6, 100 * ran.overlap_fraction());
    return 0;
  });
}
