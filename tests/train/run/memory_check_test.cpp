// Runs that can't fit are refused with their least size.
#include "train/run/memory_check.h"

#include <gtest/gtest.h>

#include "tests/base/messages.h"

namespace weft::train {
namespace {

RunConfig tiny() {
  RunConfig config;
  config.micro_batch = 2;
  fill_in(config, 0);
  return config;
}

TEST(MemoryCheck, CountsParametersAndBlockInputs) {
  RunConfig config = tiny();
  // 4 blocks of 2 · 128 tokens of 256 floats.
  EXPECT_EQ(least_training_bytes(config), 16.0 * static_cast<double>(config.model.parameters()) + 4 * 256 * 256 * 4.0);
  config.dtype = DType::bf16;
  EXPECT_EQ(least_training_bytes(config), 16.0 * static_cast<double>(config.model.parameters()) + 4 * 256 * 256 * 2.0);
}

TEST(MemoryCheck, CountsTheRanksPart) {
  RunConfig config = tiny();
  const auto parameters = static_cast<double>(config.model.parameters());
  const double whole = least_training_bytes(config) - 16 * parameters;
  config.grid = {.x = 2, .y = 2, .z = 2};
  EXPECT_NEAR(least_training_bytes(config), 16 * parameters / 8 + whole / 2, 16);
  config.grid = {.data = 4};
  EXPECT_EQ(least_training_bytes(config), 16 * parameters + whole);
  config.zero1 = true;
  EXPECT_EQ(least_training_bytes(config), (8 + 12.0 / 4) * parameters + whole);
}

// Frozen weights have no gradient, no moments and no master copy.
TEST(MemoryCheck, CountsFrozenWeightsAlone) {
  RunConfig config = tiny();
  config.dtype = DType::bf16;
  const auto parameters = static_cast<double>(config.model.parameters());
  const double rest = least_training_bytes(config) - 16 * parameters;
  config.model.lora = {.rank = 8};
  EXPECT_EQ(least_training_bytes(config),
            2 * parameters + 16 * static_cast<double>(config.model.adapter_parameters()) + rest);
}

TEST(MemoryCheck, RefusesWhatCannotFit) {
  const RunConfig config = tiny();
  const double needed = least_training_bytes(config);
  EXPECT_NO_THROW(check_memory(config, 1, needed));
  EXPECT_TRUE(
      refuses([&] { check_memory(config, 1, needed - 1); }, {"1 rank of ", "need at least ", "fix: a smaller model"}));
  EXPECT_TRUE(refuses([&] { check_memory(config, 2, needed); }, {"2 ranks of "}));
}

// On a GPU the host keeps no activations, no gradients, and moments only for checkpoints.
TEST(MemoryCheck, TheHostOfAGpuHoldsParametersAndWhatCheckpointsHold) {
  RunConfig config = tiny();
  const auto parameters = static_cast<double>(config.model.parameters());
  EXPECT_EQ(least_host_bytes(config), least_training_bytes(config));
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
  const double needed = least_training_bytes(config);
  config.device = DeviceKind::cuda;
  EXPECT_NO_THROW(check_memory(config, 1, needed - 1));
  EXPECT_TRUE(refuses([&] { check_memory(config, 2, needed); },
                      {"2 ranks of ", "of memory on the host", "and optimizer state", "--save=false"}));
}

TEST(MemoryCheck, KnowsTheMachine) {
  EXPECT_GT(machine_memory_bytes(), 1 << 28);
}

}  // namespace
}  // namespace weft::train
