// Training steps of a few layers, written by hand: with the structure that hand-made policies recognise, and small
// enough to order by hand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/toy_graph.h"

namespace weft::testing {

/// Costs by name of task, in nanoseconds; `others`: of all other tasks.
inline std::shared_ptr<const cost::CostModel> named_costs(std::map<std::string, double> ns, double others = 1) {
  return priced_tasks([ns = std::move(ns), others](const graph::Task& task) {
    const auto found = ns.find(task.name);
    return TaskPrice{found == ns.end() ? others : found->second};
  });
}

/// a, the sum r of its result over the data axis, and b, which reads that.
inline std::shared_ptr<const graph::Graph> summed_step() {
  ToyGraph toy;
  const graph::View x = toy.tensor("x", 64), y = toy.tensor("y", 64, graph::Role::parameter);
  toy.compute("a", {graph::write(x)});
  toy.collective("r", graph::Channel::data, {graph::read_write(x)}, 64);
  toy.compute("b", {graph::read(x), graph::write(y)});
  return toy.build();
}

/// Two weights of `elements` each: gathered (g) and then used (c), one after the other.
inline std::shared_ptr<const graph::Graph> two_gathers(std::int64_t elements) {
  ToyGraph toy;
  const graph::View out = toy.tensor("out", elements, graph::Role::parameter);
  for (const std::string number : {"0", "1"}) {
    const graph::View weight = toy.tensor("w" + number, elements);
    toy.collective("g" + number, graph::Channel::z_gather, {graph::write(weight)});
    toy.compute("c" + number, {graph::read(weight), graph::read_write(out)});
  }
  return toy.build();
}

/// Layers 0, 1, … of one linear layer each, with all that a 3D-parallel step has. Program order, for two layers:
///
///   g0 f0 r0  g1 f1 r1  loss  di1 i1 dw1 s1 d1  di0 i0 dw0 s0 d0  u0 u1
///
/// g: gather of the weight over z; f: product, r: its all-reduce over x; di: input gradient, i: its all-reduce over y;
/// dw: weight gradient, s: its reduce-scatter over z, d: its all-reduce over data; u: update. With `reshard` the weight
/// is gathered again, by h, before di. Elements are of a shard.
inline std::shared_ptr<const graph::Graph> training_step(int layers, bool reshard = false, std::int64_t elements = 32) {
  ToyGraph toy;
  const std::int64_t n = elements;
  const auto name = [](const char* what, int layer) { return what + std::to_string(layer); };
  std::vector<graph::View> weight, gathered, activation = {toy.tensor("input", n, graph::Role::input)}, shard;
  for (int l = 0; l < layers; ++l) {
    weight.push_back(toy.tensor(name("w", l), n, graph::Role::parameter));
    gathered.push_back(toy.tensor(name("gathered", l), 2 * n, graph::Role::gathered));
    activation.push_back(toy.tensor(name("a", l), n));
    const graph::View &x = activation[activation.size() - 2], &y = activation.back();
    toy.add(name("g", l), graph::AllGather{graph::Channel::z_gather, 2, n},
            {graph::read(weight.back()), graph::write(gathered.back())}, l, 0);
    toy.add(name("f", l), graph::Gemm{1, n, 1, false, true},
            {graph::read(x), graph::read(gathered.back()), graph::write(y)}, l, 0);
    toy.add(name("r", l), graph::AllReduce{graph::Channel::x, 2, n}, {graph::read_write(y)}, l, 0);
  }
  graph::View dy = toy.tensor("dloss", n);
  toy.add("loss", graph::Add{n}, {graph::read(activation.back()), graph::write(dy)}, -1, 0);
  for (int l = layers - 1; l >= 0; --l) {
    const graph::View dx = toy.tensor(name("dx", l), n), dw = toy.tensor(name("grad", l), 2 * n, graph::Role::gradient);
    shard.push_back(toy.tensor(name("shard", l), n, graph::Role::gradient));
    const graph::View& input = activation[static_cast<std::size_t>(l)];
    graph::View w = gathered[static_cast<std::size_t>(l)];
    const auto add = [&](const char* what, const graph::Operation& operation, std::vector<graph::Access> accesses) {
      toy.add(name(what, l), operation, std::move(accesses), l, 0, graph::Phase::backward);
    };
    if (reshard) {
      w = toy.tensor(name("again", l), 2 * n, graph::Role::gathered);
      add("h", graph::AllGather{graph::Channel::z_gather, 2, n},
          {graph::read(weight[static_cast<std::size_t>(l)]), graph::write(w)});
    }
    add("di", graph::Gemm{1, n, 1}, {graph::read(dy), graph::read(w), graph::write(dx)});
    add("i", graph::AllReduce{graph::Channel::y, 2, n}, {graph::read_write(dx)});
    add("dw", graph::Gemm{1, n, 1, true}, {graph::read(dy), graph::read(input), graph::write(dw)});
    add("s", graph::ReduceScatter{graph::Channel::z_scatter, 2, n}, {graph::read(dw), graph::write(shard.back())});
    add("d", graph::AllReduce{graph::Channel::data, 2, n}, {graph::read_write(shard.back())});
    dy = dx;
  }
  for (int l = 0; l < layers; ++l) {
    const auto at = static_cast<std::size_t>(l);
    toy.add(name("u", l), graph::Add{n}, {graph::read_write(weight[at]), graph::read(shard[shard.size() - 1 - at])}, -1,
            -1, graph::Phase::update);
  }
  return toy.build();
}

/// The sequence as names, separated by spaces.
inline std::string sequence_of(const graph::Graph& graph, const plan::Order& order) {
  std::string names;
  for (const plan::Placement& placement : order.sequence) {
    if (!names.empty()) names += ' ';
    names += graph.task(placement.task).name;
  }
  return names;
}

/// The reason for the task's place in the order.
inline plan::Reason reason_of(const graph::Graph& graph, const plan::Order& order, const std::string& task) {
  for (const plan::Placement& placement : order.sequence) {
    if (graph.task(placement.task).name == task) return order.reasons[placement.reason];
  }
  throw std::logic_error(task + " is not in the order");
}

}  // namespace weft::testing
