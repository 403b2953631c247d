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

TEST(SummationNote, TellsThatNormsAreSummedOverY) {
  RunConfig config;
  config.sequence_parallel = true;
  config.micro_batch = 1;
  EXPECT_EQ(summation_note(config), "");
  config.grid.x = 2;
  EXPECT_EQ(summation_note(config), "");
  config.grid.y = 2;
  EXPECT_TRUE(has_parts(summation_note(config), {"another order", "sequence-parallel"}));
  config.model.lora = {.rank = 4};
  EXPECT_EQ(summation_note(config), "");
  RunConfig both = asked_for(2, 2);
  both.sequence_parallel = true;
  both.grid.y = 2;
  EXPECT_TRUE(has_parts(summation_note(both), {"gradient-reduction", "sequence-parallel", "another order"}));
}

// ---- the least memory: runs that can't fit are refused with their least size

RunConfig tiny() {
  RunConfig config;
  config.micro_batch = 2;
  fill_in(config, 0);
  return config;
}

TEST(MemoryCheck, CountsParametersAndBlockInputs) {
  RunConfig config = tiny();
  // 4 blocks of 2 · 128 tokens of 256 floats.
  EXPECT_EQ(least_host_bytes(config), 16.0 * static_cast<double>(config.model.parameters()) + 4 * 256 * 256 * 4.0);
  config.dtype = DType::bf16;
  EXPECT_EQ(least_host_bytes(config), 16.0 * static_cast<double>(config.model.parameters()) + 4 * 256 * 256 * 2.0);
}

TEST(MemoryCheck, CountsARanksRowsOfBlockInputs) {
  RunConfig config = tiny();
  config.grid.y = 2;
  const double whole = least_host_bytes(config);
  config.sequence_parallel = true;
  EXPECT_EQ(whole - least_host_bytes(config), 4 * 128 * 256 * 4.0);
}

TEST(MemoryCheck, CountsTheRanksPart) {
  RunConfig config = tiny();
  const auto parameters = static_cast<double>(config.model.parameters());
  const double whole = least_host_bytes(config) - 16 * parameters;
  config.grid = {.x = 2, .y = 2, .z = 2};
  EXPECT_NEAR(least_host_bytes(config), 16 * parameters / 8 + whole / 2, 16);
  config.grid = {.data = 4};
  EXPECT_EQ(least_host_bytes(config), 16 * parameters + whole);
  config.zero1 = true;
  EXPECT_EQ(least_host_bytes(config), (8 + 12.0 / 4) * parameters + whole);
}

// Frozen weights have no gradient, no moments and no master copy.
TEST(MemoryCheck, CountsFrozenWeightsAlone) {
  RunConfig config = tiny();
  config.dtype = DType::bf16;
  const auto parameters = static_cast<double>(config.model.parameters());
  const double rest = least_host_bytes(config) - 16 * parameters;
  config.model.lora = {.rank = 8};
  EXPECT_EQ(least_host_bytes(config),
            2 * parameters + 16 * static_cast<double>(config.model.adapter_parameters()) + rest);
}

TEST(MemoryCheck, RefusesWhatCannotFit) {
  const RunConfig config = tiny();
  const double needed = least_host_bytes(config);
  EXPECT_NO_THROW(check_memory(config, 1, needed));
  EXPECT_TRUE(
      refuses([&] { check_memory(config, 1, needed - 1); }, {"1 rank of ", "need at least ", "fix: a smaller model"}));
  EXPECT_TRUE(refuses([&] { check_memory(config, 2, needed); }, {"2 ranks of "}));
}

// On a GPU the host keeps no activations, no gradients, and moments only for checkpoints.
TEST(MemoryCheck, TheHostOfAGpuHoldsParametersAndWhatCheckpointsHold) {
  RunConfig config = tiny();
  const auto parameters = static_cast<double>(config.model.parameters());
  config.device = DeviceKind::cuda;
  EXPECT_EQ(least_host_bytes(config), 12 * parameters);
  config.dtype = DType::bf16;
  EXPECT_EQ(least_host_bytes(config), 14 * parameters);
  config.save = false;
  EXPECT_EQ(least_host_bytes(config), 6 * parameters);
  config.resume = "runs/mine";
  EXPECT_EQ(least_host_bytes(config), 14 * parameters);
  config.grid = {.data = 4};
  config.zero1 = true;
  EXPECT_EQ(least_host_bytes(config), (2 + 12.0 / 4) * parameters);
}

TEST(MemoryCheck, AHostTooSmallForTheCpuMayDoForAGpu) {
  RunConfig config = tiny();
  const double needed = least_host_bytes(config);
  config.device = DeviceKind::cuda;
  EXPECT_NO_THROW(check_memory(config, 1, needed - 1));
  EXPECT_TRUE(refuses([&] { check_memory(config, 2, needed); },
                      {"2 ranks of ", "of memory on the host", "and optimizer state", "--save=false"}));
}

}  // namespace
}  // namespace weft::train
