// Gathering again and computing again: the tasks that get copies, the copies' positions and readers.
#include <algorithm>

#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::plan {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::rewritten;

class PassToy : public testing::ToyGraph {
 public:
  void at(std::int32_t layer, graph::Phase phase, std::int32_t micro_batch = 0) {
    layer_ = layer, phase_ = phase, micro_batch_ = micro_batch;
  }
  void task(std::string name, std::vector<graph::Access> accesses, const graph::Operation& operation = graph::Add{1}) {
    add({std::move(name), operation, std::move(accesses), layer_, micro_batch_, phase_});
  }

 private:
  std::int32_t layer_ = -1, micro_batch_ = -1;
  graph::Phase phase_ = graph::Phase::forward;
};

TEST(Reshard, TheBackwardPassReadsAGatherOfItsOwn) {
  PassToy toy;
  const graph::View w0 = toy.tensor("w0", 8, graph::Role::parameter), w1 = toy.tensor("w1", 8, graph::Role::parameter);
  const graph::View g0 = toy.tensor("w0.gathered", 16, graph::Role::gathered),
                    g1 = toy.tensor("w1.gathered", 16, graph::Role::gathered);
  const graph::AllGather gather{graph::Channel::z_gather, 2, 8};
  toy.at(0, graph::Phase::forward);
  toy.task("gather0", {graph::read(w0), graph::write(g0)}, gather);
  toy.task("f0", {graph::read(g0)});
  toy.at(1, graph::Phase::forward);
  toy.task("gather1", {graph::read(w1), graph::write(g1)}, gather);
  toy.task("f1", {graph::read(g1)});
  toy.at(1, graph::Phase::backward);
  toy.task("b1", {graph::read(g1)});
  toy.at(0, graph::Phase::backward);
  toy.task("b0", {graph::read(g0)});
  toy.task("b0_again", {graph::read(g0)});
  const auto graph = toy.build();
  const auto all = rewritten(graph, "reshard");
  EXPECT_EQ(names_of(*all),
            (Names{"gather0", "f0", "gather1", "f1", "gather1.again", "b1", "gather0.again", "b0", "b0_again"}));
  EXPECT_EQ(place_of(*all, "f0", 0), "w0.gathered+0");
  EXPECT_EQ(place_of(*all, "b0_again", 0), "w0.gathered.again+0");
  EXPECT_EQ(testing::task_of(*all, "gather0.again").phase, graph::Phase::backward);
  EXPECT_EQ(testing::task_of(*all, "gather0.again").layer, 0);
  EXPECT_EQ(names_of(*rewritten(graph, "reshard=0")),
            (Names{"gather0", "f0", "gather1", "f1", "b1", "gather0.again", "b0", "b0_again"}));
  EXPECT_EQ(rewritten(all, "reshard")->fingerprint(), all->fingerprint());
}

TEST(Reshard, EveryPassOfAMicroBatchGathers) {
  PassToy toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), g = toy.tensor("g", 16, graph::Role::gathered);
  toy.at(0, graph::Phase::forward);
  toy.task("gather", {graph::read(w), graph::write(g)}, graph::AllGather{graph::Channel::z_gather, 2, 8});
  toy.task("f0", {graph::read(g)});
  toy.at(0, graph::Phase::backward);
  toy.task("b0", {graph::read(g)});
  toy.at(0, graph::Phase::forward, 1);
  toy.task("f1", {graph::read(g)});
  toy.at(0, graph::Phase::backward, 1);
  toy.task("b1", {graph::read(g)});
  EXPECT_EQ(names_of(*rewritten(toy.build(), "reshard")),
            (Names{"gather", "f0", "gather.again", "b0", "gather.again2", "f1", "gather.again3", "b1"}));
}

TEST(Reshard, AWeightThatChangedInBetweenStaysGathered) {
  PassToy toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), g = toy.tensor("g", 16, graph::Role::gathered);
  toy.at(0, graph::Phase::forward);
  toy.task("gather", {graph::read(w), graph::write(g)}, graph::AllGather{graph::Channel::z_gather, 2, 8});
  toy.task("change", {graph::write(w)});
  toy.at(0, graph::Phase::backward);
  toy.task("b0", {graph::read(g)});
  const auto graph = toy.build();
  EXPECT_EQ(rewritten(graph, "reshard")->fingerprint(), graph->fingerprint());
}

// A layer: x → a (product, bias in place) → b → y, and a statistic that the backward pass doesn't read.
std::shared_ptr<const graph::Graph> two_layers() {
  PassToy toy;
  const graph::View w = toy.tensor("w", 4, graph::Role::parameter), x = toy.tensor("x", 4);
  toy.at(-1, graph::Phase::forward);
  toy.task("embed", {graph::read(w), graph::write(x)});
  std::vector<graph::View> inputs = {x};
  std::vector<std::vector<graph::View>> kept;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string l = "L" + std::to_string(layer) + ".";
    const graph::View a = toy.tensor(l + "a", 4), b = toy.tensor(l + "b", 4), y = toy.tensor(l + "y", 4);
    toy.at(layer, graph::Phase::forward);
    toy.task(l + "product", {graph::read(inputs.back()), graph::read(w), graph::write(a)});
    toy.task(l + "bias", {graph::read_write(a), graph::read(w)});
    toy.task(l + "gelu", {graph::read(a), graph::write(b)});
    toy.task(l + "out", {graph::read(b), graph::read(inputs.back()), graph::write(y)});
    inputs.push_back(y);
    kept.push_back({a, b});
  }
  graph::View d = toy.tensor("d", 4);
  toy.at(-1, graph::Phase::backward);
  toy.task("loss", {graph::read(inputs.back()), graph::write(d)});
  for (int layer = 1; layer >= 0; --layer) {
    const std::string l = "L" + std::to_string(layer) + ".";
    const auto index = static_cast<std::size_t>(layer);
    toy.at(layer, graph::Phase::backward);
    const graph::View da = toy.tensor(l + "da", 4), dx = toy.tensor(l + "dx", 4);
    toy.task(l + "start", {graph::read_write(d)});
    toy.task(l + "gelu_dx", {graph::read(d), graph::read(kept[index][1]), graph::write(da)});
    toy.task(l + "product_dx", {graph::read(da), graph::read(inputs[index]), graph::write(dx)});
    d = dx;
  }
  toy.at(-1, graph::Phase::update);
  toy.task("update", {graph::read(d), graph::read_write(w)});
  return toy.build();
}

TEST(Recompute, WhatTheBackwardPassReadsRunsAgainWithAllThatLeadsToIt) {
  const auto graph = two_layers();
  const auto again = rewritten(graph, "recompute=1");
  Names expected = names_of(*graph);
  const auto at = std::ranges::find(expected, "L1.gelu_dx");
  expected.insert(at, {"L1.product.recompute", "L1.bias.recompute", "L1.gelu.recompute"});
  EXPECT_EQ(names_of(*again), expected);
  EXPECT_EQ(place_of(*again, "L1.bias.recompute", 0), "L1.a.recompute+0");
  EXPECT_EQ(place_of(*again, "L1.product.recompute", 0), "L0.y+0");  // from outside: kept
  EXPECT_EQ(place_of(*again, "L1.gelu_dx", 1), "L1.b.recompute+0");
  EXPECT_EQ(place_of(*again, "L1.product_dx", 1), "L0.y+0");
  EXPECT_EQ(testing::task_of(*again, "L1.gelu.recompute").phase, graph::Phase::backward);
  EXPECT_EQ(testing::waits_for(*again, "L1.gelu.recompute"), Names{"L1.bias.recompute"});
  const auto both = rewritten(graph, "recompute");
  EXPECT_EQ(both->tasks().size(), graph->tasks().size() + 6);
  EXPECT_EQ(rewritten(both, "recompute")->fingerprint(), both->fingerprint());
  EXPECT_EQ(rewritten(graph, "recompute=2-9")->fingerprint(), graph->fingerprint());
}

// The copy of f reads the gather of the backward pass, which moves before it; so g needn't outlive the forward pass.
TEST(Recompute, ReadsAWeightThatTheBackwardPassGathersAgain) {
  PassToy toy;
  const graph::View w = toy.tensor("w", 8, graph::Role::parameter), x = toy.tensor("x", 4, graph::Role::parameter);
  const graph::View g = toy.tensor("g", 16, graph::Role::gathered),
                    again = toy.tensor("again", 16, graph::Role::gathered);
  const graph::View a = toy.tensor("a", 4), da = toy.tensor("da", 4), dx = toy.tensor("dx", 4);
  const graph::AllGather gather{graph::Channel::z_gather, 2, 8};
  toy.at(0, graph::Phase::forward);
  toy.task("gather", {graph::read(w), graph::write(g)}, gather);
  toy.task("f", {graph::read(x), graph::read(g), graph::write(a)});
  toy.at(0, graph::Phase::backward);
  toy.task("b", {graph::read(a), graph::write(da)});
  toy.task("gather_b", {graph::read(w), graph::write(again)}, gather);
  toy.task("dx", {graph::read(da), graph::read(again), graph::write(dx)});
  const auto graph = toy.build();
  const auto both = rewritten(graph, "recompute");
  EXPECT_EQ(names_of(*both), (Names{"gather", "f", "gather_b", "f.recompute", "b", "dx"}));
  EXPECT_EQ(place_of(*both, "f", 1), "g+0");
  EXPECT_EQ(place_of(*both, "f.recompute", 1), "again+0");
  EXPECT_EQ(testing::waits_for(*both, "f.recompute"), Names{"gather_b"});
}

TEST(Recompute, WhatWouldReadOtherValuesStays) {
  PassToy toy;
  const graph::View w = toy.tensor("w", 4, graph::Role::parameter),
                    counter = toy.tensor("counter", 4, graph::Role::scalar);
  const graph::View a = toy.tensor("a", 4), b = toy.tensor("b", 4), c = toy.tensor("c", 4);
  toy.at(0, graph::Phase::forward);
  toy.task("of_w", {graph::read(w), graph::write(a)});
  toy.task("count", {graph::read_write(counter), graph::write(b)});  // running it twice would count twice
  toy.task("of_b", {graph::read(b), graph::write(c)});
  toy.task("change_w", {graph::write(w)});
  toy.at(0, graph::Phase::backward);
  toy.task("use", {graph::read(a), graph::read(c)});
  const auto graph = toy.build();
  EXPECT_EQ(names_of(*rewritten(graph, "recompute")),
            (Names{"of_w", "count", "of_b", "change_w", "of_b.recompute", "use"}));
}

}  // namespace
}  // namespace weft::plan
