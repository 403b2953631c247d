// GELU in products: the tasks that are fused, and the tasks that must not be.
#include <map>

#include "runtime/cost/cost_model.h"
#include "runtime/plan/checker.h"
#include "runtime/policy/catalog/policies.h"
#include "runtime/policy/compile/compile_plan.h"
#include "tests/runtime/plan/rewrites/rewrite_toy.h"
#include "tests/runtime/policy/quick_policies.h"

namespace weft::plan {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::rewritten;
using testing::task_of;

constexpr std::int64_t kTokens = 8, kHidden = 6, kWide = 10;

/// A GELU between two linear layers: up (with a bias), gelu, down, and the gradients of the last two. Each part can be
/// spoiled before it is added.
class MlpToy : public testing::ReductionToy {
 public:
  void forward() { up(), gelu(); }
  void up() {
    add("up", up_product, {graph::read(x), graph::read(w), graph::write(up_view), graph::read(bias)},
        graph::Phase::forward);
  }
  void gelu() {
    add("gelu", graph::GeluForward{gelu_x.elements()}, {graph::read(gelu_x), graph::write(y)}, graph::Phase::forward);
  }
  void backward() { down_dx(), gelu_dx(); }
  void down_dx() {
    std::vector<graph::Access> accesses = {graph::read(out), graph::read(down), graph::write(dy)};
    if (dx_product.has_bias) accesses.push_back(graph::read(bias));
    add("down_dx", dx_product, std::move(accesses), graph::Phase::backward);
  }
  void gelu_dx() {
    add("gelu_dx", graph::GeluBackward{kTokens * kWide}, {graph::read(pre), graph::read(dy), graph::write(dx)},
        graph::Phase::backward);
  }
  void keep() {
    add("keep", graph::Add{1}, {graph::read(pre), graph::read(y), graph::read(dx)}, graph::Phase::backward);
  }
  void change(const std::string& name, const graph::View& view) {
    add(name, graph::Add{1}, {graph::read_write(view)}, phase_of_others);
  }
  void make(const std::string& name, const graph::View& view) {
    add(name, graph::Add{1}, {graph::write(view)}, phase_of_others);
  }
  void look(const std::string& name, const graph::View& view) {
    add(name, graph::Add{1}, {graph::read(view)}, phase_of_others);
  }

  using ReductionToy::add;
  void add(const std::string& name, const graph::Operation& operation, std::vector<graph::Access> accesses,
           graph::Phase phase) {
    add(graph::Task{name, operation, std::move(accesses), layer, micro_batch, phase});
  }

  graph::View matrix(const char* name, std::int64_t rows, std::int64_t cols,
                     graph::Role role = graph::Role::activation) {
    const graph::View all = tensor(name, rows * cols, role);
    return {all.tensor, 0, rows, cols, cols};
  }

  graph::View x = matrix("x", kTokens, kHidden, graph::Role::input),
              w = matrix("w", kWide, kHidden, graph::Role::parameter);
  graph::View bias = tensor("bias", kWide, graph::Role::parameter),
              down = matrix("down", kHidden, kWide, graph::Role::parameter);
  graph::View pre = matrix("pre", kTokens, kWide), y = matrix("y", kTokens, kWide),
              out = matrix("out", kTokens, kHidden, graph::Role::input);
  graph::View dy = matrix("dy", kTokens, kWide), dx = matrix("dx", kTokens, kWide);
  graph::View up_view = pre, gelu_x = pre;
  graph::Gemm up_product{kTokens, kWide, kHidden, false, true, false, true};
  graph::Gemm dx_product{kTokens, kWide, kHidden};
  std::int32_t layer = 2, micro_batch = 1;
  graph::Phase phase_of_others = graph::Phase::forward;
};

template <class Build>
void expect_left_alone(const char* what, Build build) {
  SCOPED_TRACE(what);
  MlpToy toy;
  build(toy);
  const auto graph = toy.build();
  // Both leave out tensors that nobody uses.
  EXPECT_EQ(rewritten(graph, "fuse-gelu")->fingerprint(), rewritten(graph, "pack-weights=1000")->fingerprint());
}

std::shared_ptr<const graph::Graph> both_passes() {
  MlpToy toy;
  toy.forward();
  toy.backward();
  toy.keep();
  return toy.build();
}

TEST(FuseGelu, ProductsTakeBothPassesOver) {
  const auto graph = both_passes();
  const auto fused = rewritten(graph, "fuse-gelu");
  EXPECT_EQ(names_of(*fused), (Names{"up", "down_dx", "keep"}));
  const graph::Task& up = task_of(*fused, "up");
  EXPECT_EQ(std::get<graph::Gemm>(up.operation).epilogue, Epilogue::gelu);
  ASSERT_EQ(up.accesses.size(), 5U);
  EXPECT_EQ(place_of(*fused, "up", 2), "pre+0");
  EXPECT_EQ(place_of(*fused, "up", 4), "y+0");
  EXPECT_EQ(up.accesses[4].mode, graph::AccessMode::write);
  EXPECT_EQ(up.layer, 2);
  EXPECT_EQ(up.micro_batch, 1);
  const graph::Task& gradient = task_of(*fused, "down_dx");
  EXPECT_EQ(std::get<graph::Gemm>(gradient.operation).epilogue, Epilogue::gelu_gradient);
  ASSERT_EQ(gradient.accesses.size(), 4U);
  EXPECT_EQ(place_of(*fused, "down_dx", 2), "dx+0");
  EXPECT_EQ(gradient.accesses[2].mode, graph::AccessMode::write);
  EXPECT_EQ(place_of(*fused, "down_dx", 3), "pre+0");
  EXPECT_EQ(gradient.accesses[3].mode, graph::AccessMode::read);
  EXPECT_EQ(testing::waits_for(*fused, "down_dx"), Names{"up"});
  EXPECT_FALSE(fused->find_tensor("dy").valid());  // no task writes it now
  EXPECT_NE(fused->fingerprint(), graph->fingerprint());
  EXPECT_EQ(rewritten(fused, "fuse-gelu")->fingerprint(), fused->fingerprint());
}

// Parts of a step: a task each, or a change of where the following tasks belong.
const std::map<std::string, void (*)(MlpToy&)> kParts = {
    {"up", [](MlpToy& toy) { toy.up(); }},
    {"gelu", [](MlpToy& toy) { toy.gelu(); }},
    {"down_dx", [](MlpToy& toy) { toy.down_dx(); }},
    {"gelu_dx", [](MlpToy& toy) { toy.gelu_dx(); }},
    {"make pre", [](MlpToy& toy) { toy.make("make", toy.pre); }},
    {"make y", [](MlpToy& toy) { toy.make("make", toy.y); }},
    {"make dx", [](MlpToy& toy) { toy.make("other", toy.dx); }},
    {"look at y", [](MlpToy& toy) { toy.look("look", toy.y); }},
    {"look at dy", [](MlpToy& toy) { toy.look("look", toy.dy); }},
    {"change pre", [](MlpToy& toy) { toy.change("add_bias", toy.pre); }},
    {"reduce pre", [](MlpToy& toy) { toy.reduce("all_reduce", toy.pre); }},
    {"reduce dy", [](MlpToy& toy) { toy.reduce("all_reduce", toy.dy); }},
    {"next micro-batch", [](MlpToy& toy) { ++toy.micro_batch; }},
    {"next layer", [](MlpToy& toy) { ++toy.layer; }},
};

TEST(FuseGelu, WhatChangesInBetweenStays) {
  const std::vector<std::pair<const char*, Names>> cases = {
      {"an all-reduce of the sums", {"up", "reduce pre", "gelu"}},
      {"a bias that is added later", {"up", "change pre", "gelu"}},
      {"an all-reduce of the gradient", {"make pre", "down_dx", "reduce dy", "gelu_dx"}},
      {"an input that is there too late", {"down_dx", "make pre", "gelu_dx"}},
      {"a result that is read before", {"up", "make y", "look at y", "gelu"}},
      {"a gradient that is written before", {"make pre", "down_dx", "make dx", "gelu_dx"}},
      {"another reader of the gradient before", {"make pre", "down_dx", "look at dy", "gelu_dx"}},
      {"another reader of the gradient after", {"make pre", "down_dx", "gelu_dx", "look at dy"}},
      {"another micro-batch", {"up", "next micro-batch", "gelu"}},
      {"another layer", {"make pre", "down_dx", "next layer", "gelu_dx"}}};
  for (const auto& [what, parts] : cases) {
    expect_left_alone(what, [&parts = parts](MlpToy& toy) {
      for (const std::string& part : parts) kParts.at(part)(toy);
    });
  }
  // The sums have their own readers in any case.
  MlpToy toy;
  toy.up();
  toy.look("look", toy.pre);
  toy.gelu();
  EXPECT_EQ(names_of(*rewritten(toy.build(), "fuse-gelu")), (Names{"up", "look"}));
}

TEST(FuseGelu, PartsOfTensorsStay) {
  expect_left_alone("half of the sums are read", [](MlpToy& toy) {
    toy.gelu_x = {toy.pre.tensor, 0, kTokens / 2, kWide, kWide};
    toy.y = toy.matrix("half", kTokens / 2, kWide);
    toy.forward();
  });
  expect_left_alone("half of the sums are the product's", [](MlpToy& toy) {
    toy.pre = toy.matrix("wide", 2 * kTokens, kWide);
    toy.up_view = {toy.pre.tensor, 0, kTokens, kWide, kWide};
    toy.make("other half", {toy.pre.tensor, kTokens * kWide, kTokens, kWide, kWide});
    toy.gelu_x = toy.up_view;
    toy.forward();
  });
  expect_left_alone("the result is a column of blocks", [](MlpToy& toy) {
    const graph::View wide = toy.matrix("wide", kTokens, 2 * kWide);
    toy.y = {wide.tensor, kWide, kTokens, kWide, 2 * kWide};
    toy.forward();
  });
  expect_left_alone("the gradient is half of a tensor", [](MlpToy& toy) {
    const graph::View tall = toy.matrix("tall", 2 * kTokens, kWide);
    toy.dx = {tall.tensor, kTokens * kWide, kTokens, kWide, kWide};
    toy.make("make", toy.pre);
    toy.backward();
  });
}

TEST(FuseGelu, OtherProductsStay) {
  expect_left_alone("no bias", [](MlpToy& toy) {
    toy.add("up", graph::Gemm{kTokens, kWide, kHidden, false, true},
            {graph::read(toy.x), graph::read(toy.w), graph::write(toy.pre)}, graph::Phase::forward);
    toy.gelu();
  });
  expect_left_alone("a sum of products", [](MlpToy& toy) {
    toy.make("make", toy.pre);
    toy.add("up", graph::Gemm{kTokens, kWide, kHidden, false, true, true, true},
            {graph::read(toy.x), graph::read(toy.w), graph::read_write(toy.pre), graph::read(toy.bias)},
            graph::Phase::forward);
    toy.gelu();
  });
  expect_left_alone("a gradient with a bias", [](MlpToy& toy) {
    toy.make("make", toy.pre);
    toy.dx_product.has_bias = true;
    toy.backward();
  });
  expect_left_alone("sums that outlive the step", [](MlpToy& toy) {
    toy.up_view = toy.gelu_x = toy.matrix("state", kTokens, kWide, graph::Role::cache);
    toy.forward();
  });
}

TEST(FuseGelu, InPlaceGeluStays) {
  expect_left_alone("y is x", [](MlpToy& toy) {
    toy.y = toy.pre;
    toy.up();
    toy.add("gelu", graph::GeluForward{kTokens * kWide}, {graph::read_write(toy.pre), graph::read_write(toy.pre)},
            graph::Phase::forward);
  });
  expect_left_alone("dx is dy", [](MlpToy& toy) {
    toy.make("make", toy.pre);
    toy.dx = toy.dy;
    toy.backward();
  });
}

// It runs once more as one task, and its copy feeds the gradient.
TEST(FuseGelu, IsRecomputedAsOneTask) {
  const auto graph = rewritten(both_passes(), "fuse-gelu;recompute");
  EXPECT_EQ(names_of(*graph), (Names{"up", "up.recompute", "down_dx", "keep"}));
  EXPECT_EQ(place_of(*graph, "down_dx", 3), "pre.recompute+0");
  EXPECT_EQ(place_of(*graph, "keep", 1), "y.recompute+0");
}

TEST(FuseGelu, PlansAreCheckedAndCostLess) {
  const auto plain = both_passes();
  const std::vector<Rewrite> fuse = {FuseGelu{}};
  for (const std::string& name : testing::quick_graph_policies()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(
        check_plan(policy::compile_plan(plain, *policy::make_policy(name), {.compute_streams = 2}, fuse)).empty());
  }
  const auto fused = rewritten(plain, "fuse-gelu");
  const auto nanoseconds = [](const graph::Graph& graph) {
    double sum = 0;
    for (const double ns : cost::analytic_costs(cost::Machine(), graph::Grid())->costs(graph).ns) sum += ns;
    return sum;
  };
  EXPECT_LT(nanoseconds(*fused), nanoseconds(*plain));
}

}  // namespace
}  // namespace weft::plan
