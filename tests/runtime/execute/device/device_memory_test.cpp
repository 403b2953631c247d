// Ranks of one device share its free memory, and get an error before they take more.
#include "runtime/execute/device/device_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/base/messages.h"
#include "tests/runtime/execute/device/fake_device.h"

namespace weft::execute {
namespace {

constexpr std::int64_t kGib = std::int64_t{1} << 30;

std::string refusal(const Device& device, const DeviceNeed& need) {
  return testing::message_of<UserError>([&] { expect_device_memory(device, need); });
}

TEST(DeviceMemory, IsSharedByTheRanksOfADevice) {
  // Ranks 0 and 2 are on one device, which had less free when rank 2 looked.
  const std::vector<DeviceView> views = {{7, 80}, {9, 60}, {7, 70}};
  EXPECT_EQ(memory_share(views, 0), 35);
  EXPECT_EQ(memory_share(views, 1), 60);
  EXPECT_EQ(memory_share(views, 2), 35);
  EXPECT_EQ(memory_share(std::vector<DeviceView>{{7, 0}}, 0), 1) << "0 would be no limit";
}

TEST(DeviceMemory, WhatFitsIsTaken) {
  const auto device = testing::make_fake_device({.memory_bytes = 80 * kGib});
  EXPECT_EQ(refusal(*device, {30 * kGib, 10 * kGib, 40 * kGib}), "");
  EXPECT_EQ(refusal(*device, {300 * kGib, 10 * kGib, 0}), "") << "no limit";
}

TEST(DeviceMemory, WhatDoesNotFitIsRefusedWithItsParts) {
  const auto device = testing::make_fake_device({.memory_bytes = 80 * kGib});
  const std::string text = refusal(*device, {30 * kGib, 11 * kGib, 40 * kGib});
  EXPECT_TRUE(has_parts(text, {"needs at least 41.00 GiB of fake: 30.00 GiB of parameters", "11.00 GiB of activations",
                               "at most 40.00 GiB", "80.00 GiB in all", "fix: a smaller model"}));
  EXPECT_EQ(refusal(*device, {41 * kGib, 0, 40 * kGib}).find("activations"), std::string::npos);
  EXPECT_EQ(refusal(*device, {30 * kGib, 9 * kGib, 40 * kGib, kGib}), "");
  EXPECT_NE(refusal(*device, {30 * kGib, 9 * kGib, 40 * kGib, 2 * kGib}).find("2.00 GiB of communicators"),
            std::string::npos);
}

// A run that fits but for its kernels' scratch is told of the setting that limits it.
TEST(DeviceMemory, ScratchOfKernelsCounts) {
  const auto device = testing::make_fake_device({.memory_bytes = 80 * kGib});
  EXPECT_EQ(refusal(*device, {30 * kGib, 2 * kGib, 40 * kGib, kGib, 7 * kGib}), "");
  const std::string text = refusal(*device, {30 * kGib, 2 * kGib, 40 * kGib, kGib, 8 * kGib});
  EXPECT_TRUE(has_parts(text, {"8.00 GiB of kernels' scratch", "a smaller --attention-workspace"}));
  EXPECT_EQ(refusal(*device, {41 * kGib, 2 * kGib, 40 * kGib, 0, kGib}).find("--attention-workspace"),
            std::string::npos);
}

TEST(DeviceMemory, AFakeHasAnEnd) {
  const auto device = testing::make_fake_device({.memory_bytes = 8192});
  device->allocate(4096);
  device->allocate_pinned(4096);  // the host's
  EXPECT_EQ(device->memory().free, 4096);
  EXPECT_EQ(device->memory().total, 8192);
  EXPECT_THROW(device->allocate(4097), RuntimeFault);
  device->allocate(4096);
}

// tests/tools/cmd_memory_test.cpp has the estimates of plans.
TEST(AttentionWorkspace, OfCudnnIsTheGradientOfAllScores) {
  EXPECT_EQ(cudnn_backward_workspace({1, 32'768, 32, 32, 128}), 256 + 2 * 32 * (std::int64_t{1} << 30));
  // Rows are padded to 64 and columns to 128.
  EXPECT_EQ(cudnn_backward_workspace({3, 130, 5, 5, 64}), 256 + 2 * 15 * 192 * 256);
  EXPECT_EQ(cudnn_backward_workspace({1, 256, 4, 2, 64}), 256 + 2 * 4 * 256 * 256 + 2 * 2 * 4 * 256 * 64);
}

}  // namespace
}  // namespace weft::execute
