// Graph files: an accepted graph is written as a file that reads back as the same graph.
#include <string>

#include "inspect/formats/graph_file.h"
#include "tests/fuzz/fuzz_target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  graph::OpenGraph graph;
  const auto read = [&] { graph = inspect::parse_graph_file(fuzz::text_of(data, size), "step.graph.json"); };
  if (!fuzz::accepted(read)) return 0;
  const auto written = [](const graph::OpenGraph& of) {
    std::string text;
    inspect::write_graph(of, [&](std::string_view piece) { text += piece; });
    return text;
  };
  const std::string text = written(graph);
  fuzz::require(written(inspect::parse_graph_file(text, "written.graph.json")) == text,
                "a graph that differs when it is read back");
  return 0;
}
