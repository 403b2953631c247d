// One step made by hand, on two ranks: while the second product is computed, the first one's result is summed over
// both.
#include <weft/graph/graph.h>
#include <weft/runtime/comm/launch.h>
#include <weft/runtime/cost/cost_model.h>
#include <weft/runtime/execute/cpu/cpu_executor.h>
#include <weft/runtime/plan/checker.h>
#include <weft/runtime/policy/policy.h>
#include <weft/runtime/simulate/simulator.h>

#include <cstdio>

int main() {
  constexpr std::int64_t n = 768;
  weft::graph::GraphBuilder builder;
  const auto matrix = [&](const char* name, std::int64_t rows, weft::graph::Role role) {
    return whole(builder, builder.add_tensor({name, weft::DType::f32, {rows, n}, role}));
  };
  const weft::graph::View w = matrix("w", n, weft::graph::Role::parameter),
                          sent = matrix("sent", n / 2, weft::graph::Role::workspace);
  const weft::graph::View a = matrix("a", n, weft::graph::Role::activation),
                          b = matrix("b", n, weft::graph::Role::activation);
  builder.add_task({"a.gemm", weft::graph::Gemm{n, n, n}, {read(w), read(w), write(a)}});
  builder.add_task(
      {"a.sum", weft::graph::AllReduce{weft::graph::Channel::data, 2, n * n}, {read_write(a), write(sent)}});
  builder.add_task({"b.gemm", weft::graph::Gemm{n, n, n}, {read(w), read(w), write(b)}});
  const auto graph = std::make_shared<const weft::graph::Graph>(std::move(builder).build());
  const auto policy = weft::policy::make_policy("critical-path");
  const auto plan =
      std::make_shared<weft::plan::Plan>(weft::plan::make_plan(graph, policy->order(*graph, {}), policy->name()));
  if (!weft::plan::check_plan(*plan).empty()) return 1;
  weft::simulate::SimulationOptions options;
  options.grid.data = 2;
  const auto simulated = weft::simulate::simulate(*plan, weft::cost::default_cost_model().costs(*graph), {}, options);
  std::printf("simulated %.2f ms\n", simulated.step_ns / 1e6);
  return weft::comm::run_ranks(2, [&](weft::comm::World& world) {
    const weft::execute::State state(std::vector<const weft::graph::Graph*>{graph.get()});
    weft::execute::CpuExecutor executor(state, {world, std::vector{weft::graph::Channel::data}},
                                        {.rank = world.rank()});
    const auto step = executor.load(plan);
    for (int i = 0; i < 5; ++i) executor.run(step, i);
    const weft::plan::OverlapSummary ran = summarize(*plan, executor.last_trace(step));
    std::printf("rank %d %.2f ms, %.0f %% overlap\n", world.rank(), ran.step / 1e6, 100 * ran.overlap_fraction());
    return 0;
  });
}
