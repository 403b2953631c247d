// The texts of `weft doctor` about bf16, for CPUs that aren't at hand.
#include "tools/machine_checks.h"

#include <gtest/gtest.h>

namespace weft::tools {
namespace {

bool promises_speed(const MachineCheck& check) {
  return check.note.find("is faster") != std::string::npos;
}

TEST(MachineChecks, PromiseSpeedInBf16OnlyWhereItIsFaster) {
  const MachineCheck fast = check_bf16(PackedUnit::pairs, 2.0), slow = check_bf16(PackedUnit::pairs, 0.52);
  EXPECT_EQ(fast.value, "AVX512_BF16");
  EXPECT_TRUE(promises_speed(fast)) << fast.note;
  EXPECT_EQ(slow.value, "in fp32");
  EXPECT_FALSE(promises_speed(slow)) << slow.note;
  EXPECT_NE(slow.note.find("0.52 times as fast as fp32"), std::string::npos) << slow.note;
  EXPECT_EQ(check_bf16(PackedUnit::pairs, 1.0).value, "in fp32");
  EXPECT_EQ(check_bf16(PackedUnit::amx, {}).value, "AMX");
  EXPECT_EQ(check_bf16(PackedUnit::f32, {}).value, "in fp32");
  EXPECT_FALSE(promises_speed(check_bf16(PackedUnit::f32, {})));
}

}  // namespace
}  // namespace weft::tools
