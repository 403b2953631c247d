// A task's accesses as slots: by name, in the operation's shapes.
#include "runtime/execute/task_arguments.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "kernels/cpu/gemm/packed_gemm.h"

namespace weft::execute {
namespace {

using cpu::Matrix;

class TaskArguments : public ::testing::Test {
 protected:
  Matrix matrix(std::int64_t rows, std::int64_t cols, std::int64_t stride = 0) {
    return {memory_.data(), rows, cols, stride == 0 ? cols : stride, DType::f32};
  }
  std::vector<float> memory_ = std::vector<float>(4096);
};

TEST_F(TaskArguments, HaveASlotWhetherTheyAreThereOrNot) {
  Matrix bias = matrix(1, 3);
  bias.dtype = DType::bf16;  // to be told from the others
  const graph::Gemm gemm{.m = 2, .n = 3, .k = 5, .has_bias = true};
  const auto slots = fitted_arguments(gemm, std::vector{matrix(2, 5), matrix(5, 3), matrix(2, 3), bias});
  ASSERT_EQ(slots.size(), graph::argument_count<graph::Gemm>);
  const Call<graph::Gemm> named(gemm, slots);
  ASSERT_NE(named.find("bias"), nullptr);
  EXPECT_EQ(named["bias"].dtype, DType::bf16);
  EXPECT_EQ(named.find("gelu"), nullptr);
  EXPECT_EQ(named.find("packed_B"), nullptr);
}

// An empty argument is there all the same.
TEST_F(TaskArguments, OfNoElementsAreThere) {
  const Matrix empty{nullptr, 1, 0, 0, DType::f32};
  const graph::SumSquares sum{0};
  const auto slots = fitted_arguments(sum, std::vector{empty, matrix(1, 1)});
  const Call<graph::SumSquares> named(sum, slots);
  EXPECT_NE(named.find("x"), nullptr);
  EXPECT_EQ(named.find("replica"), nullptr);
}

TEST_F(TaskArguments, ComeInTheShapesOfTheOperation) {
  const auto slots = fitted_arguments(graph::SwiGluForward{2, 3}, std::vector{matrix(1, 12), matrix(2, 3, 8)});
  EXPECT_EQ(slots[0].rows, 2);
  EXPECT_EQ(slots[0].cols, 6);
  EXPECT_EQ(slots[0].row_stride, 6);
  EXPECT_EQ(slots[1].row_stride, 8);
}

TEST_F(TaskArguments, RefuseWhatDoesNotFit) {
  const auto fit = [](const graph::Operation& operation, const std::vector<Matrix>& arguments) {
    return fitted_arguments(operation, arguments);
  };
  const Matrix n = matrix(1, 8), apart = matrix(2, 4, 8);
  EXPECT_NO_THROW(fit(graph::GeluForward{8}, {n, apart}));
  EXPECT_THROW(fit(graph::GeluForward{8}, {n}), std::logic_error);
  EXPECT_THROW(fit(graph::GeluForward{8}, {n, n, n}), std::logic_error);
  EXPECT_THROW(fit(graph::GeluForward{7}, {n, n}), std::logic_error);
  EXPECT_THROW(fit(graph::SwiGluForward{1, 4}, {n, apart}), std::logic_error);
  EXPECT_THROW(fit(graph::BiasGradient{4, 2, false}, {apart, matrix(1, 2)}), std::logic_error) << "another shape";
  const std::vector<graph::Operation> collectives = {
      graph::AllReduce{graph::Channel::data, 2, 8}, graph::ReduceScatter{graph::Channel::x, 2, 4},
      graph::AllGather{graph::Channel::y, 2, 4}, graph::Broadcast{graph::Channel::data, 2, 8, 0},
      graph::AllToAll{graph::Channel::context, 2, 2, 2}};
  for (const graph::Operation& collective : collectives) EXPECT_THROW(fit(collective, {n, n, n}), std::logic_error);
  graph::Gemm gemm{.m = 2, .n = 3, .k = 5, .accumulate = true, .epilogue = Epilogue::gelu};
  EXPECT_THROW(fit(gemm, {matrix(2, 5), matrix(5, 3), matrix(2, 3), matrix(2, 3)}), std::logic_error);
}

// The size of packed weights is this machine's business, which schemas leave open.
TEST_F(TaskArguments, PackedWeightsAreAsLargeAsTheMachineAsks) {
  const std::int64_t elements = cpu::packed_b_elements({.m = 1, .n = 3, .k = 5});
  ASSERT_LT(elements, 4096);
  const auto pack = [&](std::int64_t n) {
    return fitted_arguments(graph::PackWeight{3, 5}, std::vector{matrix(5, 3), matrix(1, n)});
  };
  const auto product = [&](std::int64_t n) {
    return fitted_arguments(graph::Gemm{.m = 2, .n = 3, .k = 5, .packed_b = true},
                            std::vector{matrix(2, 5), matrix(5, 3), matrix(2, 3), matrix(1, n)});
  };
  EXPECT_NO_THROW(pack(elements));
  EXPECT_NO_THROW(product(elements));
  EXPECT_THROW(pack(elements + 1), std::logic_error);
  EXPECT_THROW(product(elements - 1), std::logic_error);
}

TEST_F(TaskArguments, OfCollectivesGoWhereCommunicatorsTakeThem) {
  const Matrix in = matrix(1, 8), out{memory_.data() + 64, 1, 4, 4, DType::f32}, work = matrix(1, 4);
  const graph::Task scatter{"scatter", graph::ReduceScatter{graph::Channel::data, 2, 4}, {}};
  const comm::CollectiveCall call = collective_call(scatter, std::vector{in, out, work});
  EXPECT_EQ(call.kind, comm::CollectiveKind::reduce_scatter);
  EXPECT_EQ(call.in, in.data);
  EXPECT_EQ(call.out, out.data);
  EXPECT_EQ(call.workspace, work.data);
  EXPECT_EQ(call.count, 4);
  EXPECT_THROW(collective_call(scatter, std::vector{in, out}), std::logic_error);
  EXPECT_THROW(collective_call(scatter, std::vector{in, in, work}), std::logic_error);
  const graph::Task exchange{"exchange", graph::AllToAll{graph::Channel::context, 2, 1, 2, true}, {}};
  const comm::CollectiveCall parts = collective_call(exchange, std::vector{work, out});
  EXPECT_EQ(parts.kind, comm::CollectiveKind::all_to_all);
  EXPECT_EQ(parts.in, work.data);
  EXPECT_EQ(parts.out, out.data);
  EXPECT_EQ(parts.count, 1);
  EXPECT_EQ(parts.parts, 2);
  EXPECT_TRUE(parts.inverse);
  std::array<std::int32_t, 10> offsets{};
  const cpu::Matrix table{offsets.data(), 2, 5, 5, DType::i32};
  const graph::Task rows{"rows", graph::ExchangeRows{graph::Channel::expert, 2, 2, 2, 4, 4, true}, {}};
  const comm::CollectiveCall back = collective_call(rows, std::vector{in, table, out});
  EXPECT_EQ(back.kind, comm::CollectiveKind::exchange_rows);
  EXPECT_EQ(back.count, 2);
  EXPECT_EQ(back.table.offsets, offsets.data());
  EXPECT_EQ(std::tuple(back.table.experts, back.table.rows, back.table.most), std::tuple(4, 2, 4));
  EXPECT_TRUE(back.inverse);
  EXPECT_THROW(collective_call({"add", graph::Add{8}, {}}, std::vector{in, in, in}), std::logic_error);
}

}  // namespace
}  // namespace weft::execute
