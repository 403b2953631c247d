#include "runtime/policy/schedules/interleaved.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "runtime/policy/catalog/policies.h"
#include "tests/runtime/policy/pipeline/simulated_pipeline.h"

namespace weft::policy {
namespace {

// (p − 1)(F + B)/v, with F and B of all v chunks.
TEST(Interleaved, IdlesAsPublished) {
  for (const auto& [name, v] : {std::pair("interleaved", 2), std::pair("interleaved:chunks=4", 4)}) {
    for (const std::int64_t p : {2, 3, 4, 8}) {
      const testing::PipelineToy toy(testing::shaped_for(
          name, {.stages = p, .micro_batches = 2 * p, .forward = 1200.0 / v, .input = 1600.0 / v, .weight = 0}));
      const auto plans = testing::checked_plans(toy.classes(), name, {.cost_model = toy.prices()});
      EXPECT_EQ(testing::idle_times(toy, plans).of_step, static_cast<double>(p - 1) * 2800 / v) << name << p;
    }
  }
}

// Rank k keeps the forward passes of its warm-up and one more.
TEST(Interleaved, KeepsActivationsAsPublished) {
  const testing::PipelineToy toy(testing::shaped_for("interleaved", {.stages = 4, .micro_batches = 8}));
  const auto plans = testing::checked_plans(toy.classes(), "interleaved", {.cost_model = toy.prices()});
  EXPECT_EQ(testing::most_activations(plans), (std::vector<std::size_t>{11, 9, 7, 5}));
}

TEST(Interleaved, RefusesMicroBatchesThatTheRanksDontDivide) {
  const testing::PipelineToy toy(testing::shaped_for("interleaved", {.stages = 4, .micro_batches = 6}));
  try {
    InterleavedPolicy().orders(toy.classes(), {});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "policy interleaved: 6 micro-batches on 4 pipeline ranks; expected a multiple of 4 micro-batches a "
                 "step\n  fix: choose --global-batch and --micro-batch so that there are 8, or policy 1f1b");
  }
  EXPECT_THROW(make_policy("interleaved:chunks=1"), UserError);
}

TEST(Interleaved, RefusesOtherChunks) {
  const testing::PipelineToy toy({.stages = 2, .micro_batches = 4});
  try {
    InterleavedPolicy().orders(toy.classes(), {});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "policy interleaved orders 2 chunks of layers a rank, placed as a loop, and pipeline rank 0 of 2 holds "
        "the virtual stages 0; expected the virtual stages 0, 2\n  fix: lower the model with the chunks that "
        "this policy names, or choose another policy");
  }
}

}  // namespace
}  // namespace weft::policy
