// A small open graph with all that one can have: streams, a thread, channels, tensors, edges and recorded times.
#pragma once

#include <string>

#include "graph/open_graph.h"

namespace weft::testing {

/// Launched by a thread: a product, whose result is summed over two ranks and copied, beside another product. The sum
/// is read by an update. Times in nanoseconds: launch 10, up 1000, other 800, sum 1200, copy 300, update 200.
inline graph::OpenGraph sample_open_graph() {
  using graph::AccessMode;
  using graph::OpenKind;
  graph::OpenGraph graph;
  graph.name = "sample";
  graph.world = 2;
  graph.channels = {{"tp", 2, {{0, 1}}}};
  graph::OpenClass one;
  one.ranks = {0, 1};
  one.streams = {{"stream 7"}, {"thread 1", true}, {"stream 9", false, 0}, {"stream 11"}};
  one.tensors = {{"w", 64, true}, {"y", 1000}, {"z", 500}};
  const auto add = [&](std::string name, OpenKind kind, std::string operation, std::int32_t stream, double ns) {
    graph::OpenTask& task = one.tasks.emplace_back();
    task.name = std::move(name);
    task.kind = kind;
    task.operation = std::move(operation);
    task.stream = stream;
    task.ns = ns;
    task.phase = graph::Phase::backward;
    task.layer = 0;
  };
  add("launch", OpenKind::host, "cudaLaunchKernel", 1, 10);
  add("up", OpenKind::compute, "gemm", 0, 1000);
  add("other", OpenKind::compute, "gemm", 0, 800);
  add("copy", OpenKind::copy, "memcpy", 3, 300);
  add("sum", OpenKind::collective, "all_reduce", 2, 1200);
  add("update", OpenKind::compute, "adam", 0, 200);
  one.tasks[1].flops = 2e6;
  one.tasks[1].accesses = {{0, AccessMode::read}, {1, AccessMode::write}};
  one.tasks[2].accesses = {{0, AccessMode::read}, {2, AccessMode::write}};
  one.tasks[3].accesses = {{2, AccessMode::read}};
  one.tasks[4].accesses = {{1, AccessMode::read_write}};
  one.tasks[4].channel = 0;
  one.tasks[4].network_bytes = 1000;
  one.tasks[5].accesses = {{1, AccessMode::read}, {0, AccessMode::read_write}};
  one.edges = {{0, 1, graph::EdgeKind::completes_before, graph::EdgeSource::launch, 1, 5.0},
               {0, 2, graph::EdgeKind::completes_before, graph::EdgeSource::launch},
               {1, 3, graph::EdgeKind::issued_before, graph::EdgeSource::pairing, 0.5}};
  graph.classes = {one};
  return graph;
}

}  // namespace weft::testing
