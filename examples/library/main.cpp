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
  weft::GraphBuilder builder;
  const auto matrix = [&](const char* name, std::int64_t rows, weft::Role role) {
    return whole(builder, builder.add_tensor({name, weft::DType::f32, {rows, n}, role}));
  };
  const weft::View w = matrix("w", n, weft::Role::parameter), sent = matrix("sent", n / 2, weft::Role::workspace);
  const weft::View a = matrix("a", n, weft::Role::activation), b = matrix("b", n, weft::Role::activation);
  builder.add_task({"a.gemm", weft::Gemm{n, n, n}, {read(w), read(w), write(a)}});
  builder.add_task({"a.sum", weft::AllReduce{weft::Channel::data, 2, n * n}, {read_write(a), write(sent)}});
  builder.add_task({"b.gemm", weft::Gemm{n, n, n}, {read(w), read(w), write(b)}});
  const auto graph = std::make_shared<const weft::Graph>(std::move(builder).build());
  const auto policy = weft::make_policy("critical-path");
  const auto plan = std::make_shared<weft::Plan>(weft::make_plan(graph, policy->order(*graph, {}), policy->name()));
  if (!weft::check_plan(*plan).empty()) return 1;
  weft::SimulationOptions options;
  options.grid.data = 2;
  const auto simulated = weft::simulate(*plan, weft::default_cost_model().costs(*graph), {}, options);
  std::printf("simulated %.2f ms\n", simulated.step_ns / 1e6);
  return weft::run_ranks(2, [&](weft::World& world) {
    const weft::State state(std::vector<const weft::Graph*>{graph.get()});
    weft::CpuExecutor executor(state, {world, std::vector{weft::Channel::data}}, {.rank = world.rank()});
    const auto step = executor.load(plan);
    for (int i = 0; i < 5; ++i) executor.run(step, i);
    const weft::OverlapSummary ran = summarize(*plan, executor.last_trace(step));
    std::printf("rank %d %.2f ms, %.0f %% overlap\n", world.rank(), ran.step / 1e6, 100 * ran.overlap_fraction());
    return 0;
  });
}
