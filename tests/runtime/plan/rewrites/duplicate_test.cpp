// Gathering again and computing again: which tasks get copies, where they stand, and who reads them.
#include <algorithm>

#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::rewritten;

class PassToy : public testing::ToyGraph {
 public:
  void at(std::int32_t layer, Phase phase, std::int32_t micro_batch = 0) {
    layer_ = layer, phase_ = phase, micro_batch_ = micro_batch;
  }
  void task(std::string name, std::vector<Access> accesses, const Operation& operation = Add{1}) {
    add({std::move(name), operation, std::move(accesses), layer_, micro_batch_, phase_});
  }

 private:
  std::int32_t layer_ = -1, micro_batch_ = -1;
  Phase phase_ = Phase::forward;
};

TEST(Reshard, TheBackwardPassReadsAGatherOfItsOwn) {
  PassToy toy;
  const View w0 = toy.tensor("w0", 8, Role::parameter), w1 = toy.tensor("w1", 8, Role::parameter);
  const View g0 = toy.tensor("w0.gathered", 16, Role::gathered), g1 = toy.tensor("w1.gathered", 16, Role::gathered);
  const AllGather gather{Channel::z_gather, 2, 8};
  toy.at(0, Phase::forward);
  toy.task("gather0", {read(w0), write(g0)}, gather);
  toy.task("f0", {read(g0)});
  toy.at(1, Phase::forward);
  toy.task("gather1", {read(w1), write(g1)}, gather);
  toy.task("f1", {read(g1)});
  toy.at(1, Phase::backward);
  toy.task("b1", {read(g1)});
  toy.at(0, Phase::backward);
  toy.task("b0", {read(g0)});
  toy.task("b0_again", {read(g0)});
  const auto graph = toy.build();
  const auto all = rewritten(graph, "reshard");
  EXPECT_EQ(names_of(*all),
            (Names{"gather0", "f0", "gather1", "f1", "gather1.again", "b1", "gather0.again", "b0", "b0_again"}));
  EXPECT_EQ(place_of(*all, "f0", 0), "w0.gathered+0");
  EXPECT_EQ(place_of(*all, "b0_again", 0), "w0.gathered.again+0");
  EXPECT_EQ(testing::task_of(*all, "gather0.again").phase, Phase::backward);
  EXPECT_EQ(testing::task_of(*all, "gather0.again").layer, 0);
  EXPECT_EQ(names_of(*rewritten(graph, "reshard=0")),
            (Names{"gather0", "f0", "gather1", "f1", "b1", "gather0.again", "b0", "b0_again"}));
  EXPECT_EQ(rewritten(all, "reshard")->fingerprint(), all->fingerprint());
}

TEST(Reshard, EveryPassOfAMicroBatchGathers) {
  PassToy toy;
  const View w = toy.tensor("w", 8, Role::parameter), g = toy.tensor("g", 16, Role::gathered);
  toy.at(0, Phase::forward);
  toy.task("gather", {read(w), write(g)}, AllGather{Channel::z_gather, 2, 8});
  toy.task("f0", {read(g)});
  toy.at(0, Phase::backward);
  toy.task("b0", {read(g)});
  toy.at(0, Phase::forward, 1);
  toy.task("f1", {read(g)});
  toy.at(0, Phase::backward, 1);
  toy.task("b1", {read(g)});
  EXPECT_EQ(names_of(*rewritten(toy.build(), "reshard")),
            (Names{"gather", "f0", "gather.again", "b0", "gather.again2", "f1", "gather.again3", "b1"}));
}

TEST(Reshard, AWeightThatChangedInBetweenStaysGathered) {
  PassToy toy;
  const View w = toy.tensor("w", 8, Role::parameter), g = toy.tensor("g", 16, Role::gathered);
  toy.at(0, Phase::forward);
  toy.task("gather", {read(w), write(g)}, AllGather{Channel::z_gather, 2, 8});
  toy.task("change", {write(w)});
  toy.at(0, Phase::backward);
  toy.task("b0", {read(g)});
  const auto graph = toy.build();
  EXPECT_EQ(rewritten(graph, "reshard")->fingerprint(), graph->fingerprint());
}

// A layer: x → a (product, bias in place) → b → y, and a statistic that the backward pass doesn't read.
std::shared_ptr<const Graph> two_layers() {
  PassToy toy;
  const View w = toy.tensor("w", 4, Role::parameter), x = toy.tensor("x", 4);
  toy.at(-1, Phase::forward);
  toy.task("embed", {read(w), write(x)});
  std::vector<View> inputs = {x};
  std::vector<std::vector<View>> kept;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string l = "L" + std::to_string(layer) + ".";
    const View a = toy.tensor(l + "a", 4), b = toy.tensor(l + "b", 4), y = toy.tensor(l + "y", 4);
    toy.at(layer, Phase::forward);
    toy.task(l + "product", {read(inputs.back()), read(w), write(a)});
    toy.task(l + "bias", {read_write(a), read(w)});
    toy.task(l + "gelu", {read(a), write(b)});
    toy.task(l + "out", {read(b), read(inputs.back()), write(y)});
    inputs.push_back(y);
    kept.push_back({a, b});
  }
  View d = toy.tensor("d", 4);
  toy.at(-1, Phase::backward);
  toy.task("loss", {read(inputs.back()), write(d)});
  for (int layer = 1; layer >= 0; --layer) {
    const std::string l = "L" + std::to_string(layer) + ".";
    const auto index = static_cast<std::size_t>(layer);
    toy.at(layer, Phase::backward);
    const View da = toy.tensor(l + "da", 4), dx = toy.tensor(l + "dx", 4);
    toy.task(l + "start", {read_write(d)});
    toy.task(l + "gelu_dx", {read(d), read(kept[index][1]), write(da)});
    toy.task(l + "product_dx", {read(da), read(inputs[index]), write(dx)});
    d = dx;
  }
  toy.at(-1, Phase::update);
  toy.task("update", {read(d), read_write(w)});
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
  EXPECT_EQ(testing::task_of(*again, "L1.gelu.recompute").phase, Phase::backward);
  EXPECT_EQ(testing::waits_for(*again, "L1.gelu.recompute"), Names{"L1.bias.recompute"});
  const auto both = rewritten(graph, "recompute");
  EXPECT_EQ(both->tasks().size(), graph->tasks().size() + 6);
  EXPECT_EQ(rewritten(both, "recompute")->fingerprint(), both->fingerprint());
  EXPECT_EQ(rewritten(graph, "recompute=2-9")->fingerprint(), graph->fingerprint());
}

TEST(Recompute, WhatWouldReadOtherValuesStays) {
  PassToy toy;
  const View w = toy.tensor("w", 4, Role::parameter), counter = toy.tensor("counter", 4, Role::scalar);
  const View a = toy.tensor("a", 4), b = toy.tensor("b", 4), c = toy.tensor("c", 4);
  toy.at(0, Phase::forward);
  toy.task("of_w", {read(w), write(a)});
  toy.task("count", {read_write(counter), write(b)});  // running it twice would count twice
  toy.task("of_b", {read(b), write(c)});
  toy.task("change_w", {write(w)});
  toy.at(0, Phase::backward);
  toy.task("use", {read(a), read(c)});
  const auto graph = toy.build();
  EXPECT_EQ(names_of(*rewritten(graph, "recompute")),
            (Names{"of_w", "count", "of_b", "change_w", "of_b.recompute", "use"}));
}

}  // namespace
}  // namespace weft
