// Packed weights: the products that share one, the position of its task, and the exceptions.
#include <algorithm>

#include "kernels/cpu/gemm/packed_gemm.h"
#include "runtime/cost/cost_model.h"
#include "runtime/execute/layouts/cpu_weight_layouts.h"
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

constexpr std::int64_t kRows = 64, kIn = 24, kOut = 21;

// Elsewhere products read weights as they are, and no graph changes.
bool packs(const cpu::GemmShape& shape) {
  return cpu::default_gemm_method(shape, DType::f32, DType::f32).engine == cpu::GemmMethod::Engine::packed;
}
bool packs_forward() {
  return packs({kRows, kOut, kIn, false, true});
}
bool packs_backward() {
  return packs({kRows, kIn, kOut});
}
std::size_t packings() {
  return (packs_forward() ? 1U : 0U) + (packs_backward() ? 1U : 0U);
}

/// Passes of one linear layer: y = x·Wᵀ, dx = dy·W, dW = dyᵀ·x.
class LayerToy : public testing::ToyGraph {
 public:
  explicit LayerToy(graph::Role role = graph::Role::parameter)
      : w_(tensor("w", kOut * kIn, role)), x_(tensor("x", kRows * kIn, graph::Role::input)) {}

  void forward(std::int32_t micro_batch, std::int64_t rows = kRows) {
    const graph::View y = tensor("y" + std::to_string(micro_batch), rows * kOut);
    product("forward", micro_batch, graph::Phase::forward, graph::Gemm{rows, kOut, kIn, false, true},
            {graph::read({x_.tensor, 0, rows, kIn, kIn}), graph::read(weight()), graph::write(y)});
    y_.push_back(y);
  }
  void backward(std::int32_t micro_batch) {
    const graph::View dy = y_[static_cast<std::size_t>(micro_batch)];
    const graph::View dx = tensor("dx" + std::to_string(micro_batch), kRows * kIn);
    const graph::View dw = tensor("dw" + std::to_string(micro_batch), kOut * kIn, graph::Role::gradient);
    product("dx", micro_batch, graph::Phase::backward, graph::Gemm{kRows, kIn, kOut},
            {graph::read(dy), graph::read(weight()), graph::write(dx)});
    product("dw", micro_batch, graph::Phase::backward, graph::Gemm{kOut, kIn, kRows, true},
            {graph::read(dy), graph::read({x_.tensor, 0, kRows, kIn, kIn}), graph::write(dw)});
  }
  void update(std::string name) {
    add({std::move(name), graph::Add{1}, {graph::read_write(weight())}, -1, -1, graph::Phase::update});
  }
  graph::View weight() const { return {w_.tensor, 0, kOut, kIn, kIn}; }

 private:
  void product(const std::string& what, std::int32_t micro_batch, graph::Phase phase, const graph::Gemm& gemm,
               std::vector<graph::Access> accesses) {
    add({"mb" + std::to_string(micro_batch) + "." + what, gemm, std::move(accesses), 3, micro_batch, phase});
  }

  graph::View w_, x_;
  std::vector<graph::View> y_;
};

LayerToy passes(int micro_batches) {
  LayerToy toy;
  for (int i = 0; i < micro_batches; ++i) toy.forward(i), toy.backward(i);
  toy.update("update");
  return toy;
}

TEST(PackWeights, EachWayRoundIsPackedBeforeItsFirstProduct) {
  const auto graph = passes(2).build();
  const auto packed = rewritten(graph, "pack-weights");
  if (!packs_forward()) {
    EXPECT_EQ(packed->fingerprint(), graph->fingerprint());
    return;
  }
  Names names = {"mb0.forward.pack", "mb0.forward", "mb0.dx", "mb0.dw", "mb1.forward", "mb1.dx", "mb1.dw", "update"};
  if (packs_backward()) names.insert(names.begin() + 2, "mb0.dx.pack");
  EXPECT_EQ(names_of(*packed), names);
  const graph::Task& pack = task_of(*packed, "mb0.forward.pack");
  EXPECT_EQ(pack.layer, 3);
  EXPECT_EQ(pack.micro_batch, 0);
  EXPECT_EQ(pack.phase, graph::Phase::forward);
  const auto& operation = std::get<graph::PackWeight>(pack.operation);
  EXPECT_EQ(operation.n, kOut);
  EXPECT_EQ(operation.k, kIn);
  EXPECT_TRUE(operation.trans_b);
  EXPECT_EQ(pack.accesses.front().view, task_of(*packed, "mb1.forward").accesses[1].view);
  if (packs_backward()) {
    EXPECT_FALSE(std::get<graph::PackWeight>(task_of(*packed, "mb0.dx.pack").operation).trans_b);
  }
  for (const char* name : {"mb0.forward", "mb1.forward", "mb0.dx", "mb1.dx"}) {
    const bool forward = std::string(name).ends_with("forward");
    EXPECT_EQ(std::get<graph::Gemm>(task_of(*packed, name).operation).packed_b, forward || packs_backward());
    if (!forward && !packs_backward()) continue;
    EXPECT_EQ(place_of(*packed, name, 3), forward ? "w.packed_t+0" : "w.packed+0");
    EXPECT_EQ(task_of(*packed, name).accesses[3].mode, graph::AccessMode::read);
  }
  EXPECT_FALSE(std::get<graph::Gemm>(task_of(*packed, "mb0.dw").operation).packed_b);
  EXPECT_EQ(testing::waits_for(*packed, "mb1.forward"), Names{"mb0.forward.pack"});
  const graph::Tensor& tensor = packed->tensor(packed->find_tensor("w.packed_t"));
  EXPECT_EQ(tensor.dtype, DType::f32);
  EXPECT_EQ(tensor.role, graph::Role::workspace);
  EXPECT_EQ(tensor.elements(), cpu::packed_b_elements({kRows, kOut, kIn, false, true}));
  EXPECT_EQ(rewritten(packed, "pack-weights")->fingerprint(), packed->fingerprint());
}

TEST(PackWeights, FewProductsArentWorthIt) {
  const auto once = passes(1).build(), twice = passes(2).build();
  EXPECT_EQ(rewritten(once, "pack-weights")->fingerprint(), once->fingerprint());
  EXPECT_EQ(rewritten(twice, "pack-weights=3")->fingerprint(), twice->fingerprint());
  EXPECT_EQ(rewritten(once, "pack-weights=1")->tasks().size(), once->tasks().size() + packings());
}

TEST(PackWeights, OtherWeightsAreLeftAlone) {
  const auto left_alone = [](LayerToy& toy) {
    const auto graph = toy.build();
    return rewritten(graph, "pack-weights")->fingerprint() == graph->fingerprint();
  };
  LayerToy few_rows, changes, activation(graph::Role::activation);
  few_rows.forward(0, 8), few_rows.forward(1, 8);
  EXPECT_TRUE(left_alone(few_rows));
  changes.forward(0), changes.update("change"), changes.forward(1);
  EXPECT_TRUE(left_alone(changes));
  activation.add({"make", graph::Add{1}, {graph::write(activation.weight())}});
  activation.forward(0), activation.forward(1);
  EXPECT_TRUE(left_alone(activation));
}

// Gathered once for the step, a weight is packed after its gather; gathered by every pass, it has one product per
// transposition.
TEST(PackWeights, AGatheredWeightIsPackedIfItStays) {
  LayerToy toy(graph::Role::gathered);
  const graph::View shard = toy.tensor("shard", kOut * kIn / 2, graph::Role::parameter);
  toy.add("gather", graph::AllGather{graph::Channel::z_gather, 2, kOut * kIn / 2},
          {graph::read(shard), graph::write({toy.weight().tensor, 0, 1, kOut * kIn, kOut * kIn})}, 3, 0);
  for (int i = 0; i < 2; ++i) toy.forward(i), toy.backward(i);
  const auto graph = toy.build();
  const auto kept = rewritten(graph, "pack-weights"), again = rewritten(graph, "reshard;pack-weights");
  EXPECT_EQ(kept->tasks().size(), graph->tasks().size() + packings());
  EXPECT_EQ(again->fingerprint(), rewritten(graph, "reshard")->fingerprint());
  if (!packs_forward()) return;
  EXPECT_EQ(testing::waits_for(*kept, "mb0.forward.pack"), Names{"gather"});
}

TEST(PackWeights, BlocksOfAWeightAreApart) {
  if (!packs_forward()) GTEST_SKIP() << "no product of this CPU packs by default";
  testing::ToyGraph toy;
  const graph::View w = toy.tensor("w", 32 * 16, graph::Role::parameter),
                    x = toy.tensor("x", 64 * 8, graph::Role::input);
  for (int i = 0; i < 4; ++i) {
    const graph::View y = toy.tensor("y" + std::to_string(i), 64 * 32);
    toy.add("p" + std::to_string(i), graph::Gemm{64, 32, 8, false, true},
            {graph::read({x.tensor, 0, 64, 8, 8}), graph::read({w.tensor, i % 2 * 8, 32, 8, 16}), graph::write(y)});
  }
  const auto graph = rewritten(toy.build(), "pack-weights");
  EXPECT_EQ(names_of(*graph), (Names{"p0.pack", "p0", "p1.pack", "p1", "p2", "p3"}));
  EXPECT_EQ(place_of(*graph, "p2", 3), "w.packed_t+0");
  EXPECT_EQ(place_of(*graph, "p3", 3), "w.packed_t2+0");
}

// In any order of the given rewrites, packing comes after the others and GELU in products before them, once.
TEST(PackWeights, StandsBehindAllOtherRewrites) {
  const auto graph = passes(2).build();
  const auto text = [&](const char* chosen) {
    const std::vector<Rewrite> all =
        policy::rewrites_of(graph, *policy::make_policy("program"), {}, parse_rewrites(chosen));
    return to_string(std::span<const Rewrite>(all));
  };
  EXPECT_EQ(text("pack-weights;recompute;bucket=64"), "recompute;bucket=64;pack-weights=2");
  EXPECT_EQ(text("pack-weights;reshard;pack-weights=4"), "reshard;pack-weights=4");
  EXPECT_EQ(text("recompute;fuse-gelu;bucket=64;pack-weights;fuse-gelu"),
            "fuse-gelu;recompute;bucket=64;pack-weights=2");
  EXPECT_EQ(text("recompute;fuse-residual;bucket=64;fuse-gelu;fuse-residual"),
            "fuse-residual;fuse-gelu;recompute;bucket=64");
  EXPECT_EQ(text("reshard"), "reshard");
}

TEST(PackWeights, PlansHoldWhatIsPackedUntilItsLastProduct) {
  if (!packs_forward()) GTEST_SKIP() << "no product of this CPU packs by default";
  const auto plain = passes(3).build();
  const std::vector<Rewrite> pack = {PackWeights{}};
  for (const std::string& name : testing::quick_graph_policies()) {
    SCOPED_TRACE(name);
    const Plan plan =
        policy::compile_plan(plain, *policy::make_policy(name),
                             {.compute_streams = 2, .weight_layouts = &execute::cpu_weight_layouts()}, pack);
    EXPECT_EQ(plan.graph->tasks().size(), plain->tasks().size() + packings());
    EXPECT_TRUE(check_plan(plan).empty());
  }
  const Plan plan = policy::compile_plan(plain, *policy::make_policy("serial"),
                                         {.weight_layouts = &execute::cpu_weight_layouts()}, pack);
  const Plan without = policy::compile_plan(plain, *policy::make_policy("serial"));
  const auto bytes = [&](const char* tensor) { return plan.graph->tensor(plan.graph->find_tensor(tensor)).bytes(); };
  EXPECT_GE(plan.scratch_bytes, without.scratch_bytes + bytes("w.packed_t"));
  // Between its first and its last product nothing else may lie on its bytes.
  Plan broken = plan;
  const auto offset = [&](const char* tensor) -> auto& {
    return broken.offset[plan.graph->find_tensor(tensor).index()];
  };
  offset("w.packed_t") = offset("y1");
  EXPECT_FALSE(check_plan(broken).empty());
}

TEST(PackWeights, CostWhatTheyMove) {
  if (!packs_forward()) GTEST_SKIP() << "no product of this CPU packs by default";
  const auto graph = rewritten(passes(2).build(), "pack-weights");
  cost::Machine machine;
  machine.task_overhead = 0;
  const cost::TaskCosts costs = cost::analytic_costs(machine, graph::Grid())->costs(*graph);
  EXPECT_DOUBLE_EQ(costs.ns[graph->find_task("mb0.forward.pack").index()],
                   1e9 * 8 * kOut * kIn / machine.memory_bandwidth);
}

}  // namespace
}  // namespace weft::plan
