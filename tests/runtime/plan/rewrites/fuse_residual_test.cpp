// Residuals in products: the additions that are fused, and those that must not be.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::plan {
namespace {

using Names = std::vector<std::string>;
using testing::names_of;
using testing::place_of;
using testing::rewritten;
using testing::task_of;

constexpr std::int64_t kBranchRows = 8, kBranchCols = 6;

/// The end of a branch: a product and the addition of its result to the residual stream.
class BranchToy : public testing::ReductionToy {
 public:
  void product() {
    add("down", gemm, {graph::read(x), graph::read(w), graph::write(branch), graph::read(bias)}, phase);
  }
  void sum() {
    add("residual", graph::Add{kBranchRows * kBranchCols},
        {graph::read(residual), graph::read(branch), graph::write(out)}, phase);
  }
  void read(const std::string& name, const graph::View& view) { add(name, graph::Zero{1}, {graph::read(view)}, phase); }
  void change(const std::string& name, const graph::View& view) {
    add(name, graph::Zero{1}, {graph::read_write(view)}, phase);
  }
  void add(const std::string& name, const graph::Operation& operation, std::vector<graph::Access> accesses,
           graph::Phase at) {
    ReductionToy::add(graph::Task{name, operation, std::move(accesses), layer, 1, at});
  }
  graph::View matrix(const char* name, std::int64_t rows, std::int64_t cols,
                     graph::Role role = graph::Role::activation) {
    const graph::View all = tensor(name, rows * cols, role);
    return {all.tensor, 0, rows, cols, cols};
  }

  graph::View x = matrix("x", kBranchRows, kBranchCols, graph::Role::input),
              w = matrix("w", kBranchCols, kBranchCols, graph::Role::parameter);
  graph::View bias = tensor("bias", kBranchCols, graph::Role::parameter);
  graph::View residual = matrix("stream", kBranchRows, kBranchCols, graph::Role::input);
  graph::View branch = matrix("branch", kBranchRows, kBranchCols), out = matrix("out", kBranchRows, kBranchCols);
  graph::Gemm gemm{kBranchRows, kBranchCols, kBranchCols, false, true, false, true};
  std::int32_t layer = 2;
  graph::Phase phase = graph::Phase::forward;
};

TEST(FuseResidual, TheProductWritesTheSum) {
  BranchToy toy;
  toy.product();
  toy.sum();
  toy.read("next", toy.out);
  const auto fused = rewritten(toy.build(), "fuse-residual");
  EXPECT_EQ(names_of(*fused), (Names{"down", "next"}));
  const graph::Task& down = task_of(*fused, "down");
  EXPECT_EQ(std::get<graph::Gemm>(down.operation).epilogue, Epilogue::add);
  ASSERT_EQ(down.accesses.size(), 5U);
  EXPECT_EQ(place_of(*fused, "down", 2), "out+0");
  EXPECT_EQ(down.accesses[2].mode, graph::AccessMode::write);
  EXPECT_EQ(place_of(*fused, "down", 4), "stream+0");
  EXPECT_EQ(down.accesses[4].mode, graph::AccessMode::read);
}

template <class Build>
void expect_addition_stays(const char* what, Build build) {
  SCOPED_TRACE(what);
  BranchToy toy;
  build(toy);
  const auto graph = toy.build();
  // Both leave out tensors that nobody uses.
  EXPECT_EQ(rewritten(graph, "fuse-residual")->fingerprint(), rewritten(graph, "pack-weights=1000")->fingerprint());
}

TEST(FuseResidual, OtherAdditionsStay) {
  expect_addition_stays("the product's result has another reader", [](BranchToy& toy) {
    toy.product();
    toy.sum();
    toy.read("again", toy.branch);
  });
  expect_addition_stays("the product's result is changed before", [](BranchToy& toy) {
    toy.product();
    toy.change("scale", toy.branch);
    toy.sum();
  });
  expect_addition_stays("the residual is written after the product", [](BranchToy& toy) {
    toy.product();
    toy.change("late", toy.residual);
    toy.sum();
  });
  expect_addition_stays("the sum takes the residual's place", [](BranchToy& toy) {
    toy.out = toy.residual;
    toy.product();
    toy.sum();
  });
  expect_addition_stays("the product has an epilogue", [](BranchToy& toy) {
    toy.gemm.epilogue = Epilogue::add;
    toy.add("down", toy.gemm,
            {graph::read(toy.x), graph::read(toy.w), graph::write(toy.branch), graph::read(toy.bias),
             graph::read(toy.residual)},
            toy.phase);
    toy.sum();
  });
  expect_addition_stays("gradients are added", [](BranchToy& toy) {
    toy.phase = graph::Phase::backward;
    toy.product();
    toy.sum();
  });
  expect_addition_stays("another layer adds", [](BranchToy& toy) {
    toy.product();
    toy.layer = 3;
    toy.sum();
  });
}

}  // namespace
}  // namespace weft::plan
