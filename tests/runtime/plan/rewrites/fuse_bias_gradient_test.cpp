// Bias gradients in products: the sums that are fused, and those that must not be.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/runtime/plan/rewrites/rewrite_toy.h"

namespace weft::plan {
namespace {

constexpr std::int64_t kBiasTokens = 8, kBiasOut = 6, kBiasIn = 4;

/// The gradients of a layer's weight and bias.
class BiasToy : public testing::ReductionToy {
 public:
  void product() {
    add("dw", gemm, {graph::read(dy), graph::read(x), gemm.accumulate ? graph::read_write(dw) : graph::write(dw)});
  }
  void sum() {
    add("db", graph::BiasGradient{kBiasTokens, kBiasOut, sum_accumulates},
        {graph::read(dy), sum_accumulates ? graph::read_write(db) : graph::write(db)});
  }
  void change(const std::string& name, const graph::View& view) {
    add(name, graph::Zero{view.rows * view.cols}, {graph::write(view)});
  }
  /// What products and sums of earlier micro-batches left.
  void earlier() { change("earlier dw", dw), change("earlier db", db); }
  void add(const std::string& name, const graph::Operation& operation, std::vector<graph::Access> accesses) {
    ReductionToy::add(graph::Task{name, operation, std::move(accesses), layer, 1, graph::Phase::backward});
  }
  graph::View matrix(const char* name, std::int64_t rows, std::int64_t cols, graph::Role role) {
    return {tensor(name, rows * cols, role).tensor, 0, rows, cols, cols};
  }

  graph::View x = matrix("x", kBiasTokens, kBiasIn, graph::Role::input),
              dy = matrix("dy", kBiasTokens, kBiasOut, graph::Role::input);
  graph::View dw = matrix("dw", kBiasOut, kBiasIn, graph::Role::gradient),
              db = tensor("db", kBiasOut, graph::Role::gradient);
  graph::Gemm gemm{kBiasOut, kBiasIn, kBiasTokens, true};
  bool sum_accumulates = false;
  std::int32_t layer = 2;
};

TEST(FuseBiasGradient, TheProductWritesOrUpdatesBoth) {
  for (const bool accumulate : {false, true}) {
    BiasToy toy;
    toy.gemm.accumulate = toy.sum_accumulates = accumulate;
    if (accumulate) toy.earlier();
    toy.product();
    toy.sum();
    const auto fused = testing::rewritten(toy.build(), "fuse-bias-gradient");
    EXPECT_EQ(testing::names_of(*fused).back(), "dw");
    const graph::Task& dw = testing::task_of(*fused, "dw");
    EXPECT_EQ(std::get<graph::Gemm>(dw.operation).epilogue, Epilogue::bias_gradient);
    ASSERT_EQ(dw.accesses.size(), 4U);
    EXPECT_EQ(testing::place_of(*fused, "dw", 3), "db+0");
    EXPECT_EQ(dw.accesses[3].mode, accumulate ? graph::AccessMode::read_write : graph::AccessMode::write);
  }
}

template <class Build>
void expect_sum_stays(const char* what, Build build) {
  SCOPED_TRACE(what);
  BiasToy toy;
  build(toy);
  const auto graph = toy.build();
  // Both leave out tensors that nobody uses.
  EXPECT_EQ(testing::rewritten(graph, "fuse-bias-gradient")->fingerprint(),
            testing::rewritten(graph, "pack-weights=1000")->fingerprint());
}

TEST(FuseBiasGradient, OtherSumsStay) {
  expect_sum_stays("there is no product before it", [](BiasToy& toy) {
    toy.sum();
    toy.product();
  });
  expect_sum_stays("only one of both is added to an earlier gradient", [](BiasToy& toy) {
    toy.gemm.accumulate = true;
    toy.earlier();
    toy.product();
    toy.sum();
  });
  expect_sum_stays("the matrix changes before the sum", [](BiasToy& toy) {
    toy.product();
    toy.change("scale", toy.dy);
    toy.sum();
  });
  expect_sum_stays("the bias's gradient is used before the sum", [](BiasToy& toy) {
    toy.product();
    toy.change("clear", toy.db);
    toy.sum();
  });
  expect_sum_stays("the product reads other columns", [](BiasToy& toy) {
    toy.gemm.m = kBiasOut / 2;
    toy.add("dw", toy.gemm,
            {graph::read({toy.dy.tensor, 0, kBiasTokens, kBiasOut / 2, kBiasOut}), graph::read(toy.x),
             graph::write({toy.dw.tensor, 0, kBiasOut / 2, kBiasIn, kBiasIn})});
    toy.sum();
  });
  expect_sum_stays("another layer sums", [](BiasToy& toy) {
    toy.product();
    toy.layer = 3;
    toy.sum();
  });
  expect_sum_stays("the product sums another bias already", [](BiasToy& toy) {
    toy.gemm.epilogue = Epilogue::bias_gradient;
    const graph::View other = toy.tensor("db2", kBiasOut, graph::Role::gradient);
    toy.add("dw", toy.gemm, {graph::read(toy.dy), graph::read(toy.x), graph::write(toy.dw), graph::write(other)});
    toy.sum();
  });
}

}  // namespace
}  // namespace weft::plan
