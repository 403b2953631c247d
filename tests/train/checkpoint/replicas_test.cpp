#include "train/checkpoint/replicas.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "runtime/comm/launch.h"
#include "tests/base/messages.h"
#include "tests/ops/tiny_model.h"
#include "tests/train/grid_arrays.h"

namespace weft::train {
namespace {

struct Result {
  int exit_code = 0;
  std::string errors;
};

/// The arrays of a grid, of which `rank` has changed the first element of `parameter`.
Result check(const graph::Grid& grid, DType dtype, int rank = -1, const std::string& parameter = "") {
  std::ostringstream errors;
  const int code = comm::run_ranks(
      static_cast<int>(grid.ranks()),
      [&](comm::World& world) {
        const testing::GridArrays arrays(testing::tiny_model(ops::Family::gpt2), grid, world.rank(), dtype, false,
                                         testing::GridArrays::Fill::values);
        for (const ParameterState& state : arrays.states()) {
          if (world.rank() == rank && state.spec->name == parameter) *static_cast<std::uint16_t*>(state.data) ^= 1U;
        }
        expect_equal_replicas(world, arrays.states());
        return 0;
      },
      errors);
  return {code, errors.str()};
}

TEST(Replicas, EqualOnesPassOnAnyGrid) {
  for (const graph::Grid& grid :
       {graph::Grid{1, 1, 1, 1}, graph::Grid{1, 1, 1, 3}, graph::Grid{2, 2, 2, 1}, graph::Grid{2, 1, 2, 2}}) {
    for (const DType dtype : {DType::f32, DType::bf16})
      EXPECT_EQ(check(grid, dtype).exit_code, 0) << graph::to_string(grid);
  }
}

TEST(Replicas, OneChangedBitIsNamed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Result data = check(graph::Grid{1, 1, 1, 3}, dtype, 2, "L0.mlp.up.weight");
    EXPECT_EQ(data.exit_code, 2);
    EXPECT_TRUE(has_parts(data.errors, {"rank 2 starts with L0.mlp.up.weight", ", rank 0 with "}));
  }
  // A vector beside the residual stream is the same on ranks that differ in y and z.
  const Result grid = check(graph::Grid{2, 2, 1, 1}, DType::f32, 3, "L1.norm1.weight");
  EXPECT_EQ(grid.exit_code, 2);
  EXPECT_TRUE(has_parts(grid.errors, {"rank 3 starts with L1.norm1.weight", ", rank 1 with "}));
}

TEST(Replicas, PartsThatOneRankHoldsMayDiffer) {
  EXPECT_EQ(check(graph::Grid{2, 1, 2, 1}, DType::f32, 3, "L0.mlp.up.weight").exit_code, 0);
}

}  // namespace
}  // namespace weft::train
