// The time to draw large graphs, on one core.
//
//   bench_draw [MICRO_BATCHES [LAYERS]]     default: 13 micro-batches, 16667 layers
//
// First a training step of gpt-80b on y=8, z=128 with a box for every task: laid out in blocks and written as SVG
// (inspect/drawing/block_layout.h), and written as DOT. Then a chain of layers of six tasks each, 100 000 tasks in all,
// as DOT.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "inspect/drawing/block_layout.h"
#include "inspect/drawing/dump_dot.h"
#include "ops/lower.h"

namespace weft::bench {
namespace {

graph::Graph layers_graph(int layers) {
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
                      {graph::read(part), graph::write(weights)},
                      i});
    builder.add_task(
        {layer + "product", graph::Gemm{8, 8, 8}, {graph::read(x), graph::read(weights), graph::write(y)}, i});
    builder.add_task({layer + "sum", graph::AllReduce{graph::Channel::x, 2, 64}, {graph::read_write(y)}, i});
    builder.add_task({layer + "act", graph::GeluForward{64}, {graph::read(y), graph::write(z)}, i});
    builder.add_task({layer + "dw", graph::Gemm{8, 8, 8}, {graph::read(y), graph::read(z), graph::write(gradient)}, i});
    builder.add_task(
        {layer + "reduce", graph::AllReduce{graph::Channel::data, 2, 64}, {graph::read_write(gradient)}, i});
    x = z;
  }
  return std::move(builder).build();
}

template <class Work>
void measure(const std::string& what, const graph::Graph& graph, const Work& work) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const std::size_t bytes = work().size();
  fmt::print("{:<22} {:>7} tasks, {:>7} edges: {:6.2f} s, {:.1f} MB\n", what, graph.tasks().size(),
             graph.edges().size(), std::chrono::duration<double>(Clock::now() - begin).count(),
             static_cast<double>(bytes) * 1e-6);
}

void run(int micro_batches, int layers) {
  inspect::DrawingOptions options;
  options.collapse = inspect::Collapse::none;
  ops::StepConfig step;
  step.grid.y = 8;
  step.grid.z = 128;
  step.micro_batches = micro_batches;
  step.seq_len = 2048;
  const std::shared_ptr<const graph::Graph> large = ops::lower_train(ops::model_by_name("gpt-80b"), step);
  measure("gpt-80b as SVG", *large, [&] { return inspect::block_layout(inspect::Drawing(*large, options)).svg(); });
  measure("gpt-80b as DOT", *large, [&] { return inspect::dump_dot(inspect::Drawing(*large, options)); });
  const graph::Graph chain = layers_graph(layers);
  measure("a chain as DOT", chain, [&] { return inspect::dump_dot(inspect::Drawing(chain, options)); });
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  const int micro_batches = argc > 1 ? std::atoi(argv[1]) : 13, layers = argc > 2 ? std::atoi(argv[2]) : 16667;
  if (micro_batches < 1 || layers < 1) {
    fmt::print(stderr, "usage: bench_draw [MICRO_BATCHES [LAYERS]]\n");
    return 2;
  }
  try {
    weft::bench::run(micro_batches, layers);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_draw: {}\n", error.what());
    return 3;
  }
  return 0;
}
