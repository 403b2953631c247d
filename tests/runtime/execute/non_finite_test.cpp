// NaNs and infinities of every kind, at any position. The first task that made one is named, in program order and over
// all ranks.
#include "runtime/execute/non_finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "runtime/execute/program/program.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/comm/ranks.h"

namespace weft::execute {
namespace {

template <class Element>
class FirstNonFinite : public ::testing::Test {
 protected:
  static constexpr DType kDtype = sizeof(Element) == 4 ? DType::f32 : DType::bf16;
};

using Elements = ::testing::Types<float, bf16>;
TYPED_TEST_SUITE(FirstNonFinite, Elements);

TYPED_TEST(FirstNonFinite, IsFoundAtEveryPlace) {
  constexpr std::int64_t kRows = 3, kCols = 1100, kStride = 1103;
  std::vector<TypeParam> values(kRows * kStride, static_cast<TypeParam>(std::numeric_limits<float>::max() / 2));
  const cpu::Matrix matrix{values.data(), kRows, kCols, kStride, TestFixture::kDtype};
  EXPECT_FALSE(first_non_finite(matrix).has_value());
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const auto& [row, col] : {std::pair<std::int64_t, std::int64_t>(0, 0), {0, 1023}, {1, 1024}, {2, 1099}}) {
      const auto place = static_cast<std::size_t>(row * kStride + col);
      const TypeParam good = values[place];
      values[place] = static_cast<TypeParam>(bad);
      EXPECT_EQ(first_non_finite(matrix), row * kCols + col) << bad;
      values[place] = good;
    }
  }
}

TYPED_TEST(FirstNonFinite, IsTheFirstOfSeveralAndInsideOfTheWindow) {
  std::vector<TypeParam> values(12, static_cast<TypeParam>(1.0F));
  const auto nan = static_cast<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  values[3] = nan;  // between the rows
  const cpu::Matrix matrix{values.data(), 3, 3, 4, TestFixture::kDtype};
  EXPECT_FALSE(first_non_finite(matrix).has_value());
  values[5] = values[9] = nan;
  EXPECT_EQ(first_non_finite(matrix), 4);
}

TEST(FirstNonFiniteInteger, ThereIsNone) {
  std::vector<std::int32_t> values(4, 0x7f800000);
  EXPECT_FALSE(first_non_finite({values.data(), 1, 4, 4, DType::i32}).has_value());
}

/// sum = a + b, twice = b + b, and the sum over two ranks of all that; tensors are [2, 3].
std::shared_ptr<const graph::Graph> small_graph() {
  graph::GraphBuilder builder;
  const auto tensor = [&](std::string name, graph::Role role) {
    return graph::whole(builder, builder.add_tensor({std::move(name), DType::f32, {2, 3}, role}));
  };
  const graph::View a = tensor("a", graph::Role::parameter), b = tensor("b", graph::Role::parameter);
  const graph::View sum = tensor("sum", graph::Role::activation), twice = tensor("twice", graph::Role::activation);
  const graph::View total = tensor("total", graph::Role::parameter);
  const graph::View workspace = graph::whole(
      builder,
      builder.add_tensor({"workspace", DType::f32, {graph::all_reduce_workspace(6, 2)}, graph::Role::workspace}));
  builder.add_task({"make_sum", graph::Add{6}, {graph::read(a), graph::read(b), graph::write(sum)}});
  builder.add_task({"make_twice", graph::Add{6}, {graph::read(b), graph::read(b), graph::write(twice)}});
  builder.add_task({"make_total", graph::Add{6}, {graph::read(sum), graph::read(twice), graph::write(total)}});
  builder.add_task({"reduce_total",
                    graph::AllReduce{graph::Channel::data, 2, 6},
                    {graph::read_write(total), graph::write(workspace)}});
  return std::make_shared<const graph::Graph>(std::move(builder).build());
}

/// The reports of two ranks when `poison` puts bad numbers into their parameters.
template <class Poison>
std::string report(bool check, const std::string& policy, int streams, Poison poison) {
  const testing::RanksEnd end = testing::end_of_ranks(2, [&](comm::World& world) {
    Program program(
        world, {{"train", small_graph()}},
        {.policy = policy::make_policy(policy), .policy_options = {.compute_streams = streams}, .check_finite = check});
    program.run("train", 6);
    poison(program.state(), world.rank());
    program.run("train", 7);
  });
  EXPECT_EQ(end.code, end.errors.empty() ? 0 : 3);
  return end.errors;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(CheckFinite, NamesTheFirstTaskOfAllRanks) {
  for (const std::string policy : {"serial", "program"}) {
    for (const int streams : {1, 2}) {
      const auto late_and_early = [](const State& state, int rank) {
        if (rank == 1) state.get<float>("a")[4] = kInfinity;   // first seen in 'make_sum'
        if (rank == 0) state.get<float>("a")[5] = -kInfinity;  // as well
      };
      EXPECT_EQ(report(true, policy, streams, late_and_early),
                "weft: error: rank 0: train, step 7: task 'make_sum' wrote a NaN or an infinity to 'sum' at [1, 2]\n");
    }
  }
}

TEST(CheckFinite, TheRankOfTheEarlierTaskReports) {
  // 2e38 twice overflows in 'make_twice'; an infinity in 'a' shows in 'make_sum' already.
  const auto poison = [](const State& state, int rank) {
    if (rank == 0) state.get<float>("b")[0] = 2e38F;
    if (rank == 1) state.get<float>("a")[4] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_EQ(report(true, "program", 1, poison),
            "weft: error: rank 1: train, step 7: task 'make_sum' wrote a NaN or an infinity to 'sum' at [1, 1]\n");
  const auto only_overflow = [](const State& state, int rank) {
    if (rank == 0) state.get<float>("b")[0] = 2e38F;
  };
  EXPECT_EQ(report(true, "program", 1, only_overflow),
            "weft: error: rank 0: train, step 7: task 'make_twice' wrote a NaN or an infinity to 'twice' at [0, 0]\n");
}

TEST(CheckFinite, CollectivesAreLookedAtToo) {
  const auto large = [](const State& state, int) {
    for (float& value : state.get<float>("a")) value = 2e38F;
  };
  EXPECT_EQ(
      report(true, "program", 1, large),
      "weft: error: rank 0: train, step 7: task 'reduce_total' wrote a NaN or an infinity to 'total' at [0, 0]\n");
}

TEST(CheckFinite, IsSilentOtherwise) {
  EXPECT_EQ(report(true, "program", 2, [](const State&, int) {}), "");
  EXPECT_EQ(report(false, "program", 1, [](const State& state, int) { state.get<float>("a")[0] = kInfinity; }), "");
}

}  // namespace
}  // namespace weft::execute
