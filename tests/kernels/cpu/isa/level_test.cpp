// Levels of CPUs that this machine needn't have, and the choice among them.
#include "kernels/cpu/isa/level.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "kernels/cpu/isa/kernel_choice.h"

namespace weft::cpu {
namespace {

constexpr std::uint64_t kYmm = 0x7, kZmm = 0xe7;

// Registers as CPUID gives them on these CPUs.
constexpr CpuFeatures kHaswell{0x7ffafbbf, 0x000027ab, 0, 0x00000021, kYmm};
constexpr CpuFeatures kSkylakeServer{0x7ffefbff, 0xd39ffffb, 0, 0x00000121, kZmm};
constexpr CpuFeatures kZen4{0x7ef8320b, 0xf1bf97a9, 0x00000020, 0x75c237ff, kZmm};
constexpr CpuFeatures kSandyBridge{0x1fbae3bf, 0, 0, 0x00000001, kYmm};

TEST(IsaLevel, FollowsFromCpuid) {
  EXPECT_EQ(highest_level(kHaswell), IsaLevel::v3);
  EXPECT_EQ(highest_level(kSkylakeServer), IsaLevel::v4);
  EXPECT_EQ(highest_level(kZen4), IsaLevel::v4_bf16);
  EXPECT_EQ(highest_level(kSandyBridge), std::nullopt);
  EXPECT_EQ(highest_level({}), std::nullopt);
}

TEST(IsaLevel, NeedsRegistersThatTheSystemSaves) {
  CpuFeatures cpu = kZen4;
  cpu.xcr0 = kYmm;
  EXPECT_EQ(highest_level(cpu), IsaLevel::v3);
  cpu.xcr0 = 0x3;
  EXPECT_EQ(highest_level(cpu), std::nullopt);
}

TEST(IsaLevel, NeedsEveryInstructionSetOfTheLevel) {
  for (const std::uint32_t bit : {16U, 17U, 28U, 30U, 31U}) {
    CpuFeatures cpu = kZen4;
    cpu.leaf7_ebx &= ~(1U << bit);
    EXPECT_EQ(highest_level(cpu), IsaLevel::v3) << bit;
  }
  for (const std::uint32_t bit : {3U, 5U, 8U}) {
    CpuFeatures cpu = kZen4;
    cpu.leaf7_ebx &= ~(1U << bit);
    EXPECT_EQ(highest_level(cpu), std::nullopt) << bit;
  }
  for (const std::uint32_t bit : {0U, 9U, 12U, 13U, 19U, 20U, 22U, 23U, 27U, 28U, 29U}) {
    CpuFeatures cpu = kHaswell;
    cpu.leaf1_ecx &= ~(1U << bit);
    EXPECT_EQ(highest_level(cpu), std::nullopt) << bit;
  }
}

TEST(IsaLevel, IsTheHighestUnlessAnotherIsAsked) {
  EXPECT_EQ(choose_level("", kZen4), IsaLevel::v4_bf16);
  EXPECT_EQ(choose_level("v3", kZen4), IsaLevel::v3);
  EXPECT_EQ(choose_level("v4", kSkylakeServer), IsaLevel::v4);
  EXPECT_THROW(choose_level("v4-bf16", kSkylakeServer), UserError);
  EXPECT_THROW(choose_level("v4", kHaswell), UserError);
  EXPECT_THROW(choose_level("v5", kZen4), UserError);
  EXPECT_THROW(choose_level("", kSandyBridge), UserError);
  EXPECT_THROW(choose_level("v3", kSandyBridge), UserError);
}

TEST(IsaLevel, NamesAreReadBack) {
  for (const auto& [name, level] : kIsaLevels) {
    EXPECT_EQ(to_string(level), name);
    EXPECT_EQ(choose_level(name, kZen4), level);
  }
}

TEST(IsaLevel, OfThisBuildIsOneThatTheCpuHas) {
  const std::string built(compiled_level());
  EXPECT_EQ(built_levels(), std::vector<std::string>{built});
  EXPECT_EQ(kernel_level(), built);
  EXPECT_NO_THROW(choose_kernels(""));
  EXPECT_NO_THROW(choose_kernels(built));
  EXPECT_THROW(choose_kernels("v5"), UserError);
  for (const auto& [name, level] : kIsaLevels) {
    if (built != name) continue;
    EXPECT_GE(highest_level(features_of_this_cpu()), level);
  }
}

}  // namespace
}  // namespace weft::cpu
