// The time to draw large graphs, on one core.
//
// First a training step of gpt-80b on y=8, z=128 with a box for every task: laid out in blocks and written as SVG,
// and written as DOT. Then a chain of layers of six tasks each, 100 000 tasks in all,
// as DOT.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench/layers_graph.h"
#include "bench/program.h"
#include "inspect/drawing/dump_dot.h"
#include "inspect/drawing/render.h"
#include "ops/lower.h"

namespace weft::bench {
namespace {

template <class Work>
void measure(const std::string& what, const graph::Graph& graph, const Work& work) {
  const Stopwatch watch;
  const std::size_t bytes = work().size();
  fmt::print("{:<22} {:>7} tasks, {:>7} edges: {:6.2f} s, {:.1f} MB\n", what, graph.tasks().size(),
             graph.edges().size(), watch.seconds(), static_cast<double>(bytes) * 1e-6);
}

int run(int micro_batches, int layers) {
  inspect::DrawingOptions options;
  options.collapse = inspect::Collapse::none;
  ops::StepConfig step;
  step.grid.y = 8;
  step.grid.z = 128;
  step.micro_batches = micro_batches;
  step.seq_len = 2048;
  const std::shared_ptr<const graph::Graph> large = ops::lower_train(ops::model_by_name("gpt-80b"), step);
  measure("gpt-80b as SVG", *large, [&] {
    return inspect::render_svg(inspect::dump_dot(inspect::Drawing(*large, options)), inspect::GraphLayout::blocks);
  });
  measure("gpt-80b as DOT", *large, [&] { return inspect::dump_dot(inspect::Drawing(*large, options)); });
  const std::shared_ptr<const graph::Graph> chain = layers_graph(layers);
  measure("a chain as DOT", *chain, [&] { return inspect::dump_dot(inspect::Drawing(*chain, options)); });
  return 0;
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  int micro_batches = 13, layers = 16667;
  CLI::App app("the time to draw large graphs", "bench_draw");
  app.add_option("MICRO_BATCHES", micro_batches, "of gpt-80b's step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("LAYERS", layers, "of the chain")->check(CLI::PositiveNumber)->capture_default_str();
  return weft::bench::main_of(app, argc, argv, [&] { return weft::bench::run(micro_batches, layers); });
}
