// Pipelines with collectives and dependencies at random places, from seeds, for tests of policies.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/pipeline_toy.h"
#include "tests/runtime/random_graph.h"

namespace weft::testing {

/// A toy's class in which some tasks got a collective of their stage after them and wait for an earlier task, and with
/// a collective of all stages between micro-batches. Program order still runs in all classes together.
inline std::shared_ptr<const graph::Graph> with_random_tasks(const graph::Graph& toy, std::uint64_t joint_seed,
                                                             std::uint64_t own_seed) {
  Draws draws(own_seed), joint(joint_seed);
  graph::GraphBuilder builder(graph::Arguments::of_any_form);
  for (const graph::Tensor& tensor : toy.tensors()) builder.add_tensor(tensor);
  const graph::View shared = graph::whole(builder, builder.add_tensor({"shared", DType::f32, {4}}));
  const auto add = [&](const std::string& name, graph::Channel channel, graph::AccessMode mode,
                       const graph::Task& place) {
    graph::Task task = place;
    task.name = name;
    task.operation = graph::AllReduce{channel, 2, 4};
    task.accesses = {{shared, mode}};
    builder.add_task(std::move(task));
  };
  add("first", graph::Channel::data, graph::AccessMode::write, {});  // before all micro-batches
  std::vector<graph::TaskId> copies;
  std::int32_t micro_batch = 0;
  for (const graph::Task& task : toy.tasks()) {
    if (task.micro_batch != micro_batch && joint.chance(50)) {
      const graph::Channel channel = joint.chance(50) ? graph::Channel::world : graph::Channel::pipe;
      add("behind_mb" + std::to_string(micro_batch), channel, graph::AccessMode::read_write, {});
    }
    micro_batch = task.micro_batch;
    graph::Task copy = task;
    if (draws.chance(15) && !copies.empty()) copy.after.push_back({copies[draws.below(copies.size())]});
    copies.push_back(builder.add_task(std::move(copy)));
    if (!graph::is_collective(task.operation) && draws.chance(10))
      add(task.name + ".sum", draws.chance(50) ? graph::Channel::x : graph::Channel::data,
          graph::AccessMode::read_write, task);
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// The classes of a random pipeline, with these chunks, and as many micro-batches as every policy takes.
inline std::vector<std::shared_ptr<const graph::Graph>> random_pipeline(std::uint64_t seed,
                                                                        const graph::PipelineChunks& chunks) {
  Draws draws(seed);
  PipelineShape shape{.stages = draws.between(1, 4), .chunks = chunks};
  shape.micro_batches = shape.stages * draws.between(2, 3);
  shape.pieces = draws.between(1, 3);
  shape.world = draws.chance(50);
  shape.embedding = draws.chance(50);
  const PipelineToy toy(shape);
  std::vector<std::shared_ptr<const graph::Graph>> classes;
  for (const auto& graph : toy.classes())
    classes.push_back(with_random_tasks(*graph, seed, seed * 31 + classes.size()));
  return classes;
}

}  // namespace weft::testing
