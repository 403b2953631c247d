// A chain of layers like a training step: gathered weights, a product, a sum over x, an activation, and a sum of a
// gradient over data that no task waits for.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "graph/graph.h"

namespace weft::bench {

inline std::shared_ptr<const graph::Graph> layers_graph(int layers) {
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
    const auto add = [&](const char* name, graph::Operation operation, std::vector<graph::Access> accesses) {
      builder.add_task({layer + name, std::move(operation), std::move(accesses), i});
    };
    add("gather", graph::AllGather{graph::Channel::z_gather, 2, 32}, {graph::read(part), graph::write(weights)});
    add("product", graph::Gemm{8, 8, 8}, {graph::read(x), graph::read(weights), graph::write(y)});
    add("sum", graph::AllReduce{graph::Channel::x, 2, 64}, {graph::read_write(y)});
    add("act", graph::GeluForward{64}, {graph::read(y), graph::write(z)});
    add("dw", graph::Gemm{8, 8, 8}, {graph::read(y), graph::read(z), graph::write(gradient)});
    add("reduce", graph::AllReduce{graph::Channel::data, 2, 64}, {graph::read_write(gradient)});
    x = z;
  }
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

}  // namespace weft::bench
