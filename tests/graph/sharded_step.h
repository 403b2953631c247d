// A recorded backward pass of fully sharded data parallelism: three layers, whose gathers of weights were issued one
// behind the other with the reductions of gradients.
#pragma once

#include <string>

#include "graph/open_graph.h"

namespace weft::testing {

/// By layer, from the last: gather 50 us, compute 100 us, reduce 50 us, nothing beside each other: 600 us. The gathers
/// need nothing, so in the best order the step takes 400 us.
inline graph::OpenGraph sharded_step() {
  using graph::EdgeSource;
  using graph::OpenKind;
  graph::OpenGraph graph;
  graph.name = "sharded";
  graph.source = "kineto";
  graph.world = 4;
  graph.channels = {{"fsdp", 4}};
  graph::OpenClass step;
  step.ranks = {0};
  step.recorded_ns = 600'000;
  step.edges_from_accesses = false;
  step.streams = {{"stream 7"}, {"stream 20"}};
  double time = 0;
  const auto add = [&](const std::string& name, OpenKind kind, double ns) {
    graph::OpenTask& task = step.tasks.emplace_back();
    task.name = name;
    task.kind = kind;
    task.operation = kind == OpenKind::compute ? "gemm" : name.substr(0, name.find('#'));
    task.stream = kind == OpenKind::compute ? 0 : 1;
    task.channel = kind == OpenKind::compute ? -1 : 0;
    task.ns = ns;
    task.begin_ns = time;
    task.end_ns = time += ns;
    task.phase = graph::Phase::backward;
    return static_cast<std::uint32_t>(step.tasks.size() - 1);
  };
  const auto edge = [&](std::uint32_t from, std::uint32_t to, EdgeSource source) {
    step.edges.push_back({from, to, graph::EdgeKind::completes_before, source});
  };
  for (std::uint32_t layer = 0; layer < 3; ++layer) {
    const std::string number = "#" + std::to_string(layer);
    const std::uint32_t gather = add("all_gather" + number, OpenKind::collective, 50'000);
    const std::uint32_t compute = add("gemm" + number, OpenKind::compute, 100'000);
    const std::uint32_t reduce = add("reduce_scatter" + number, OpenKind::collective, 50'000);
    edge(gather, compute, EdgeSource::synchronisation);
    edge(compute, reduce, EdgeSource::synchronisation);
    edge(gather, reduce, EdgeSource::stream);
    if (layer == 0) continue;
    edge(gather - 1, gather, EdgeSource::stream);
    edge(compute - 3, compute, EdgeSource::stream);
  }
  graph.classes = {step};
  return graph;
}

}  // namespace weft::testing
