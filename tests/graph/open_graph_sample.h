// Small open graphs: one with all that one can have, a recorded step of sharded weights, and two ranks that meet twice.
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

/// Rank 1 computes for longer before each of two collectives, and its clock shows 500 more.
inline graph::OpenGraph two_ranks() {
  const auto computed = [](const char* name, double ns) {
    graph::OpenTask task;
    task.name = name;
    task.ns = ns;
    return task;
  };
  const auto joined = [&](const char* name, double begin, double ns) {
    graph::OpenTask task = computed(name, ns);
    task.kind = graph::OpenKind::collective;
    task.operation = "all_reduce";
    task.channel = 0;
    task.begin_ns = begin;
    task.end_ns = begin + ns;
    return task;
  };
  graph::OpenGraph graph;
  graph.channels = {{"all", 2, {{0, 1}}}};
  graph.world = 2;
  graph.classes.resize(2);
  graph.classes[0].ranks = {0};
  graph.classes[1].ranks = {1};
  graph.classes[0].tasks = {computed("a", 100), joined("r0", 100, 250), computed("b", 50), joined("r1", 400, 100)};
  graph.classes[1].tasks = {computed("a", 300), joined("r0", 800, 50), computed("b", 90), joined("r1", 940, 60)};
  for (graph::OpenClass& step : graph.classes) {
    for (std::uint32_t i = 1; i < 4; ++i) step.edges.push_back({i - 1, i});
  }
  return graph;
}

}  // namespace weft::testing
