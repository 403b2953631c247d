// Accesses by name are found at their index, whatever other arguments the task has.
#include "graph/named_accesses.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace weft::graph {
namespace {

Access at(std::size_t tensor, AccessMode mode = AccessMode::read) {
  return {View{TensorId(tensor), 0, 1, 1, 1}, mode};
}

TEST(NamedAccesses, CountOnlyArgumentsThatAreThere) {
  const Task task{"product",
                  Gemm{.m = 1, .n = 1, .k = 1, .packed_b = true, .epilogue = Epilogue::gelu_gradient},
                  {at(0), at(1), at(2), at(3), at(4)}};
  const NamedAccesses<Gemm> accesses(task);
  EXPECT_EQ(accesses["A"].view.tensor, TensorId(0));
  EXPECT_EQ(accesses["C"].view.tensor, TensorId(2));
  EXPECT_EQ(accesses["x"].view.tensor, TensorId(3));
  EXPECT_EQ(accesses["packed_B"].view.tensor, TensorId(4));
  EXPECT_EQ(accesses.find("bias"), nullptr);
  EXPECT_THROW(accesses["gelu"], std::logic_error);
}

TEST(NamedAccesses, OfATaskWithoutThemAreNone) {
  const Task task{"product", Gemm{1, 1, 1}, {at(0)}};
  EXPECT_NE(NamedAccesses<Gemm>(task).find("A"), nullptr);
  EXPECT_EQ(NamedAccesses<Gemm>(task).find("C"), nullptr);
}

TEST(NamedAccesses, AddedOnesGoToTheirPlaces) {
  Task task{"product", Gemm{.m = 1, .n = 1, .k = 1, .has_bias = true}, {at(0), at(1), at(2), at(3)}};
  add_access<Gemm>(task, "packed_B", at(5), [](Gemm& gemm) { gemm.packed_b = true; });
  add_access<Gemm>(task, "gelu", at(4), [](Gemm& gemm) { gemm.epilogue = Epilogue::gelu; });
  replace_access<Gemm>(task, "C", at(7, AccessMode::write));
  ASSERT_EQ(task.accesses.size(), 6U);
  const NamedAccesses<Gemm> accesses(task);
  EXPECT_EQ(accesses["bias"].view.tensor, TensorId(3));
  EXPECT_EQ(accesses["gelu"].view.tensor, TensorId(4));
  EXPECT_EQ(accesses["packed_B"].view.tensor, TensorId(5));
  EXPECT_EQ(accesses["C"].view.tensor, TensorId(7));
  EXPECT_EQ(accesses["C"].mode, AccessMode::write);
}

TEST(NamedAccesses, GivenInAnyOrderStandInTheSchemas) {
  const Gemm gemm{.m = 1, .n = 1, .k = 1, .has_bias = true};
  const auto accesses = accesses_of(gemm, {{"bias", at(3)}, {"C", at(2)}, {"A", at(0)}, {"x", {}}, {"B", at(1)}});
  ASSERT_EQ(accesses.size(), 4U);
  for (std::size_t i = 0; i < accesses.size(); ++i) EXPECT_EQ(accesses[i].view.tensor, TensorId(i));
}

TEST(NamedAccesses, MustBeTheOperations) {
  const Gemm gemm{1, 1, 1};
  EXPECT_THROW(accesses_of(gemm, {{"A", at(0)}, {"B", at(1)}}), std::logic_error);
  EXPECT_THROW(accesses_of(gemm, {{"A", at(0)}, {"B", at(1)}, {"C", at(2)}, {"bias", at(3)}}), std::logic_error);
  EXPECT_NO_THROW(accesses_of(gemm, {{"A", at(0)}, {"B", at(1)}, {"C", at(2)}}));
}

}  // namespace
}  // namespace weft::graph
