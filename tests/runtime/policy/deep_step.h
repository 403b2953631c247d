// A training step of which layers can be computed again and weights gathered again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/policy/builtin/program.h"
#include "runtime/policy/scheduling/program_order.h"
#include "tests/runtime/policy/builtin/training_toy.h"

namespace weft::testing {

/// In program order, of layer l: g gathers its weight, f computes what the backward pass needs again ("inner"), o the
/// layer's output; the loss; then from the last layer on b, which reads the weight, the inner tensor and the gradient.
/// Inner tensors and gathered weights take `inner` and `weight` elements, all others few.
inline std::shared_ptr<const graph::Graph> deep_step(int layers, std::int64_t inner, std::int64_t weight) {
  ToyGraph toy;
  const std::int64_t few = 32;
  const auto name = [](const char* what, int layer) { return what + std::to_string(layer); };
  std::vector<graph::View> gathered, between = {toy.tensor("input", few, graph::Role::input)}, kept;
  const auto add = [&](const std::string& task, int layer, graph::Phase phase, std::vector<graph::Access> accesses) {
    toy.add(task, graph::Add{1}, std::move(accesses), layer, 0, phase);
  };
  for (int l = 0; l < layers; ++l) {
    const graph::View shard = toy.tensor(name("w", l), weight / 2, graph::Role::parameter);
    gathered.push_back(toy.tensor(name("gathered", l), weight, graph::Role::gathered));
    kept.push_back(toy.tensor(name("inner", l), inner));
    const graph::View& x = between.back();
    const graph::View y = toy.tensor(name("y", l), few);
    toy.add(name("g", l), graph::AllGather{graph::Channel::z_gather, 2, weight / 2},
            {graph::read(shard), graph::write(gathered.back())}, l, 0);
    add(name("f", l), l, graph::Phase::forward,
        {graph::read(x), graph::read(gathered.back()), graph::write(kept.back())});
    add(name("o", l), l, graph::Phase::forward, {graph::read(kept.back()), graph::write(y)});
    between.push_back(y);
  }
  graph::View dy = toy.tensor("dloss", few);
  toy.add({"loss", graph::Add{1}, {graph::read(between.back()), graph::write(dy)}, -1, 0});
  for (int l = layers - 1; l >= 0; --l) {
    const auto at = static_cast<std::size_t>(l);
    const graph::View dx = toy.tensor(name("dx", l), few);
    add(name("b", l), l, graph::Phase::backward,
        {graph::read(dy), graph::read(gathered[at]), graph::read(kept[at]), graph::write(dx)});
    dy = dx;
  }
  return toy.build();
}

/// Costs of a deep_step(): of each gather and of each f; all else takes 1.
inline std::shared_ptr<const cost::CostModel> deep_costs(int layers, double gather, double inner) {
  std::map<std::string, double> ns;
  for (int l = 0; l < layers; ++l) {
    for (const char* again : {"", ".again"}) ns["g" + std::to_string(l) + again] = gather;
    for (const char* again : {"", ".recompute"}) ns["f" + std::to_string(l) + again] = inner;
  }
  return named_costs(std::move(ns));
}

/// Bytes of scratch of the serial plan after the rewrites.
inline std::int64_t serial_scratch(const std::shared_ptr<const graph::Graph>& graph, const std::string& rewrites) {
  const auto after = plan::rewrite(graph, plan::parse_rewrites(rewrites));
  const plan::Order order = policy::serial_order(*after, policy::ReorderedProgram(*after).sequence());
  return plan::make_plan(after, order, "serial").scratch_bytes;
}

}  // namespace weft::testing
