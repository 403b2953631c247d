#include "train/step/step_config.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/messages.h"

namespace weft::train {
namespace {

/// A resolved configuration that asks for scatters in each micro-batch.
RunConfig asked_for(std::int64_t z, std::int64_t micro_batches) {
  RunConfig config;
  config.grid.z = z;
  config.micro_batch = 1;
  config.global_batch = z * micro_batches;
  config.gradient_reduction = ops::GradientReduction::micro_batch;
  return config;
}

TEST(StepConfig, TakesOverWhenGradientsAreReduced) {
  RunConfig config = asked_for(2, 4);
  EXPECT_EQ(step_config(config).gradient_reduction, ops::GradientReduction::micro_batch);
  config.gradient_reduction = ops::GradientReduction::step;
  EXPECT_EQ(step_config(config).gradient_reduction, ops::GradientReduction::step);
}

TEST(SummationNote, MarksOnlyWhatAddsInAnotherOrder) {
  RunConfig config = asked_for(2, 2);
  const std::string note = summation_note(config);
  EXPECT_TRUE(has_parts(note, {"another order", "gradient-reduction"}));
  EXPECT_EQ(summation_note(asked_for(8, 3)), note);
  EXPECT_EQ(summation_note(asked_for(1, 2)), "");
  EXPECT_EQ(summation_note(asked_for(2, 1)), "");
  config.gradient_reduction = ops::GradientReduction::step;
  EXPECT_EQ(summation_note(config), "");
}

}  // namespace
}  // namespace weft::train
